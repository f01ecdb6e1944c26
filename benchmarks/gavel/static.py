"""Makespan of so many jobs that are there at once: Gavel's figure of gangs on 36:36:36 GPUs.

``python -m benchmarks.gavel.static`` draws jobs as Gavel does, of one to eight GPUs, at the speeds
of its oracle, and runs the makespan policy, the same without knowing types, first in first out, and
Gandiva's ad-hoc packing. ``--gpus 12 --numbers 233`` has a third of the GPUs and of the jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.report.style import line_styles
from benchmarks.experiment import Settings, claimed, data_of, drawing, parser, run_all
from benchmarks.gavel.load import GPUS, RESOLVE_SECONDS, cluster_of
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

JOBS, QUICK_JOBS = (100, 300, 500, 700), (20, 40)
# Gavel's simulator, hours, by number of jobs; "fifo" is without knowing types.
GAVEL: dict[str, dict[int, int]] = {
    "makespan": dict(zip(JOBS, (161, 161, 169, 244), strict=True)),
    "makespan_agnostic": {},
    "makespan_space_sharing": dict(zip(JOBS, (164, 161, 168, 226), strict=True)),
    "fifo_agnostic": dict(zip(JOBS, (182, 296, 427, 620), strict=True)),
    "gandiva_packing": dict(zip(JOBS, (167, 200, 264, 347), strict=True)),
}
OTHERS = {"fifo_agnostic": "FIFO", "gandiva_packing": "Gandiva"}
JUDGED = ("makespan", *OTHERS)


def main() -> None:
    """Run every policy with every number of jobs, print hours and ratios."""
    what = parser("gavel.static", "Makespan against jobs.", "20 and 40 jobs")
    what.add_argument("--numbers", type=int, nargs="+", metavar="N", help="of jobs")
    what.add_argument("--policies", nargs="+", default=list(JUDGED), choices=list(GAVEL))
    what.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="N")
    what.add_argument("--gpus", type=int, default=GPUS, metavar="N", help="of each type")
    options = what.parse_args()
    print(f"Makespans on {machine()}")
    data_of(options)
    settings = [
        {"policy": policy, "jobs": jobs, "seed": seed, "gpus": options.gpus}
        for jobs in options.numbers or (QUICK_JOBS if options.quick else JOBS)
        for seed in options.seeds
        for policy in options.policies
    ]
    runs = run_all(_work, settings, options, "gavel_static")
    table = runs.groupby(["jobs", "policy"], sort=False)["makespan h"].mean().reset_index()
    known = [
        GAVEL[str(policy)].get(int(jobs)) if options.gpus == GPUS else None
        for policy, jobs in zip(table["policy"], table["jobs"], strict=True)
    ]
    own = table[table["policy"] == "makespan"].set_index("jobs")["makespan h"]
    table["over makespan"] = table["makespan h"] / table["jobs"].map(own)
    table["Gavel h"] = pd.Series(known, dtype=float)
    show(table)
    ratios = [
        Figure(f"{OTHERS[policy]} {jobs}", float(ratio))
        for jobs, policy, ratio in table[["jobs", "policy", "over makespan"]].itertuples(
            index=False
        )
        if policy in OTHERS
    ]
    if ratios and not options.quick and options.gpus == GPUS:
        claimed("gavel", "makespan-static", ratios)
    most = round(JOBS[-1] * options.gpus / GPUS)
    shared = table[(table["policy"] == "makespan_space_sharing") & (table["jobs"] == most)]
    if len(shared):
        gained = Figure(f"{most} jobs", 1 / float(shared["over makespan"].item()))
        claimed("gavel", "makespan-sharing", [gained])
    write_csv(table, options.out, "gavel_static")
    with drawing(options.out, "gavel_static") as figure:
        if figure is not None:
            axes: Any = figure.subplots()
            for policy, style in line_styles(options.policies).items():
                rows = table[table["policy"] == policy]
                axes.plot(rows["jobs"], rows["makespan h"], marker="o", label=policy, **style)
                axes.plot(rows["jobs"], rows["Gavel h"], "x", color=style["color"])
            axes.set(xlabel="jobs", ylabel="makespan (hours); x: Gavel", ylim=(0, None))
            axes.legend(fontsize="small")


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    jobs, seed = settings["jobs"], settings["seed"]
    workload = draw_jobs(data, jobs=jobs, seed=seed, scale_factors="gavel")
    cluster = cluster_of(settings["gpus"])
    run = ap.simulate(
        settings["policy"],
        workload,
        cluster,
        resolve_seconds=RESOLVE_SECONDS,
        preemption_overhead_seconds=0.0,
    )
    return {"makespan h": run.summary()["makespan_s"] / 3600}


if __name__ == "__main__":
    main()
