"""A floor under the makespan: the longest job, and the load of all that come after a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.floors.job_groups import JobGroups
    from apportion.types import Floats


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
    limits = np.zeros((row.size, jobs.gpus.size + len(kinds)))
    limits[np.arange(row.size), column] = -1 / kinds[row, column]
    limits[np.arange(row.size), jobs.gpus.size + row] = 1.0
    goal = np.concatenate([np.zeros(jobs.gpus.size), -work / work.sum()])
    paid = np.concatenate([jobs.gpus, np.zeros(len(kinds))])[None]
    found = linprog(goal, limits, np.zeros(row.size), paid, [1.0], method="highs")
    if found.x is None:  # any prices are a bound
        return np.asarray(np.ones(jobs.gpus.size) / jobs.gpus.sum(), dtype=float)
    return np.asarray(np.maximum(found.x[: jobs.gpus.size], 0.0), dtype=float)
