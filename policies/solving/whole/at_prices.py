"""Whole decisions of single jobs under an affine objective, near the prices that fill each type.

No program is written: the relaxation is a walk over prices, and the best decision lies near it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solving.certificate import relative_gap
from apportion.policies.solving.demands import gains_of, is_exact
from apportion.policies.solving.rows import group_rows
from apportion.policies.solving.solvers.price_walk import PriceWalk
from apportion.policies.solving.whole.program import without_noise
from apportion.policies.solving.whole.states import ROUNDING, States, best_of

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.types import Bools, Floats, Ints


_BITS = 40
"""Of a price, below the largest worth: what a processor rounds otherwise decides nothing then."""
_MANY = 500
"""Jobs above which a decision near the best will do, whose gap is told: the search is too long."""


class AtPrices(NamedTuple):
    """A whole decision that no other exceeds, but for its gap.

    Attributes
    ----------
    X
        1 where a job runs, shape (jobs, options).
    objective, gap
        The policy's, and how far it may be from the best, relatively.
    prices
        At which the relaxation fills each type, in the policy's unit, shape (types,).
    only_prices
        Whether no others do.
    """

    X: Floats
    objective: float
    gap: float
    prices: Floats
    only_prices: bool


def decide_at_prices(policy: Policy, told: Instance, deadline: float) -> AtPrices | None:
    """Find the best whole decision.

    It is that of ::

        max over x of sum of v * x,  such that  sum of g * x <= W of each type,
                                     sum over options of x <= 1 for each job,  x whole

    where v is what a job adds on a type and g are its GPUs, by `States` at the prices of
    `PriceWalk`. Of jobs that are alike the first are served.

    Parameters
    ----------
    told
        At the speeds that the policy believes in.
    deadline
        Value of the clock at which the search ends.

    Returns
    -------
    AtPrices
        ``None`` where the objective is of another kind, jobs have an option now or are not single
        jobs on types, or it would take long.
    """
    if not _is_plain(told):
        return None
    try:
        gains = gains_of(policy, told)
    except ValueError:  # the policy's own text: it is told where it is wrong when it is compiled
        return None
    if gains is None or not is_exact(policy, told):
        return None
    capacity, sign = told.capacity, 1.0 if gains.maximised else -1.0
    worth = sign * gains.slope[:, None] * told.throughput
    runs = (told.throughput > 0) & (told.gpus > 0) & (told.gpus <= capacity) & (worth > 0)
    if not np.isfinite(worth).all() or (told.gpus <= 0)[told.throughput > 0].any():
        return None
    worth = without_noise(np.where(runs, worth, 0.0).ravel()).reshape(worth.shape)
    adds = np.where(runs, worth, -np.inf)
    filled, known, near = _filled(worth, told.gpus, capacity, runs)
    walk = PriceWalk(adds, told.gpus, told.option_accelerator, capacity)
    if not walk.run(near):
        return None
    unit = 2.0 ** (np.ceil(np.log2(max(worth.max(), 1e-300))) - _BITS)
    states = _states(adds, told.gpus, capacity, np.rint(walk.prices / unit) * unit)
    if states is None:
        return None
    most = -known - states.least + ROUNDING * float(worth.sum())
    exact = told.jobs <= _MANY
    found = best_of(states, most, ROUNDING * float(worth.max()), deadline, exact=exact)
    if found is None:
        if exact:
            return None
        found = filled, most
    X = _first_of_each(adds, told.gpus, found[0])
    objective = float(gains.slope @ (told.throughput * X).sum(axis=1)) + gains.constant
    gap = relative_gap(-sign * objective, -sign * objective - found[1])
    return AtPrices(X, objective, gap, walk.prices, not walk.degenerate)


def _is_plain(told: Instance) -> bool:
    """Whether rows are a job each, which hold GPUs only, and have no option now."""
    return (
        told.holds_gpus_only
        and told.solo
        and told.hard.size == told.capacity.size == told.options
        and bool((told.count == 1).all() and (told.capacity > 0).all())
        and not {"current_option", "pinned"} & set(told.columns)
    )


def _states(adds: Floats, gpus: Floats, capacity: Floats, price: Floats) -> States | None:
    """State the choices of jobs: each type, or nothing."""
    jobs, types = adds.shape
    cost = np.hstack([-adds, np.zeros((jobs, 1))])
    amounts = np.zeros((jobs, types + 1, types))
    amounts[:, np.arange(types), np.arange(types)] = np.where(np.isfinite(adds), gpus, 0.0)
    return States.of(cost + amounts @ price, amounts, capacity, price)


def _filled(
    worth: Floats, gpus: Floats, capacity: Floats, runs: Bools
) -> tuple[Ints, float, Floats]:
    """Serve those who add most per GPU first, wherever they fit.

    Returns
    -------
    option, value, per_gpu
        The type of each job, or the number of types for none; what they add; and on each type the
        most per GPU of those who find no place.
    """
    jobs, types = worth.shape
    value, left, option = 0.0, capacity.tolist(), [types] * jobs
    per_gpu = np.divide(worth, gpus, out=np.zeros_like(worth), where=runs)
    cells = np.flatnonzero(runs)
    cells = cells[np.argsort(-per_gpu.ravel()[cells], kind="stable")]
    job, kind = np.divmod(cells, types)
    rows = job.tolist(), kind.tolist(), worth.ravel()[cells].tolist(), gpus.ravel()[cells].tolist()
    for who, where, adds, size in zip(*rows, strict=True):
        if size <= left[where] and option[who] == types:
            option[who] = where
            left[where] -= size
            value += adds
    taken = np.array(option)
    waits = (taken == types)[:, None]
    return taken, value, per_gpu.max(axis=0, where=waits, initial=0.0)


def _first_of_each(adds: Floats, gpus: Floats, option: Ints) -> Floats:
    """Write a decision; of jobs that are alike the first have the first of the options."""
    _, like = group_rows(np.where(np.isfinite(adds), adds, -1.0), gpus)
    place = np.empty_like(option)
    place[np.argsort(like, kind="stable")] = option[np.lexsort((option, like))]
    X = np.zeros((option.size, adds.shape[1] + 1))
    X[np.arange(option.size), place] = 1.0
    return X[:, :-1]
