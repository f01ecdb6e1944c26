"""Prices that prove much: ascent on the bound, intervals halved from level to level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from apportion.sim.floors.best_plans import best_plans
from apportion.sim.floors.bound import cost_if_feasible, proved
from apportion.sim.floors.job_groups import coarse_cuts, halved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.floors.job_groups import JobGroups

    Floats = NDArray[np.float64]

__all__ = ["Proof", "best_bound"]

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
