"""How far deciders are from anything possible, and what it takes to know.

``python -m benchmarks.floors`` bounds generated workloads of more and more jobs from below and
prints the CPU seconds, the peak of memory so far, and how far the bound may be below the best of
its kind. Then it runs deciders on several draws and prints by how much of the floor they are above
it: mean completion time, makespan, worst finish-time fairness; of the first with 95 % intervals
over draws. At last ``least_mean_completion``, as shares of time in rounds too, and as such exactly,
stands beside the shortest job first over 20 seeds of five workloads, with paired 95 % intervals and
what each takes. ``--parts`` chooses among the three tables; of the last, ``--first`` is the first
seed, and ``--workloads`` chooses among the workloads.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.statistics import mean_interval, paired
from benchmarks.experiment import Settings, chosen, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

CLUSTER = "v100=36,p100=36,k80=36"
DECIDERS = (
    "least_mean_completion",
    "max_min_fairness",
    "shortest_job_first",
    "finish_time_fairness",
    "makespan",
    "nash_welfare",
    "fifo",
    "minimum_completion_time",
    "easy",
    "fcfs",
)
LOADS = (10.0, 20.0)
"""Jobs an hour."""

PARTS = ("sizes", "deciders", "nearest")

NEAREST: dict[str, tuple[dict[str, Any], str]] = {
    "108 GPUs": ({"jobs": 200, "jobs_per_hour": 20.0, "scale_factors": "gavel"}, CLUSTER),
    "24 GPUs": (
        {"jobs": 60, "jobs_per_hour": 8.0, "scale_factors": "gavel"},
        "v100=8,p100=8,k80=8",
    ),
    "24 GPUs, no gangs": ({"jobs": 30, "jobs_per_hour": 6.0}, "v100=8,p100=8,k80=8"),
    "16 GPUs": ({"jobs": 40, "jobs_per_hour": 4.0, "scale_factors": "gavel"}, "v100=8,k80=8"),
    "40 GPUs": (
        {"jobs": 80, "jobs_per_hour": 14.0, "scale_factors": "gavel"},
        "v100=8,p100=16,k80=16",
    ),
}
"""Workloads by what they are called, and their clusters."""


FREE = {"preemption_overhead_seconds": 0.0}
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "shortest_job_first": ("shortest_job_first", FREE),
    "least_mean_completion": ("least_mean_completion", FREE),
    "shares": (ap.LeastMeanCompletion(integral=False), FREE),
    "shares, exactly": (ap.LeastMeanCompletion(integral=False), {"mechanism": "exact"}),
}


def main() -> None:
    """Print the tables."""
    asked = parser("floors", "Floors under completion times.", "few jobs, one draw")
    asked.add_argument("--parts", nargs="+", default=PARTS, metavar="PART", help=", ".join(PARTS))
    asked.add_argument("--first", type=int, default=0, metavar="SEED", help="of the nearest")
    asked.add_argument("--workloads", nargs="+", metavar="NAME", help="of the nearest")
    options = asked.parse_args()
    print(f"on {machine()}")
    for part in chosen("part", options.parts, PARTS):
        {"sizes": _sizes, "deciders": _deciders, "nearest": _nearest}[part](options)


def _sizes(options: argparse.Namespace) -> None:
    show(pd.DataFrame([_taken(jobs) for jobs in ((50, 100) if options.quick else SIZES)]))


def _deciders(options: argparse.Namespace) -> None:
    draws = 1 if options.quick else 10
    settings: list[Settings] = [
        {"load": load, "decider": decider, "jobs": 40 if options.quick else 200, "seed": seed}
        for load in LOADS[: 1 if options.quick else 2]
        for seed in range(draws)
        for decider in DECIDERS
    ]
    print(f"\nabove the floor, %: {settings[0]['jobs']} jobs, {draws} draws, {CLUSTER}")
    table = _compared(run_all(_work, settings, options, "floors"))
    show(table)
    write_csv(table, options.out, "floors")


def _nearest(options: argparse.Namespace) -> None:
    draws = 2 if options.quick else 20
    settings: list[Settings] = [
        {"workload": name, "way": way, "seed": seed}
        for name in options.workloads or (list(NEAREST)[1:2] if options.quick else NEAREST)
        for seed in range(options.first, options.first + draws)
        for way in WAYS
    ]
    print(f"\nmean JCT above the floor, %, over {draws} seeds, and to the shortest job first")
    table = _set_against(run_all(_near, settings, options, "nearest"))
    show(table)
    write_csv(table, options.out, "nearest")


def _near(settings: Settings, _data: Path | None) -> dict[str, Any]:
    """Simulate one way on one draw, timed when each has run once."""
    given, cluster = NEAREST[settings["workload"]]
    workload = ap.generate_workload(seed=settings["seed"], **given)
    decider, how = WAYS[settings["way"]]
    key = settings["workload"], settings["seed"]
    if key not in _KNOWN:
        for warm, other in () if _KNOWN else WAYS.values():
            ap.simulate(warm, workload, cluster, **other)
        _KNOWN.clear()
        _KNOWN[key] = ap.floor(workload, cluster)
    started = time.process_time()
    run = ap.simulate(decider, workload, cluster, **how)
    taken_s = time.process_time() - started
    mean_s = float(run.jobs["jct_s"].mean())
    above = run.above_floor(_KNOWN[key])["mean_jct"]
    return {"mean_s": mean_s, "above": 100 * above, "cpu_s": taken_s, "solves": run.solves}


def _set_against(runs: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds, and ratios to the shortest job first over the same seeds."""
    rows = []
    for workload, some in runs.groupby("workload", sort=False):
        by_way = {way: each.set_index("seed") for way, each in some.groupby("way", sort=False)}
        first = by_way["shortest_job_first"]
        for way, each in by_way.items():
            mean = mean_interval(each["above"])
            row = {"workload": workload, "way": way, "above": mean.estimate, "low": mean.low}
            row |= {"high": mean.high, "most": each["above"].max()}
            if way != "shortest_job_first":
                ratio = paired(each["mean_s"], first["mean_s"], ratio=True)
                row |= {"JCT to SJF": ratio.estimate, "from": ratio.low, "to": ratio.high}
            row["CPU s"] = each["cpu_s"].mean()
            rows.append({**row, "CPU to SJF": each["cpu_s"].sum() / first["cpu_s"].sum()})
    return pd.DataFrame(rows)


