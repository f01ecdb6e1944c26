"""Goal P12: rounds per second of the simulator, with placement, the policy included."""

from __future__ import annotations

import time

import numpy as np

import apportion as ap
from benchmarks.speed.harness import Row

__all__ = ["simulator"]

GAVEL_ROUNDS_PER_S = {108: 400.0, 1080: 61.0}
"""Rounds/s of Gavel's simulator under max-min fairness, by GPUs (300 and 2,000 jobs)."""


def simulator(quick: bool) -> list[Row]:
    """Simulate max-min fairness on growing clusters."""
    sizes = ((27, 30, 2.0),) if quick else ((108, 300, 8.0), (1080, 2000, 80.0))
    rows = []
    for gpus, jobs, per_hour in sizes:
        goal = 20 if gpus <= 108 else 50
        run, seconds = _run(gpus, jobs, per_hour)
        row = Row(
            *("P12", f"{jobs} jobs on {gpus} GPUs, seconds per round", f">= {goal} x Gavel's"),
            theirs="Gavel's simulator (cited)",
            theirs_s=1 / GAVEL_ROUNDS_PER_S.get(gpus, np.nan),
            ours_s=seconds / len(run.rounds),
            note=f"{len(run.rounds) / seconds:,.0f} rounds/s, {run.solves} solves, "
            f"{run.policy_seconds / run.wall_seconds:.0%} of the time in the policy",
        )
        row.met = row.ratio >= goal
        rows.append(row)
    if not quick:
        run, seconds = _run(10_800, 20_000, 800.0)
        row = Row(
            *("P12", "20,000 jobs on 10,800 GPUs, whole trace", "<= 10 s"),
            ours_s=seconds,
            note=f"{len(run.rounds) / seconds:,.0f} rounds/s, {run.solves} solves",
        )
        row.met = seconds <= 10
        rows.append(row)
    return rows


def _run(gpus: int, jobs: int, jobs_per_hour: float) -> tuple[ap.Run, float]:
    """Simulate, and give the CPU seconds that it took."""
    workload = ap.generate_workload(
        jobs=jobs, seed=0, jobs_per_hour=jobs_per_hour, scale_factors="gavel"
    )
    cluster = {name: gpus // 3 for name in ("v100", "p100", "k80")}
    started = time.process_time()
    run = ap.simulate("max_min_fairness", workload, cluster)
    return run, time.process_time() - started
