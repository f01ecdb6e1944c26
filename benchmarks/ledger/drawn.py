"""``python -m benchmarks.ledger.drawn``: jobs tables of drawn workloads, to compare two commits.

Workloads of five kinds take turns: types, racks, iterations, links, elastic jobs. Each runs under a
few of those who decide for its kind, another few with the next seed, so that all of them have had
their turn after 200 workloads. ``--out`` of one commit is ``--against`` of another; what is written
already is not run again. Copy this file into a commit that is older than it.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

import apportion as ap
from apportion.elastic import DiurnalRate, generate_requests
from apportion.testing import drawn

KINDS = ("types", "racks", "sending", "links", "elastic")
EACH = {"types": 5, "racks": 4, "sending": 4, "links": 2, "elastic": 4}
"""Runs of a workload, by its kind."""
_TYPES = (
    *("max_min_fairness", "finish_time_fairness", "makespan", "hierarchical_fairness", "cohort"),
    *("fair_over_time", "fifo", "shortest_job_first", "max_total_throughput", "min_cost"),
    *("min_cost_slos", "isolated", "proportional", "nash_welfare", "strategy_proof"),
    *("gandiva_packing", "max_min_fairness_agnostic", "max_min_fairness_space_sharing"),
    *("fcfs", "easy", "conservative"),
)


def ways(kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Return who decides for workloads of a kind, and the settings."""
    leases, rules = (ap.scheduler_table(by)["name"] for by in ("leases", "configurations"))
    exact = [(name, {"mechanism": "exact"}) for name in ("max_min_fairness", "fifo", "makespan")]
    paid = [(name, {"preemption_overhead_seconds": 45.0}) for name in (_TYPES[0], _TYPES[7])]
    served = ap.Serving(generate_requests(DiurnalRate(0.1, 0.5), length_s=3600.0))
    gates, orders = ("always", "at_most_1", "ada_dual", "rollout"), ("fifo", "smallest")
    offered = [*leases, "max_min_fairness", "network_sensitive", "dally_round"]
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "types": [(name, {}) for name in _TYPES] + exact + paid,
        "racks": [(name, {"mechanism": "leases"}) for name in offered]
        + [("max_min_fairness", {"network": "alpha_beta"}), ("fcfs", {})],
        "sending": [("ada_srsf", {"gate": gate}) for gate in gates]
        + [("ada_srsf", {"order": order}) for order in orders]
        + [("srsf_1", {}), ("max_min_fairness", {})],
        "links": [
            (name, {"network": network})
            for name in ("max_min_fairness", "fifo")
            for network in ("phases", "phases_unshifted", "cassini")
        ],
        "elastic": [(name, {}) for name in ("sia", "pollux", "deepboot", "optimus", "lyra", *rules)]
        + [("deepboot", {"serving": served})],
    }
    return found[kind]


def runs(workload: int) -> dict[str, str]:
    """Return the jobs tables of a workload by what they are of, or the errors."""
    kind, seed = KINDS[workload % len(KINDS)], workload // len(KINDS)
    each, found = ways(kind), {}
    for turn in range(EACH[kind]):
        name, how = each[(seed * EACH[kind] + turn) % len(each)]
        told = {key: value for key, value in how.items() if isinstance(value, str | float)}
        said = "".join(f"-{key}={value}" for key, value in told.items())
        try:
            jobs = ap.simulate(name, *drawn(kind, seed, gangs=seed % 3 != 0), **how).jobs
            text = jobs.to_csv(lineterminator="\n")
        except ap.ApportionError as error:
            text = f"{type(error).__name__}: {error}\n"
        found[f"{workload:04d}-{kind}-{name}{said}{'-served' * ('serving' in how)}"] = text
    return found


def main() -> int:
    """Write the tables; 1 if some are not as in the other folder."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    for workload in range(options.workloads):
        if not [*options.out.glob(f"{workload:04d}-*.csv")]:
            for name, text in runs(workload).items():
                (options.out / f"{name}.csv").write_text(text, encoding="utf-8")
    if options.against is None:
        return 0
    table = differing(options.against, options.out)
    there = len([*options.out.glob("*.csv")])
    print(f"{there - len(table)} of {there} tables are the same to the last byte.")
    print(table.to_string(index=False) if len(table) else "")
    return int(len(table) > 0)


def differing(before: Path, now: Path) -> pd.DataFrame:
    """Return the tables that are not the same, with the largest relative change of a JCT."""
    rows = []
    for file in sorted(now.glob("*.csv")):
        other, text = before / file.name, file.read_text(encoding="utf-8")
        if other.exists() and other.read_text(encoding="utf-8") == text:
            continue
        moved = float("nan")
        if other.exists() and text.startswith("job,") and other.read_text().startswith("job,"):
            jct = [pd.read_csv(each, index_col=0)["jct_s"] for each in (other, file)]
            moved = float((jct[1] / jct[0] - 1).abs().max())
        rows.append({"run": file.stem, "JCT moves by": moved})
    return pd.DataFrame(rows, columns=["run", "JCT moves by"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.ledger.drawn", description="Jobs tables of drawn workloads."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--against", type=Path, help="folder of another commit's")
    parser.add_argument("--workloads", type=int, default=200, help="(default: 200)")
    return parser.parse_args()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    raise SystemExit(main())
