"""`floor`: what no schedule of a workload on a cluster can be better than."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.annotations import checked
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim.floors.bound import best_bound
from apportion.sim.floors.fairness import least_worst_ratio
from apportion.sim.floors.job_groups import JobGroups
from apportion.sim.floors.last_completion import least_makespan_s
from apportion.sim.given_order import present_types
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload


@dataclass(frozen=True)
class Floor:
    """Bounds from below, for schedules in which no two jobs have a GPU at the same time.

    Attributes
    ----------
    mean_jct_s, weighted_mean_jct_s
        Under the mean job completion time, and under that weighted by ``weight``, seconds.
    makespan_s
        Under the time from the first arrival to the last completion, seconds.
    ftf_max
        Under the worst finish-time fairness, where a completed job counts as one of those that
        share the cluster for an hour more at the most, and no network slows a job that is alone.
    shorter_by_s
        By how many seconds one more GPU of each type lowers `mean_jct_s`, at the margin: what the
        prices that prove it say GPU time is worth.
    gap
        By how much of itself `mean_jct_s` can be below the best bound of its kind on the same
        intervals; how far the best schedule is above it, it does not say.
    seconds
        Real time that it took.
    """

    mean_jct_s: float
    weighted_mean_jct_s: float
    makespan_s: float
    ftf_max: float
    shorter_by_s: Mapping[str, float]
    gap: float
    seconds: float


@one_thread
@checked
def floor(
    workload: Workload | ElasticWorkload, cluster: Cluster | Mapping[str, int] | str
) -> Floor:
    """Bound completion times of any schedule from below, with a certificate.

    Schedules may preempt, move and share out time as finely as they like, know all jobs before, and
    lose nothing at a start. What only takes longer leaves the bounds valid: rounds, restarts,
    networks. They do not hold where jobs share GPUs at the same time: policies with
    ``space_sharing``, ``mechanism="iterations"``; nor for ``as_recorded``, which works at the
    speeds of a log.

    Parameters
    ----------
    workload
        Jobs with gangs of their own; no elastic ones.
    cluster
        A `Cluster`, a mapping of GPU counts, or text such as ``"v100=8,k80=16"``.

    Raises
    ------
    InputError
        For elastic jobs, and a job that cannot run on the cluster.
    """
    started = time.perf_counter()
    if workload.elastic:
        raise InputError(
            f"The workload {workload.name!r} is elastic: a floor is known for jobs whose gangs "
            f"have one size, an apportion.Workload."
        )
    present = present_types(Cluster.of(cluster))
    jobs = JobGroups.of(workload.in_steps(present), present)
    makespan_s = least_makespan_s(jobs)
    first_s, last_s = float(jobs.arrival_s.min()), float(jobs.arrival_s.max())
    end_s = max(first_s + 2 * makespan_s, last_s + float(jobs.least_s.max()))
    alike = np.ones_like(jobs.weight)
    proof = best_bound(jobs, alike, end_s)
    mean_s = weighted_s = _mean(proof.bound, jobs, alike)
    if (jobs.weight != jobs.weight[0]).any():
        weighted = jobs.weight / jobs.weight.max()
        weighted_s = _mean(best_bound(jobs, weighted, end_s).bound, jobs, weighted)
    worth = (proof.worth / jobs.count.sum()).tolist()
    return Floor(
        mean_jct_s=mean_s,
        weighted_mean_jct_s=weighted_s,
        makespan_s=makespan_s,
        ftf_max=least_worst_ratio(jobs),
        shorter_by_s=dict(zip(present.accelerators, worth, strict=True)),
        gap=max(float(proof.above / proof.bound) - 1, 0.0),
        seconds=time.perf_counter() - started,
    )


def _mean(bound: float, jobs: JobGroups, weight: np.ndarray) -> float:
    """Return a bound on the mean, not below what each job takes alone."""
    alone = float((jobs.count * weight * jobs.least_s).sum())
    eps = (64 + jobs.count.size) * float(np.finfo(float).eps)
    return float(max(bound, alone * (1 - eps)) / (jobs.count * weight).sum() * (1 - eps))
