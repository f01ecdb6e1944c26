"""How far deciders are from anything possible, and what it takes to know.

``python -m benchmarks.floors`` bounds generated workloads of more and more jobs from below and
prints the CPU seconds, the peak of memory so far, and how far the bound may be below the best of
its kind. Then it runs deciders on several draws and prints by how much of the floor they are above
it: mean completion time, makespan, worst finish-time fairness; of the first with 95 % intervals
over draws.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.statistics import mean_interval
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
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


def main() -> None:
    """Print both tables."""
    options = parser("floors", "Floors under completion times.", "few jobs, one draw").parse_args()
    sizes, draws = ((50, 100), 1) if options.quick else ((200, 1000, 10_000), 10)
    print(f"on {machine()}")
    show(pd.DataFrame([_taken(jobs) for jobs in sizes]))
    settings: list[Settings] = [
        {"load": load, "decider": decider, "jobs": 40 if options.quick else 200, "seed": seed}
        for load in LOADS[: 1 if options.quick else 2]
        for seed in range(draws)
        for decider in DECIDERS
    ]
    print(f"\nabove the floor, %: {settings[0]['jobs']} jobs, {draws} draws, {CLUSTER}")
    runs = run_all(_work, settings, options, "floors")
    table = _compared(runs)
    show(table)
    write_csv(table, options.out, "floors")


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
    above = ap.simulate(settings["decider"], workload, CLUSTER).above_floor(_floor(settings))
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
