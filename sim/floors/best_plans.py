"""The best plan of each job against prices of GPU time, found for all groups at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.sim.floors.job_groups import rooms

if TYPE_CHECKING:
    from apportion.sim.floors.job_groups import JobGroups
    from apportion.types import Floats, Ints


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
