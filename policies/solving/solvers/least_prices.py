"""Least prices at which what jobs choose fills each type, where several do.

They go with any optimum of the problem that `price_walk` solves (complementary slackness): nobody
prefers another option to one that has a share of it, and a type that is not full costs nothing. Of
those prices the ones of least sum of ``GPUs * price**2`` are taken, as in `kinks`: a least distance
under linear inequalities in as many numbers as there are types, which becomes a nonnegative least
squares problem (Lawson and Hanson, "Solving least squares problems", 1974, chapter 23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Floats, Ints

_FULL = 1e-9
"""Part of a type that may be left by rounding, and a share that is none."""
_MISSED = 1e-9
"""By how much, beside the largest of prices, a job may prefer another option."""


def least_prices(
    adds: Floats, gpus: Floats, kind: Ints, capacity: Floats, shares: Floats, near: Floats
) -> Floats | None:
    """Return the prices, shape (types,); ``None`` where rounding leaves none.

    Parameters
    ----------
    adds, gpus, kind, capacity
        As for `apportion.policies.solving.solvers.price_walk.PriceWalk`.
    shares
        An optimum, shape (jobs, options).
    near
        Any such prices, shape (types,).
    """
    from scipy.optimize import nnls  # 80 ms, where few need it

    free = near > 0
    held = np.bincount(kind, (gpus * shares).sum(axis=0), capacity.size)
    free &= held >= capacity * (1 - _FULL)
    if not free.any():
        return np.zeros(capacity.size)
    rows, limits = _preferences(adds, gpus, kind, capacity.size, shares)
    unit = np.sqrt(capacity[free])
    size = float(np.sqrt((capacity * near**2).sum()))
    G, h = rows[:, free] / unit, limits / size
    used = np.abs(G).max(axis=1, initial=0.0) > 0
    G, h = np.vstack([G[used], np.eye(unit.size)]), np.append(h[used], np.zeros(unit.size))
    try:
        multiplier, _ = nnls(np.vstack([G.T, h]), np.append(np.zeros(unit.size), 1.0))
    except RuntimeError:  # too many steps
        return None
    active = multiplier > 0
    q = (
        np.linalg.lstsq(G[active], h[active], rcond=None)[0]
        if active.any()
        else np.zeros(unit.size)
    )
    if (G @ q - h).min(initial=0.0) < -_MISSED:
        return None
    prices = np.zeros(capacity.size)
    prices[free] = np.maximum(q, 0.0) * size / unit
    return prices


def _preferences(
    adds: Floats, gpus: Floats, kind: Ints, types: int, shares: Floats
) -> tuple[Floats, Floats]:
    """Return rows and limits: ``rows @ prices >= limits`` where nobody prefers what he has not."""
    jobs = np.arange(len(adds))
    adds = np.append(adds, np.zeros((jobs.size, 1)), axis=1)
    gpus = np.append(gpus, np.zeros((jobs.size, 1)), axis=1)
    kind = np.append(kind, 0)
    share = np.append(shares, 1.0 - shares.sum(axis=1, keepdims=True), axis=1)
    mine = share.argmax(axis=1)
    job, other = np.nonzero(np.isfinite(adds) & (np.arange(kind.size) != mine[:, None]))
    rows = np.zeros((job.size, types))
    at = np.arange(job.size)
    rows[at, kind[other]] = gpus[job, other]
    rows[at, kind[mine[job]]] -= gpus[job, mine[job]]
    limits = adds[job, other] - adds[job, mine[job]]
    equal = share[job, other] > _FULL
    return np.vstack([rows, -rows[equal]]), np.append(limits, -limits[equal])
