"""Goal D5: the simulator beside Gavel's, on the same jobs, both with their policies.

All jobs are there at the beginning, gangs of four and eight that want seven times the GPUs, so that
GPUs are scarce at four of five decisions. Ours is solved at every event, Gavel's at most every
1,920 s.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import apportion as ap
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.reporting import progress
from benchmarks.speed.measure import Pair, Row, cpu_seconds
from benchmarks.speed.problems import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.speed.measure import Settings

__all__ = ["POLICIES", "simulator"]

POLICIES = (
    *("max_min_fairness", "makespan", "finish_time_fairness"),
    *("fifo", "max_total_throughput", "min_cost"),
)
"""Policies that both have."""

_SIZES = ((108, 130, 8.0), (1080, 1300, 30.0))
"""GPUs, jobs, and how many times as fast as Gavel's simulator."""
_GAVEL_RESOLVES_S = 1920.0
_GANGS = {4: 0.5, 8: 0.5}
_LONGEST_S = 12 * 3600.0
_BINDING = 0.8


def simulator(settings: Settings) -> Iterator[Row]:
    """Simulate a batch of jobs on 108 and on 1,080 GPUs."""
    sizes = ((48, 80, 8.0),) if settings.quick else _SIZES
    for gpus, jobs, goal in sizes:
        for policy in settings.of(POLICIES):
            progress(f"d5: {policy}, {jobs} jobs on {gpus} GPUs")
            pairs = tuple(
                _pair(policy, gpus, jobs, seed, settings) for seed in range(settings.seeds)
            )
            what = f"{policy}, {jobs} jobs on {gpus} GPUs, a round"
            yield Row("D5", what, pairs, times_goal=goal)


def _pair(policy: str, gpus: int, jobs: int, seed: int, settings: Settings) -> Pair:
    """Return CPU seconds of a round, ours the median of a run before Gavel's and one after it."""
    workload = _workload(settings, jobs, seed)
    cluster = dict.fromkeys(TYPES, gpus // len(TYPES))
    ours = partial(
        ap.simulate,
        policy,
        workload,
        cluster,
        resolve_seconds=0.0,
        preemption_overhead_seconds=0.0,
    )
    before_s, run = cpu_seconds(ours)
    _check_scarce(policy, run, cluster)
    found = settings.gavel.simulate(policy, workload, cluster, _GAVEL_RESOLVES_S)
    round_s = np.median([before_s, cpu_seconds(ours)[0]]) / len(run.rounds)
    if not found:
        return Pair(round_s, peer="Gavel's simulator")
    theirs_s = found["seconds"] / found["rounds"]
    differ = abs(found["mean_jct_s"] / run.summary()["mean_jct_s"] - 1)
    return Pair(round_s, theirs_s, f"Gavel's simulator ({found['solver']})", differ)


def _workload(settings: Settings, jobs: int, seed: int) -> ap.Workload:
    """Draw a batch; no job takes more than twelve hours, or the cluster is idle at the end."""
    drawn = draw_jobs(settings.data, jobs=jobs, seed=seed, scale_factors=_GANGS)
    table = drawn.jobs.copy()
    long = np.minimum(_LONGEST_S / table["duration_s"].to_numpy(), 1.0)
    table[["duration_s", "total_steps"]] *= long[:, None]
    return ap.Workload(drawn.name, table, drawn.throughputs, drawn.notes, drawn.pairs)


def _check_scarce(policy: str, run: ap.Run, cluster: dict[str, int]) -> None:
    """Refuse a run in which there are GPUs for all at more than one of five decisions.

    Raises
    ------
    RuntimeError
        If there are.
    """
    start_s = run.rounds.loc[run.rounds["resolved"], "start_s"].to_numpy()
    present = run.jobs["completion_s"].to_numpy() > start_s[:, None]
    wanted = present @ run.jobs["scale_factor"].to_numpy()
    scarce = float((wanted >= sum(cluster.values())).mean())
    if scarce < _BINDING:
        raise RuntimeError(f"{policy}: GPUs are scarce at {scarce:.0%} of the decisions.")
