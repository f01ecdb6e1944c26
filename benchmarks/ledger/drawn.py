"""``python -m benchmarks.ledger.drawn``: which runs of drawn workloads end otherwise than they did.

Workloads of five kinds take turns: types, racks, iterations, links, elastic jobs. Each runs under a
few of those who decide for its kind, another few with the next seed, so that all of them have had
their turn after 200 workloads. ``drawn.csv`` beside this file has a digest of each run: of the jobs
and the schedule, every number to nine digits, so that the order of a sum does not count. Runs on
shared links are short, because rounding grows from iteration to iteration. ``--write`` puts the
digests of today into the file.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

import apportion as ap
from apportion.elastic import DiurnalRate, generate_requests
from apportion.testing import drawn
from benchmarks.reporting import progress

FILE = Path(__file__).with_name("drawn.csv")
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
    """Return a row for each run of a workload: its name, mean completion time, end, and digest."""
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
            run = ap.simulate(name, jobs, cluster, **how)
            row["mean_jct_s"] = f"{run.jobs['jct_s'].mean():.9g}"
            row["makespan_s"] = f"{run.jobs['completion_s'].max():.9g}"
            row["digest"] = digest(run)
        except ap.ApportionError as error:
            row |= {"mean_jct_s": "", "makespan_s": "", "digest": type(error).__name__}
        rows.append(row)
    return rows


def digest(run: ap.Run) -> str:
    """Return what is equal where jobs and schedule are, to nine digits."""
    tables = [run.jobs] if run.schedule is None else [run.jobs, run.schedule]
    texts = [table.to_csv(float_format="%.9g", lineterminator="\n") for table in tables]
    return sha256("\n".join(texts).encode()).hexdigest()[:16]


def differing(workloads: range) -> pd.DataFrame:
    """Run workloads; return the rows that are not as in the file, with both figures."""
    known = pd.read_csv(FILE, dtype=str, keep_default_na=False).set_index("run")
    now = table_of(workloads)
    before = known.reindex(now.index)
    differs = (now["digest"] != before["digest"]).to_numpy()
    return now[differs].join(before[differs].add_suffix("_before"))


def table_of(workloads: range) -> pd.DataFrame:
    """Return the rows of workloads, by run."""
    rows = []
    for workload in workloads:
        progress(f"workload {workload}")
        rows += runs(workload)
    progress("")
    return pd.DataFrame(rows).set_index("run")


def main() -> int:
    """Compare, or write; 1 if something differs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ledger.drawn", description="Runs of drawn workloads."
    )
    parser.add_argument("--workloads", type=int, default=WORKLOADS, help="(default: 200)")
    parser.add_argument("--write", action="store_true", help="write the digests of today")
    options = parser.parse_args()
    if options.write:
        table_of(range(WORKLOADS)).to_csv(FILE, lineterminator="\n")
        return 0
    differs = differing(range(options.workloads))
    print(f"{len(differs)} runs of {options.workloads} workloads end otherwise.")
    print(differs.to_string() if len(differs) else "")
    return int(len(differs) > 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    raise SystemExit(main())
