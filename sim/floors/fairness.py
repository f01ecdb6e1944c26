"""A floor under the worst finish-time fairness: deadlines that nobody can meet together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies import isolated_share
from apportion.sim.floors.last_completion import dearest_prices, loads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.floors.job_groups import JobGroups
    from apportion.types import Floats


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
