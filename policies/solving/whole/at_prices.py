"""Whole decisions of single jobs whose options add up, near the prices that fill each type.

No program is written: the relaxation is a walk over prices, and the best decision lies near it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from apportion.policies.base import Policy
from apportion.policies.normalisers import nothing_but_gpus
from apportion.policies.problem import Problem
from apportion.policies.solving.certificate import relative_gap
from apportion.policies.solving.demands import has_earlier, read_off
from apportion.policies.solving.solvers.least_prices import least_prices
from apportion.policies.solving.solvers.price_walk import PriceWalk
from apportion.policies.solving.whole.branch_and_bound import STAYING
from apportion.policies.solving.whole.offers import Offers
from apportion.policies.solving.whole.program import NOISE, without_noise
from apportion.policies.solving.whole.states import ROUNDING, States, best_of
from apportion.policies.whole.option_worth import WeightedOptions

if TYPE_CHECKING:
    from apportion.policies.instance import Instance
    from apportion.types import Floats, Ints


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
        The least at which the relaxation fills each type, in the policy's unit, shape (types,).
    """

    X: Floats
    objective: float
    gap: float
    prices: Floats


class _Sum(NamedTuple):
    """An objective ``sum of each * X + constant``, and 1 where it is maximised, -1 where not."""

    each: Floats
    constant: float
    sign: float


def decide_at_prices(
    policy: Policy, told: Instance, deadline: float, gap: float
) -> AtPrices | None:
    """Find the best whole decision.

    It is that of ::

        max over x of sum of v * x,  such that  sum of g * x <= W of each type,
                                     sum over options of x <= 1 for each job,  x whole

    where v is what a job adds under an option and g are its GPUs, by `States` at the prices of
    `PriceWalk`. Of jobs that are alike the first are served. Of decisions that are equal but for
    `STAYING` it is the one in which more jobs keep their option.

    Parameters
    ----------
    told
        At the speeds that the policy believes in.
    deadline
        Value of the clock at which the search ends.
    gap
        Part of the objective that what `STAYING` is worth may not hide.

    Returns
    -------
    AtPrices
        ``None`` where the objective is of another kind, jobs hold more than GPUs of one type, many
        of those with several options on a type are alike, or it would take long.
    """
    if not _is_plain(told):
        return None
    try:
        stated = _stated(policy, told)
    except ValueError:  # the policy's own text: it is told where it is wrong when it is compiled
        return None
    offers = None if stated is None else _offers(told, stated.sign * stated.each)
    if stated is None or offers is None:
        return None
    like = offers.alike
    if offers.several and not (told.jobs <= _MANY and 2 * int(like.max()) >= told.jobs):
        return None
    found = _best(offers, deadline, gap)
    if found is None:
        return None
    option, lost, prices = found
    X = _first_of_each(like, option, told.options)
    objective = float((stated.each * X).sum()) + stated.constant
    value = -stated.sign * objective
    return AtPrices(X, objective, relative_gap(value, value - lost), prices)


def _best(offers: Offers, deadline: float, gap: float) -> tuple[Ints, float, Floats] | None:
    """Find the option of each job, by how much others may be better, and prices."""
    filled, near = (None, offers.near()) if offers.several else offers.filled()
    given = offers.adds, offers.gpus, offers.kind, offers.capacity
    walk = PriceWalk(*given)
    if not walk.run(near) or time.perf_counter() > deadline:
        return None
    shares = walk.shares
    prices = least_prices(*given, shares, walk.prices) if walk.degenerate else walk.prices
    if prices is None:
        return None
    exact, worth = len(offers.adds) <= _MANY, offers.worth
    filled = offers.rounded(shares) if filled is None else filled
    largest, known = float(worth.max(initial=0.0)), offers.added(filled)
    staying = STAYING * largest * offers.stays
    hidden = float(staying.sum()) + NOISE * largest * len(worth)
    if offers.several and hidden > gap * known:
        return None
    unit = 2.0 ** (np.ceil(np.log2(max(largest, 1e-300))) - _BITS)
    states = _states(offers, np.rint(prices / unit) * unit, staying)
    if states is None:
        return None
    most = -known - states.least + ROUNDING * float(worth.sum())
    found = best_of(states, most, ROUNDING * largest, deadline, exact=exact)
    if found is None:
        return None if exact else (filled, most, prices)
    return found[0], found[1] + offers.added(found[0], staying), prices


def _is_plain(told: Instance) -> bool:
    """Whether rows are a job each, which hold GPUs of one type only, and none is pinned."""
    types = told.capacity.size
    if not (told.solo and told.hard.size == types == told.types and "pinned" not in told.columns):
        return False
    if told.own_usage is not None and nothing_but_gpus(told) is None:
        return False
    return bool((told.count == 1).all() and (told.capacity > 0).all())


def _stated(policy: Policy, told: Instance) -> _Sum | None:
    """Read what options add to an objective; ``None`` where it is no such sum, or there is more."""
    if type(policy).objective is WeightedOptions.objective:
        if type(policy).constraints is not Policy.constraints or has_earlier(policy):
            return None
        if told.types == 1:
            return None  # a dynamic programme
        p = Problem(told)
        worth = cast("WeightedOptions", policy).worth(p)
        if not isinstance(worth, np.ndarray) or worth.shape != told.throughput.shape:
            return None  # an expression, or what is told where the program is stated
        fits = worth.dtype.kind in "fiu" and not (p.inexact or p.variables)
        each = p.weight[:, None] * worth
        return _Sum(each, 0.0, 1.0) if fits else None
    read = read_off(policy, told)
    gains = read.gains
    if gains is None or not read.exact:
        return None
    each = gains.slope[:, None] * told.throughput
    return _Sum(each, gains.constant, 1.0 if gains.maximised else -1.0)


def _offers(told: Instance, worth: Floats) -> Offers | None:
    """Leave out what nobody takes; ``None`` if what is there cannot be told."""
    room = told.capacity[told.option_accelerator]
    current = told.current if "current_option" in told.columns else np.zeros(worth.shape)
    runs = (told.throughput > 0) & (told.gpus > 0) & (told.gpus <= room)
    runs &= (worth > 0) | ((worth == 0) & (current > 0))
    if not np.isfinite(worth).all() or (told.gpus <= 0)[told.throughput > 0].any():
        return None
    worth = without_noise(np.where(runs, worth, 0.0).ravel()).reshape(worth.shape)
    adds, kind = np.where(runs, worth, -np.inf), told.option_accelerator
    return Offers(adds, told.gpus, kind, told.capacity, current * runs)


def _states(offers: Offers, price: Floats, staying: Floats) -> States | None:
    """State the choices of jobs: each option, or nothing."""
    jobs, options = offers.adds.shape
    amounts = np.zeros((jobs, options + 1, offers.capacity.size))
    held = np.where(np.isfinite(offers.adds), offers.gpus, 0.0)
    amounts[:, np.arange(options), offers.kind] = held
    cost = np.hstack([-offers.adds - staying, np.zeros((jobs, 1))])
    return States.of(cost + amounts @ price, amounts, offers.capacity, price)


def _first_of_each(like: Ints, option: Ints, options: int) -> Floats:
    """Write a decision; of jobs that are alike the first have the first of the options."""
    place = np.empty_like(option)
    place[np.argsort(like, kind="stable")] = option[np.lexsort((option, like))]
    X = np.zeros((option.size, options + 1))
    X[np.arange(option.size), place] = 1.0
    return X[:, :-1]
