"""`floor`: what no schedule of a workload on a cluster can be better than."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.annotations import checked
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.policies import isolated_share
from apportion.policies.core.highs import optimal_vertex
from apportion.sim.floors.bound import best_bound
from apportion.sim.floors.job_groups import JobGroups
from apportion.sim.workload_tables import present_types
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload
    from apportion.types import Floats


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


NOTICED_S = 3600.0
"""By when at the latest a completed job no longer counts as one of the n that share a cluster."""

_STARTS = 128
"""Times from which on it is asked whether all that arrives fits before its deadlines."""
_EPS = 1e-9
"""Far more than rounding can do to a deadline, relative."""
_CLOSE = 1e-3
"""How near to the largest ratio that can be refuted."""


def least_worst_ratio(jobs: JobGroups) -> float:
    """Return a ratio r such that in no schedule all jobs have a finish-time fairness below it.

    Where no job has more than r, each is done by ``arrival + r * isolated``, and so at most so many
    are there at a time; their number bounds the time that a job takes in a 1/n share, and this its
    deadline. If a job cannot meet it alone, or if some prices of types say that the jobs
    between a time and a deadline need more than there is in between, r is refuted.
    """
    prices = [np.ones(jobs.gpus.size) / jobs.gpus.sum(), dearest_prices(jobs, jobs.arrival_s >= 0)]
    paid = [math.fsum(each * jobs.gpus) for each in prices]
    needs = [loads(jobs, each) / total for each, total in zip(prices, paid, strict=True)]
    starts = np.unique(jobs.arrival_s)
    if starts.size > _STARTS:
        starts = starts[np.linspace(0, starts.size - 1, _STARTS).astype(int)]
    low, high = 0.0, 1.0
    while _refuted(jobs, high, starts, needs):
        low, high = high, 2 * high
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        if _refuted(jobs, middle, starts, needs):
            low = middle
        else:
            high = middle
    return low * (1 - _EPS)


def _refuted(jobs: JobGroups, ratio: float, starts: Floats, needs: list[Floats]) -> bool:
    """Whether some job cannot have a ratio as small as all others, or smaller."""
    until_s = _deadlines(jobs, ratio)
    if (jobs.least_s > until_s - jobs.arrival_s).any():
        return True
    order = np.argsort(until_s, kind="stable")
    arrival_s, until_s = jobs.arrival_s[order], until_s[order]
    for need in needs:
        for start in starts:
            load = np.cumsum(np.where(arrival_s >= start, need[order], 0.0))
            if (load * (1 - _EPS) > until_s - start)[arrival_s >= start].any():
                return True
    return False


def _deadlines(jobs: JobGroups, ratio: float) -> Floats:
    """Return when jobs are done at the latest if none has a larger ratio."""
    arrival_s, back = np.unique(jobs.arrival_s, return_inverse=True)
    come = np.cumsum(np.bincount(back.ravel(), weights=jobs.count))
    most = np.full(jobs.count.size, come[-1])
    until_s = _late(jobs, ratio, most)
    for _ in range(10):  # each is valid, and none is later than the one before
        order = np.argsort(until_s)
        gone = np.append(0.0, np.cumsum(jobs.count[order]))
        noticed_s = until_s[order] + NOTICED_S
        here = come - gone[np.searchsorted(noticed_s, arrival_s, side="left")]
        last = np.searchsorted(arrival_s, until_s, side="right") - 1
        fewer = np.minimum(most, _largest(here, back.ravel(), last))
        if (fewer == most).all():
            break
        most = fewer
        until_s = _late(jobs, ratio, most)
    return until_s


def _late(jobs: JobGroups, ratio: float, sharing: Floats) -> Floats:
    """Return deadlines where so many jobs, at most, share the cluster with each."""
    share = isolated_share(jobs.gpus, jobs.gang * sharing, 1)
    isolated_s = jobs.steps / (share * jobs.alone).sum(axis=1)
    return np.asarray(jobs.arrival_s + ratio * isolated_s * (1 + _EPS), dtype=float)


def _largest(values: Floats, first: NDArray[np.intp], last: NDArray[np.intp]) -> Floats:
    """Return the largest of some ranges of values, ends included, by maxima of powers of two."""
    tables = [values]
    while 2 ** len(tables) <= values.size:
        half = 2 ** (len(tables) - 1)
        tables.append(np.maximum(tables[-1][:-half], tables[-1][half:]))
    found = np.empty(first.size)
    power = np.frexp(last - first + 1)[1] - 1  # the largest that fits
    for level, table in enumerate(tables):
        at = power == level
        found[at] = np.maximum(table[first[at]], table[last[at] - 2**level + 1])
    return found


_ROUNDING = 64 * np.finfo(float).eps


def least_makespan_s(jobs: JobGroups) -> float:
    """Return seconds from the first arrival within which no schedule completes all jobs.

    No job is done before its arrival and its time on its fastest type. And what arrives from a time
    on takes GPU time after it: with prices p >= 0 of types, sum of p gpus = 1, at least the
    sum over jobs of the least p gang steps / speed. Prices are those of most load from each
    time that has had the most so far; any are a bound.
    """
    longest = float((jobs.arrival_s + jobs.least_s).max())
    known: list[Floats] = [np.ones(jobs.gpus.size) / jobs.gpus.sum()]
    best, at = _latest(jobs, known[0])
    while True:
        prices = dearest_prices(jobs, jobs.arrival_s >= jobs.arrival_s[at])
        if any(np.array_equal(prices, each) for each in known) or len(known) > len(jobs.count):
            break
        known.append(prices)
        found, where = _latest(jobs, prices)
        if found <= best:
            break
        best, at = found, where
    end_s, first_s = max(longest, best), float(jobs.arrival_s.min())
    return max(float(end_s - first_s - _ROUNDING * end_s), 0.0)


def loads(jobs: JobGroups, prices: Floats) -> Floats:
    """Return what the work of each group costs at least at prices of GPU-seconds by type."""
    runs = jobs.speed > 0
    run_s = np.divide(jobs.steps[:, None], jobs.speed, out=np.zeros(runs.shape), where=runs)
    costs = np.where(runs, prices * jobs.gang[:, None] * run_s, np.inf)
    return np.asarray(jobs.count * costs.min(axis=1), dtype=float)


def _latest(jobs: JobGroups, prices: Floats) -> tuple[float, int]:
    """Return until when the load of any suffix of the arrivals takes, and the class it is from."""
    load = loads(jobs, prices)
    order = np.argsort(-jobs.arrival_s, kind="stable")
    paid = math.fsum(prices * jobs.gpus) * (1 + 4 * np.finfo(float).eps)
    doubt = _ROUNDING + load.size * np.finfo(float).eps
    ends = jobs.arrival_s[order] + np.cumsum(load[order]) * (1 - doubt) / paid
    best = int(np.argmax(ends))
    return float(ends[best]), int(order[best])


def dearest_prices(jobs: JobGroups, here: NDArray[np.bool_]) -> Floats:
    """Return the prices by which some groups load the cluster most, a linear program."""
    ways = jobs.speed[here] / jobs.gang[here, None]
    kinds, kind = np.unique(ways, axis=0, return_inverse=True)
    work = np.bincount(kind.ravel(), weights=(jobs.count * jobs.steps)[here])
    row, column = np.nonzero(kinds)
    limits = np.zeros((row.size + 1, jobs.gpus.size + len(kinds)))
    limits[np.arange(row.size), column] = -1 / kinds[row, column]
    limits[np.arange(row.size), jobs.gpus.size + row] = 1.0
    goal = np.concatenate([np.zeros(jobs.gpus.size), -work / work.sum()])
    limits[-1, : jobs.gpus.size] = jobs.gpus
    least, most = np.append(np.full(row.size, -np.inf), 1.0), np.append(np.zeros(row.size), 1.0)
    found = optimal_vertex(goal, sparse.csr_array(limits), (least, most))
    if found is None:  # any prices are a bound
        return np.asarray(np.ones(jobs.gpus.size) / jobs.gpus.sum(), dtype=float)
    return np.asarray(np.maximum(found[: jobs.gpus.size], 0.0), dtype=float)
