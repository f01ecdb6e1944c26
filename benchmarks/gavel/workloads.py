"""The workloads of the experiments: Gavel's traces and oracle, or generated ones instead."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import apportion as ap
from apportion.sim.traces.oracle import read_oracle, read_pair_oracle

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from apportion.pairs import PairThroughputs

ORACLE = "simulation_throughputs.json.gz"
TRACES = {"makespan": "minimize_makespan", "arrivals": "max_min_fairness"}

# Shares of the scale factors of the two traces, and arrivals per hour.
SHAPES: dict[str, dict[str, Any]] = {
    "makespan": {"jobs": 100, "scale_factors": {1: 0.71, 2: 0.06, 4: 0.23}},
    "arrivals": {"jobs": 96, "scale_factors": {1: 0.61, 2: 0.2, 4: 0.19}, "jobs_per_hour": 7.5},
}


def read_trace(
    data: Path | None, trace: str, limit: int | None = None, seed: int | None = None
) -> ap.Workload:
    """Read one of Gavel's physical-cluster traces; without data or with a seed draw its like."""
    if data is None or seed is not None:
        workload = draw_jobs(data, seed=seed or 0, **SHAPES[trace])
        return workload if limit is None else workload.head(limit)
    path = data / "traces" / "physical_cluster" / f"{TRACES.get(trace, trace)}.trace"
    return ap.read_workload(path, throughputs=data / ORACLE, limit=limit)


def draw_jobs(data: Path | None, **options: Any) -> ap.Workload:
    """Generate a workload; with Gavel's data its jobs run at the speeds of the oracle.

    Durations are seconds on a v100 and ``total_steps`` are made of them, as Gavel's generator has
    it (Narayanan et al., OSDI 2020, section 7.1).
    """
    workload = ap.generate_workload(**options)
    if data is None:
        return workload
    oracle, pairs = _oracle(data)
    jobs = workload.jobs.copy()
    keys = list(zip(jobs["job_type"], jobs["scale_factor"], strict=True))
    jobs["total_steps"] = jobs["duration_s"].to_numpy() * oracle["v100"].loc[keys].to_numpy()
    return ap.Workload(workload.name, jobs, oracle, workload.notes, pairs)


@cache
def _oracle(data: Path) -> tuple[pd.DataFrame, PairThroughputs]:
    return read_oracle(data / ORACLE), read_pair_oracle(data / ORACLE)


def hours(run: ap.Run) -> dict[str, float]:
    """Return mean completion time and makespan in hours, and a few more figures of a run."""
    figures = run.summary()
    return {
        "mean_jct_h": figures["mean_jct_s"] / 3600,
        "makespan_h": figures["makespan_s"] / 3600,
        "utilization": figures["utilization"],
        "ftf_max": figures["ftf_max"],
        "preemptions": float(figures["preemptions"]),
        "rounds": float(figures["rounds"]),
        "wall_s": run.wall_seconds,
    }
