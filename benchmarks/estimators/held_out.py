"""What estimated speeds cost on traces that nothing was tuned on.

``python -m benchmarks.estimators.held_out`` runs the ways of `benchmarks.estimators.suite` on
Gavel's trace with arrivals (96 jobs, gangs up to four GPUs, 8 V100, 16 P100, 24 K80, the speeds of
its oracle) and on the first 100 jobs of Microsoft's ITP cluster 10 (drawn job types, gangs up to
16, 16 GPUs of each type, of which 3 % are in use). Both stand beside the checkout and are not part
of it. Five draws of references each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

import apportion as ap
from benchmarks.estimators.suite import KINDS, TOLD, knowledge
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.gavel.workloads import read_trace
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

CLUSTERS = {"gavel": "v100=8,p100=16,k80=24", "itp": "v100=16,p100=16,k80=16"}
JOBS, SEEDS = 100, 5


def main() -> None:
    """Print completion times over told, one column for each trace."""
    options = parser("estimators.held_out", "Estimates on traces.", "12 jobs, 1 seed").parse_args()
    itp = options.data.resolve().parent / "microsoft_itp" / "cluster10.csv.gz"
    if not (options.data.is_dir() and itp.is_file()):
        print(f"skipped: traces absent ({options.data}, {itp})")
        return
    jobs, seeds = (12, 1) if options.quick else (JOBS, SEEDS)
    print(f"Estimated speeds on {machine()}")
    settings = [
        {"trace": trace, "kind": kind, "seed": seed, "jobs": jobs, "itp": str(itp)}
        for trace in CLUSTERS
        for seed in range(seeds)
        for kind in KINDS
    ]
    runs = run_all(_work, settings, options, "estimator_held_out").drop(columns="itp")
    hours = runs.pivot_table("mean_jct_h", ["trace", "seed"], "kind", sort=False)[list(KINDS)]
    ratios = hours.div(hours[TOLD], axis=0)
    table = pd.DataFrame({"kind": KINDS})
    for trace, part in ratios.groupby("trace", sort=False):
        for figure in ("mean", "min", "max"):
            table[f"{trace} {figure}"] = part.agg(figure).to_numpy()
    show(table, 4)
    write_csv(runs, options.out, "estimator_held_out_runs")


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Simulate one trace with one kind of knowledge; return the mean completion time, hours."""
    if settings["trace"] == "gavel":
        load = read_trace(data, "arrivals", settings["jobs"])
    else:
        load = ap.read_workload(settings["itp"], limit=settings["jobs"])
    beliefs = knowledge(settings["kind"], settings["seed"])
    cluster = CLUSTERS[settings["trace"]]
    run = ap.simulate(
        "max_min_fairness", load, cluster, beliefs=beliefs, preemption_overhead_seconds=0.0
    )
    return {"mean_jct_h": float(run.jobs["jct_s"].mean()) / 3600}


if __name__ == "__main__":
    main()
