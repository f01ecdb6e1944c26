"""Prices where the objective has a kink: of all that prove the optimum, the least ones.

They have the least sum of ``capacity * price**2``, each GPU counted by itself, which is one point:
it depends neither on the solver nor on the order of jobs and types, and stays the same if a type is
split into two of equal speeds. With one type it is what one GPU more gains.

Prices prove an optimum X if no group of jobs would do better with something else than its X
(complementary slackness), and if, for an objective about the worst off job, a level more costs as
much as it is worth. Both are linear in the prices for what a job may buy, of which there is much:
what is violated is added, and the nearest prices are found anew (Lawson and Hanson, "Solving least
squares problems", 1974, chapter 23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.core.prices import Gain, Level

if TYPE_CHECKING:
    from apportion.policies.core.prices import Dual
    from apportion.types import Floats

_MET = 1e-13
"""By how much, relative to what everything costs, a limit on prices may be missed."""
_OTHER = 1e-10
"""By how much, relative to that, other prices differ."""
_MOST_STEPS, _MOST_GROUPS = 60, 512


def least_prices(dual: Dual, X: Floats, prices: Floats, t: float = 0.0) -> Floats:
    """Return the least prices that prove an optimum; `prices` where rounding leaves none.

    Parameters
    ----------
    dual
        The problem, a `Level`, or a `Gain` without logarithms.
    X
        An optimum.
    prices
        Any prices that prove it.
    t
        Its level.
    """
    jobs = dual.jobs = dual.jobs.regrouped(min(dual.jobs.n, _MOST_GROUPS))
    used, size, root = jobs.used_by_groups(X), float(prices @ jobs.capacity), np.sqrt(jobs.capacity)
    scarce = used.sum(axis=0) >= jobs.capacity * (1 - 1e-9)
    if not scarce.any() or size <= 0:
        return np.zeros(prices.size)
    had = np.zeros(jobs.groups) if isinstance(dual, Level) else dual.worth_of(jobs.speed(X))
    G, h, near = np.zeros((0, int(scarce.sum()))), np.zeros(0), prices
    for step in range(_MOST_STEPS):
        mix = dual.buy(near, t)
        rows, needed = mix.used_by_groups(jobs) - used, np.zeros(jobs.groups)
        if isinstance(dual, Gain):
            needed = dual.worth_of(mix.speed) - had
        else:
            rows = np.vstack([rows, size * _per_level(dual, X, near, t)])
            needed = np.append(needed, size)
        new = rows @ near < needed - _MET * size
        new[jobs.groups :] |= step == 0
        if step and not new.any():
            is_other = (np.abs(near - prices) * jobs.capacity).max() > _OTHER * size
            return near if is_other else prices
        G = np.vstack([G, rows[new][:, scarce] / root[scarce]])
        h = np.append(h, needed[new] / size - _MET / 10)
        found = _nearest(G, h)
        if found is None:
            return prices
        near = np.zeros(prices.size)
        near[scarce] = found / root[scarce] * size
    return prices


def _per_level(dual: Level, X: Floats, prices: Floats, t: float) -> Floats:
    """Return what a level more takes of each resource, jobs paying as little as they can for it.

    A job that has more than it needs pays nothing for its level.
    """
    jobs, row = dual.jobs, np.arange(dual.jobs.n)
    d, rise = dual.demand(t)
    speed, cost = jobs.speed(X), jobs.cost(prices)
    paid = (cost.T * X).sum(axis=1)
    more = jobs.T - d[:, None]
    able = more > 1e-12 * jobs.fastest[:, None]
    each = np.where(able, (cost.T - paid[:, None]) / np.where(able, more, 1.0), np.inf)
    best = each.argmin(axis=1)
    on = (speed <= d * (1 + 1e-9)) & able.any(axis=1)
    per = np.where(on, rise / np.where(on, more[row, best], 1.0), 0.0)
    return np.asarray((jobs.used_by(best, per) - jobs.used_by_groups(X * per[:, None])).sum(axis=0))


def _nearest(G: Floats, h: Floats) -> Floats | None:
    """Return the least squares such that ``G x >= h`` and x >= 0; ``None`` where there are none."""
    from scipy.optimize import nnls  # 80 ms, where few solves need it

    G, h = np.vstack([G, np.eye(G.shape[1])]), np.append(h, np.zeros(G.shape[1]))
    E = np.vstack([G.T, h])
    f = np.append(np.zeros(G.shape[1]), 1.0)
    z, _ = nnls(E, f, maxiter=30 * E.shape[1])
    r = E @ z - f
    return None if abs(r[-1]) < 1e-14 else np.maximum(-r[:-1] / r[-1], 0.0)
