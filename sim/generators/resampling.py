"""Bootstrap: workloads that are like one that is known, to see how much of a result is chance."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, overload

import numpy as np

from apportion.annotations import checked
from apportion.jobs import RECORDED_TIMES
from apportion.sim.generators.distributions import streams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload


@overload
def resample(workload: Workload, seed: int, *, blocks: bool = False) -> Workload: ...


@overload
def resample(workload: ElasticWorkload, seed: int, *, blocks: bool = False) -> ElasticWorkload: ...


@checked
def resample(
    workload: Workload | ElasticWorkload, seed: int, *, blocks: bool = False
) -> Workload | ElasticWorkload:
    """Draw as many jobs as a workload has out of its jobs, with replacement.

    By default arrival times stay as they are, and whose they are is drawn. With `blocks` stretches
    of `block_length` jobs that came one after another are drawn, each job with the time since the
    one before it: what bursts, and campaigns of jobs that are alike, do to a result is then part of
    its spread. The log is closed to a circle, so that every job is drawn as often. The ids of the
    jobs drawn are ``<id>-1``, ``<id>-2`` and so on for the copies of a job.

    Parameters
    ----------
    workload
        Where the jobs come from; its throughputs, or applications, are kept.
    seed
        Same seed, same jobs.
    blocks
        Whether stretches of the log are drawn, with their arrivals.

    Raises
    ------
    InputError
        If the seed is not a whole number >= 0.

    Notes
    -----
    Source: Efron, Bootstrap methods: another look at the jackknife (Annals of Statistics, 1979);
    blocks: Politis and Romano, A circular block-resampling procedure for stationary data (1992).
    """
    jobs = workload.jobs.drop(columns=[*RECORDED_TIMES], errors="ignore")  # of other arrivals
    rng = streams(["jobs"], seed)["jobs"]
    arrival_s = jobs["arrival_s"].to_numpy(dtype=float)
    if blocks:
        rows, arrival_s = _stretches(rng, arrival_s)
    else:
        rows = rng.integers(len(jobs), size=len(jobs))
    drawn = jobs.iloc[rows]
    copies: Counter[object] = Counter()
    names = []
    for job in drawn.index.tolist():
        copies[job] += 1
        names.append(f"{job}-{copies[job]}")
    table = drawn.set_axis(names, axis=0).assign(arrival_s=arrival_s)
    what = "stretches of jobs" if blocks else "jobs"
    note = f"{what} resampled with replacement, seed {seed}"
    return replace(
        workload,
        name=f"{workload.name}-resampled-{seed}",
        jobs=table,
        notes=(*workload.notes, note),
    )


def block_length(jobs: int) -> int:
    """Return how many jobs a stretch has: the cube root of their number, rounded up.

    So long blocks make the bootstrap's variance least wrong (Künsch, Annals of Statistics, 1989).
    """
    length = round(float(np.cbrt(jobs)))
    return length if length**3 >= jobs else length + 1


def _stretches(
    rng: np.random.Generator, arrival_s: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Draw stretches of jobs, in the order of arrival, and when they come."""
    count, length = arrival_s.size, block_length(arrival_s.size)
    order = np.argsort(arrival_s, kind="stable")
    since_s = np.diff(arrival_s[order], prepend=arrival_s[order[0]])
    since_s[0] = since_s.sum() / max(count - 1, 1)  # before the first comes the last: a circle
    first = rng.integers(count, size=-(-count // length))
    drawn = ((first[:, None] + np.arange(length)) % count).ravel()[:count]
    came_s = np.cumsum(since_s[drawn])
    return order[drawn], arrival_s.min() + came_s - came_s[0]