SIZES = (200, 1000, 10_000)
"""Jobs."""


def _jobs(jobs: int, load: float, seed: int) -> ap.Workload:
    return ap.generate_workload(
        jobs=jobs, seed=seed, jobs_per_hour=load, scale_factors="gavel", arrivals="poisson"
    )


def _taken(jobs: int) -> dict[str, Any]:
    """Return what one floor takes."""
    workload = _jobs(jobs, LOADS[0], 0)
    started = time.process_time()
    found = ap.floor(workload, CLUSTER)
    return {
        "jobs": jobs,
        "CPU s": time.process_time() - started,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "mean JCT h": found.mean_jct_s / 3600,
        "below the best of its kind, at most %": 100 * found.gap,
        **{f"one more {name}, min": each / 60 for name, each in found.shorter_by_s.items()},
    }


def _work(settings: Settings, _data: Path | None) -> dict[str, Any]:
    """Simulate one."""
    workload = _jobs(settings["jobs"], settings["load"], settings["seed"])
    above = ap.simulate(
        settings["decider"], workload, CLUSTER, preemption_overhead_seconds=0.0
    ).above_floor(_floor(settings))
    return {name: 100 * each for name, each in above.items()}


_KNOWN: dict[tuple[Any, ...], Any] = {}


def _floor(settings: Settings) -> Any:
    """Return the floor of a draw, found once for all deciders in a row."""
    key = settings["jobs"], settings["load"], settings["seed"]
    if key not in _KNOWN:
        _KNOWN.clear()
        _KNOWN[key] = ap.floor(_jobs(*key), CLUSTER)
    return _KNOWN[key]


def _compared(runs: pd.DataFrame) -> pd.DataFrame:
    """Return means over draws."""
    rows = []
    for (load, decider), some in runs.groupby(["load", "decider"], sort=False):
        mean = mean_interval(some["mean_jct"])
        row = {"jobs/h": load, "decides": decider, "mean JCT": mean.estimate, "low": mean.low}
        rest = {"makespan": some["makespan"].mean(), "worst FTF": some["ftf_max"].mean()}
        rows.append({**row, "high": mean.high, **rest})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
