"""The bound that prices prove, whatever found them: one formula, rounded down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from apportion.sim.floors.best_plans import best_plans
from apportion.sim.floors.job_groups import coarse_cuts, halved, rooms

if TYPE_CHECKING:
    from apportion.sim.floors.best_plans import BestPlans
    from apportion.sim.floors.job_groups import JobGroups
    from apportion.types import Floats


LEVELS = (60, 40, 30)
"""Steps of the ascent at each level of intervals, the coarsest first."""


class Proof(NamedTuple):
    """What prices prove.

    Attributes
    ----------
    bound, above
        On the weighted sum of completion times, and what no prices exceed.
    worth
        By how much one more GPU of each type lowers the bound, at the margin, shape (types,).
    """

    bound: float
    above: float
    worth: Floats


def best_bound(jobs: JobGroups, weight: Floats, end_s: float) -> Proof:
    """Bound the weighted sum of completion times of any schedule.

    Parameters
    ----------
    jobs
        Who is to be done.
    weight
        Of a job, shape (groups,).
    end_s
        Until when GPU time has prices.
    """
    cuts = coarse_cuts(jobs.arrival_s.min(), jobs.arrival_s.max(), end_s)
    prices = np.zeros((len(cuts) - 1, jobs.gpus.size))
    best = Proof(-np.inf, np.inf, np.zeros(jobs.gpus.size))
    for steps in LEVELS:
        prices = _ascended(jobs, cuts, prices, weight, steps)
        plans = best_plans(jobs, cuts, prices, weight)
        bound = proved(jobs, cuts, prices, weight, plans)[0]
        above = cost_if_feasible(jobs, cuts, weight, plans)
        worth = (prices * np.diff(cuts)[:, None]).sum(axis=0)
        best = Proof(bound, above, worth) if bound > best.bound else best._replace(above=above)
        finer = halved(cuts)  # an interval of which rounding leaves no middle stays whole
        cuts, prices = finer, prices[np.searchsorted(cuts, finer[:-1], side="right") - 1]
    return best


def _ascended(jobs: JobGroups, cuts: Floats, prices: Floats, weight: Floats, steps: int) -> Floats:
    """Return prices of a higher bound; its slope is the GPU time asked for beyond that there is."""
    there = jobs.gpus * np.diff(cuts)[:, None]
    scale = float((jobs.count * weight * jobs.least_s).sum())
    unit = scale / there / there.size

    def loss(scaled: Any) -> Any:
        tried = scaled.reshape(there.shape) * unit
        plans = best_plans(jobs, cuts, tried, weight)
        used = np.einsum("c,cim->im", jobs.count * jobs.gang, plans.seconds)
        value = proved(jobs, cuts, tried, weight, plans)[1]
        return -value / scale, ((there - used) * unit / scale).ravel()

    options: Any = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20}
    bounds: Any = [(0.0, None)] * there.size
    start = (prices / unit).ravel()
    found: Any = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(np.maximum(found.x.reshape(there.shape) * unit, 0.0), dtype=float)


_ROUNDING = 64 * np.finfo(float).eps
"""Of a term of few operations, relative to its largest part, with room to spare."""


def proved(
    jobs: JobGroups, cuts: Floats, prices: Floats, weight: Floats, plans: BestPlans
) -> tuple[float, float]:
    """Return a bound from below on the weighted sum of completion times of any schedule.

    With prices p >= 0 of GPU time, any worth u of a job's work, and any work q in each interval
    (weak duality; y^2 >= 2 q y - q^2)::

        sum over jobs of w least / 2 + u - sum over intervals of w least q^2 / 2
            + room max over types of (progress (u - w begin - w least q) - p gang)+
        - sum over intervals and types of p gpus length

    In the last interval, where time is free and without end, q is what leaves nothing to gain.

    Parameters
    ----------
    jobs, cuts, prices, weight
        As for `apportion.sim.floors.best_plans.best_plans`.
    plans
        Whose ``worth`` and ``work`` are taken, the last interval left out.

    Returns
    -------
    tuple of float
        The bound, less all that rounding may have added to it, and the bound as computed.
    """
    begin_s, room_s = rooms(jobs, cuts)
    least = weight * jobs.least_s
    worth, work = plans.worth, plans.work[:, :-1]
    last = np.maximum(worth - weight * begin_s[:, -1], 0.0) / least * (1 + _ROUNDING)
    from_, slope = weight[:, None] * begin_s[:, :-1], least[:, None] * work
    gain, size = np.zeros_like(room_s), np.zeros_like(room_s)
    for kind in range(jobs.gpus.size):
        rate, cost = jobs.progress[:, kind, None], jobs.gang[:, None] * prices[:, kind]
        gain = np.maximum(gain, rate * (worth[:, None] - from_ - slope) - cost)
        size = np.maximum(size, rate * (np.abs(worth)[:, None] + from_ + slope) + cost)
    curved = least / 2 * (np.square(work).sum(axis=1) + last**2)
    value = least / 2 + worth - curved - (room_s * gain).sum(axis=1)
    sizes = least / 2 + np.abs(worth) + curved + (room_s * size).sum(axis=1)
    paid = float((prices * jobs.gpus * np.diff(cuts)[:, None]).sum())
    found = math.fsum(jobs.count * value) - paid
    terms = room_s.shape[1] + prices.size
    doubt = (_ROUNDING + terms * np.finfo(float).eps) * (math.fsum(jobs.count * sizes) + paid)
    return found - doubt, found


def cost_if_feasible(jobs: JobGroups, cuts: Floats, weight: Floats, plans: BestPlans) -> float:
    """Return the cost of the plans where what finds no GPU in an interval is done in later ones.

    No prices prove more than that.
    """
    begin_s, room_s = rooms(jobs, cuts)
    there = jobs.gpus * np.diff(cuts)[:, None]
    work, late_s = np.zeros(begin_s.shape), np.zeros_like(jobs.speed)
    for interval, room in enumerate(room_s.T):
        asked_s = plans.seconds[:, interval] + late_s
        length = asked_s.sum(axis=1)
        fits = np.divide(room, length, out=np.ones_like(room), where=length > room)
        used = (jobs.count * jobs.gang * fits) @ asked_s
        kept = np.divide(there[interval], used, out=np.ones_like(used), where=used > 0)
        run_s = asked_s * fits[:, None] * np.minimum(kept, 1.0)
        late_s = asked_s - run_s
        work[:, interval] = (run_s * jobs.progress).sum(axis=1)
    work[:, -1] = np.maximum(1.0 - work.sum(axis=1), 0.0)
    least = weight * jobs.least_s
    busy = weight * (begin_s * work).sum(axis=1) + least / 2 * np.square(work).sum(axis=1)
    return math.fsum(jobs.count * (least / 2 + busy))
