"""The bound that prices prove, whatever found them, and each job's best plan against prices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from apportion.sim.floors.job_groups import coarse_cuts, halved, rooms

if TYPE_CHECKING:
    from apportion.sim.floors.job_groups import JobGroups
    from apportion.types import Floats, Ints


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
        As for `apportion.sim.floors.bound.best_plans`.
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


_ENOUGH = 1e-9
"""How near to 1 the work of a plan is; any plan makes a valid bound, a near one the best."""


class BestPlans(NamedTuple):
    """Plans of the groups.

    Attributes
    ----------
    worth
        What a job pays for a little more work, shape (groups,).
    work
        Part of the work done in each interval, the one without end last: (groups, intervals + 1).
    seconds
        For which a job runs on each type, shape (groups, intervals, types).
    """

    worth: Floats
    work: Floats
    seconds: Floats


def best_plans(jobs: JobGroups, cuts: Floats, prices: Floats, weight: Floats) -> BestPlans:
    """Find plans of least cost: weighted mean busy time, and what GPU time costs.

    Within an interval a job takes the cheapest mixtures of types first: the lower convex hull of
    cost over work. Over the intervals it works where a little more work costs least.

    Parameters
    ----------
    jobs, cuts
        Who, and when.
    prices
        Of a GPU-second, >= 0, shape (intervals, types); in the last interval it is free.
    weight
        Of the mean busy time of a job, shape (groups,).
    """
    begin_s, room_s = rooms(jobs, cuts)
    steep = weight * jobs.least_s
    types, slopes, at, ends = _hulls(jobs.progress, prices[None] * jobs.gang[:, None, None])
    wide = room_s[..., None] * (ends - at)
    from_ = weight[:, None] * begin_s
    level = from_[:, :-1, None] + slopes + steep[:, None, None] * room_s[..., None] * at
    flat = (len(steep), -1)
    levels = np.concatenate([level.reshape(flat), from_[:, -1:]], axis=1)
    widths = np.concatenate([wide.reshape(flat), np.ones((len(steep), 1))], axis=1)
    worth = _balanced(levels, widths, steep)
    filled = np.clip((worth[:, None] - levels) / steep[:, None], 0.0, widths)
    inner = filled[:, :-1].reshape(wide.shape)
    work = np.concatenate([inner.sum(axis=2), filled[:, -1:]], axis=1)
    part = np.divide(inner, wide, out=np.zeros_like(inner), where=wide > 0)
    stays = room_s[..., None] * (part - np.concatenate([part[..., 1:], 0 * part[..., :1]], axis=2))
    seconds = np.zeros_like(stays)
    for vertex in range(stays.shape[2]):
        for kind in range(stays.shape[2]):
            seconds[..., kind] += np.where(types[..., vertex] == kind, stays[..., vertex], 0.0)
    return BestPlans(worth, work, seconds)


def _hulls(progress: Floats, costs: Floats) -> tuple[Ints, Floats, Floats, Floats]:
    """Return the lower convex hulls of cost over progress, from (0, 0) on.

    Returns
    -------
    tuple of ndarray
        The type at the end of each segment (-1 for none), its slope (inf for none), the progress
        where it begins and where it ends; shape (groups, intervals, types).
    """
    shape = costs.shape
    types, slopes = np.full(shape, -1), np.full(shape, np.inf)
    at, ends = np.zeros(shape), np.zeros(shape)
    here, cost = np.zeros(shape[:2]), np.zeros(shape[:2])
    fast = np.broadcast_to(progress[:, None, :], shape)
    for vertex in range(shape[2]):
        more = fast - here[..., None]
        slope = np.full(shape, np.inf)
        np.divide(costs - cost[..., None], more, out=slope, where=more > 0)
        best = np.argmin(slope, axis=2)[..., None]
        least = np.take_along_axis(slope, best, axis=2)[..., 0]
        found = np.isfinite(least)
        at[..., vertex] = here
        here = np.where(found, np.take_along_axis(fast, best, axis=2)[..., 0], here)
        cost = np.where(found, np.take_along_axis(costs, best, axis=2)[..., 0], cost)
        ends[..., vertex] = here
        types[..., vertex] = np.where(found, best[..., 0], -1)
        slopes[..., vertex] = least
    return types, slopes, at, ends


def _balanced(levels: Floats, widths: Floats, steep: Floats) -> Floats:
    """Return where all is filled up to so that the work is 1, by Newton steps between bounds."""
    low, high = levels.min(axis=1), levels[:, -1] + steep
    worth = low + np.minimum(high - low, steep)
    for _ in range(60):
        filled = (worth[:, None] - levels) / steep[:, None]
        slope = ((filled > 0) & (filled < widths)).sum(axis=1) / steep
        over = np.clip(filled, 0.0, widths).sum(axis=1) - 1.0
        if np.abs(over).max() <= _ENOUGH:
            break
        high, low = np.where(over > 0, worth, high), np.where(over > 0, low, worth)
        step = worth - np.divide(over, slope, out=np.full_like(over, np.inf), where=slope > 0)
        worth = np.where((low < step) & (step < high), step, (low + high) / 2)
    return np.asarray(worth, dtype=float)
