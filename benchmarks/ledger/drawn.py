"""Runs of drawn workloads.

Workloads of five kinds take turns: types, racks, iterations, links, elastic jobs. Each runs under a
few of those who decide for its kind, another few with the next seed, so that all of them have had
their turn after 200 workloads. Runs on shared links are short, because rounding grows from
iteration to iteration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import apportion as ap
from apportion.elastic import DiurnalRate, generate_requests
from apportion.testing import drawn
from benchmarks.ledger.runs import FIGURES, figures
from benchmarks.reporting import progress

WORKLOADS = 200
MOST_ITERATIONS = 12
"""Of a job on shared links."""

KINDS = ("types", "racks", "sending", "links", "elastic")
EACH = {"types": 6, "racks": 6, "sending": 4, "links": 4, "elastic": 4}
"""Runs of a workload, by its kind."""
_TYPES = (
    *("max_min_fairness", "finish_time_fairness", "makespan", "hierarchical_fairness", "cohort"),
    *("fair_over_time", "fifo", "shortest_job_first", "max_total_throughput", "min_cost"),
    *("min_cost_slos", "isolated", "proportional", "nash_welfare", "strategy_proof"),
    *("gandiva_packing", "max_min_fairness_agnostic", "max_min_fairness_space_sharing"),
)


def ways(kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Return who decides for workloads of a kind, and the settings."""
    mechanisms = ("leases", "configurations", "queue")
    leases, rules, queues = (ap.scheduler_table(by)["name"] for by in mechanisms)
    exact = [(name, {"mechanism": "exact"}) for name in ("max_min_fairness", "fifo", "makespan")]
    paid = [(name, {"preemption_overhead_seconds": 45.0}) for name in (_TYPES[0], _TYPES[7])]
    served = ap.Serving(generate_requests(DiurnalRate(0.1, 0.5), length_s=3600.0))
    gates, orders = ("always", "at_most_1", "ada_dual", "at_most_2"), ("fifo", "smallest")
    offered = [*leases, "max_min_fairness", "network_sensitive", "dally_round"]
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "types": [(name, {}) for name in (*_TYPES, *queues)] + exact + paid,
        "racks": [(name, {"mechanism": "leases"}) for name in offered]
        + [(name, {"network": "alpha_beta"}) for name in ("max_min_fairness", *queues)],
        "sending": [("ada_srsf", {"gate": gate}) for gate in gates]
        + [("ada_srsf", {"order": order}) for order in orders]
        + [("srsf_1", {}), ("max_min_fairness", {})],
        "links": [
            (name, {"network": network})
            for name in ("max_min_fairness", "fifo")
            for network in ("phases", "phases_unshifted", "cassini")
        ],
        "elastic": [(name, {}) for name in ("sia", "pollux", "deepboot", "optimus", "lyra", *rules)]
        + [("pollux", {"goodputs": "virtual_nodes"}), ("deepboot", {"serving": served})],
    }
    return found[kind]


def runs(workload: int) -> list[dict[str, Any]]:
    """Return a row for each run of a workload: its name, figures, and the error that ended it."""
    kind, seed = KINDS[workload % len(KINDS)], workload // len(KINDS)
    each, rows = ways(kind), []
    for turn in range(EACH[kind]):
        name, how = each[(seed * EACH[kind] + turn) % len(each)]
        plain = {key: value for key, value in how.items() if isinstance(value, str | float)}
        said = "".join(f"-{key}={value}" for key, value in plain.items())
        jobs, cluster = drawn(kind, seed, gangs=seed % 3 != 0)
        if kind == "links":
            steps = jobs.jobs["total_steps"].clip(upper=MOST_ITERATIONS)
            jobs = replace(jobs, jobs=jobs.jobs.assign(total_steps=steps))
        row: dict[str, Any] = {
            "run": f"{workload:04d}-{kind}-{name}{said}{'-served' * ('serving' in how)}"
        }
        try:
            row |= figures(ap.simulate(name, jobs, cluster, **how)) | {"error": ""}
        except ap.ApportionError as error:
            row |= dict.fromkeys(FIGURES) | {"error": type(error).__name__}
        rows.append(row)
    return rows


def drawn_rows(workloads: range) -> list[dict[str, Any]]:
    """Return the figures of every run of some workloads."""
    rows = []
    for workload in workloads:
        progress(f"workload {workload}")
        rows += runs(workload)
    return rows
