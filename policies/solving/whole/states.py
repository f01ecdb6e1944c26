"""Exact search over what has been taken of each resource, job by job, near the relaxation.

With dual values y of the relaxation, prices p of the resources and u of the jobs' units, a whole
decision x is worth ::

    value(x) = least + sum over jobs of cost of their choice + p @ (capacity - taken)

where an option costs its reduced cost, no option costs u, both less the least of their job, and
``least`` is what is left. All terms are at least 0. So a decision within some *reach* of ``least``
takes only choices that cost no more than it, and so does every part of it: of two parts that have
taken the same of each resource only the cheaper one matters, and one that costs more than the
reach, or is sure to leave idle what does, matters not at all. If any decision is within the reach
the best of all is; else the reach is widened. Choices that are dear come first: few parts survive
them, and at the end little of each resource is open (the core of a knapsack problem by lists, after
Pisinger, "A minimal algorithm for the multiple-choice knapsack problem", EJOR 83, 1995).

To keep the option that a job has is worth `STAYING`, as in branch and bound.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solving.whole.branch_and_bound import STAYING, Found

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.policies.solving.whole.relaxation import Relaxed
    from apportion.types import Floats, Int64s


_BEAM, _FIRST = 500, 1 / 64
"""Parts kept of each length where any good decision will do, and where to reach for one first."""
_PARTS = (0.4, 0.6, 0.8, 1.0)
"""Parts of what a good decision costs within which the best is looked for, one after the other."""
_MOST_WORK = 20_000_000
"""Parts up to which it is quicker than branch and bound."""
_MOST_BITS = 62
ROUNDING = 1e-12
"""Part of the largest number of a sum that rounding may make of it."""


class _TooMany(Exception):
    """There are too many parts for this to be quick."""


@dataclass
class States:
    """The choices of all jobs at some prices of the resources, the cheapest of each job first.

    Attributes
    ----------
    cost
        Of each choice at the prices, less the least of its job; infinite where a job has no more
        choices; shape (jobs, choices).
    option
        What is chosen, a place among the choices as they were given, shape (jobs, choices).
    amounts
        Taken of each resource, shape (jobs, choices, resources).
    capacity, price
        Of each resource, shape (resources,).
    shift, mask
        Where a resource lies in a packed number, and its bits, shape (resources,).
    least
        Least value of any decision.
    """

    cost: Floats
    option: Int64s
    amounts: Int64s
    capacity: Floats
    price: Floats
    shift: Int64s
    mask: Int64s
    least: float

    @classmethod
    def of(cls, cost: Floats, amounts: Floats, capacity: Floats, price: Floats) -> States | None:
        """Order the choices of jobs; ``None`` where they do not take whole amounts.

        Parameters
        ----------
        cost
            Minimised, infinite where a job has no such choice; the last one is to have nothing;
            shape (jobs, choices).
        amounts
            Taken of each resource, shape (jobs, choices, resources).
        capacity, price
            Of each resource, shape (resources,).
        """
        if 2 * capacity.size > _MOST_BITS or not np.isfinite(capacity).all():
            return None
        if (amounts != np.rint(amounts)).any() or amounts.min(initial=0.0) < 0:
            return None
        bits = [int(most).bit_length() + 1 for most in capacity + amounts.max(axis=(0, 1))]
        if sum(bits) > _MOST_BITS:
            return None
        reduced = cost + amounts @ price
        lowest = reduced.min(axis=1)
        option = np.argsort(reduced, axis=1, kind="stable")
        ordered = np.take_along_axis(reduced - lowest[:, None], option, axis=1)
        taken = np.take_along_axis(amounts, option[:, :, None], axis=1).astype(np.int64)
        shift = np.array([sum(bits[:place]) for place in range(len(bits))], dtype=np.int64)
        mask = np.array([(1 << each) - 1 for each in bits], dtype=np.int64)
        least = float(lowest.sum()) - float(capacity @ price)
        return cls(ordered, option, taken, capacity, price, shift, mask, least)

    def within(
        self, reach: float, deadline: float, beam: int | None = None
    ) -> tuple[Int64s, float, bool] | None:
        """Return choices and cost of the best decision within a reach, if any, and if it is that.

        With a `beam` only so many parts are kept of each length, the cheapest, and what is found
        need not be the best if any is left out.

        Raises
        ------
        _TooMany
            If that takes too many parts, or too long.
        """
        jobs, choices = self.cost.shape
        second = self.cost[:, 1] if choices > 1 else np.full(jobs, np.inf)
        chosen, settled = np.zeros(jobs, dtype=np.intp), second > reach
        held = self.amounts[settled, 0].sum(axis=0)
        if (held > self.capacity + 1e-9).any():
            return None
        wait = np.flatnonzero(~settled)
        open_ = wait[np.argsort(-second[wait], kind="stable")]
        near = self.cost[open_] <= reach
        key = np.array([held @ (1 << self.shift)], dtype=np.int64)
        cost, work, whole = np.zeros(1), 0, True
        least, most = self._rest(open_, near)
        packed, count = (self.amounts[open_] << self.shift).sum(axis=2), near.sum(axis=1).tolist()
        steps: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        for turn, job in enumerate(open_.tolist()):
            work += key.size * count[turn]
            if work > _MOST_WORK or time.perf_counter() > deadline:
                raise _TooMany
            sums = cost[:, None] + self.cost[job, : count[turn]]
            before, choice = np.nonzero(sums <= reach)
            key, cost = key[before] + packed[turn, choice], sums[before, choice]
            kept, idle = self._matter(key, cost, reach, least[turn + 1], most[turn + 1])
            if not kept.size:
                return None
            if beam is not None and kept.size > beam:
                whole = False
                kept = np.sort(kept[np.argsort(idle[kept], kind="stable")[:beam]])
            key, cost = key[kept], cost[kept]
            steps.append((before[kept].astype(np.int32), choice[kept].astype(np.int32)))
        idle = self.capacity[:, None] - ((key >> self.shift[:, None]) & self.mask[:, None])
        total = cost + sum(price * left for price, left in zip(self.price, idle, strict=True))
        at = int(total.argmin())
        if total[at] > reach:
            return None
        for (since, taken), job in zip(reversed(steps), reversed(open_.tolist()), strict=True):
            chosen[job] = taken[at]
            at = int(since[at])
        return self.option[np.arange(jobs), chosen], float(total.min()), whole

    def _rest(self, open_: Int64s, near: NDArray[np.bool_]) -> tuple[Int64s, Int64s]:
        """Return the least and the most that the jobs from each on take, by resource."""
        amounts, far = self.amounts[open_], ~near[:, :, None]
        least = np.where(far, np.iinfo(np.int64).max, amounts).min(axis=1, initial=2**62)
        most = np.where(far, 0, amounts).max(axis=1, initial=0)
        rest = np.zeros((2, open_.size + 1, self.shift.size), dtype=np.int64)
        rest[:, :-1] = np.cumsum(np.array([least, most])[:, ::-1], axis=1)[:, ::-1]
        return rest[0], rest[1]

    def _matter(
        self, key: Int64s, cost: Floats, reach: float, least: Int64s, most: Int64s
    ) -> tuple[Int64s, Floats]:
        """Return which parts may become a decision within reach, and what each costs at least."""
        left = self.capacity[:, None] - ((key >> self.shift[:, None]) & self.mask[:, None])
        # Amounts are whole; a capacity is a float, which may miss a whole number.
        fits, idle = (left >= least[:, None] - 1e-9).all(axis=0), cost
        for price, over in zip(self.price.tolist(), left - most[:, None], strict=True):
            if price:
                idle = idle + price * np.maximum(over, 0.0)
        kept = np.flatnonzero(fits & (idle <= reach))
        if not kept.size:
            return kept, idle
        kept = kept[np.lexsort((cost[kept], key[kept]))]
        taken, new = key[kept], np.ones(kept.size, dtype=bool)
        np.not_equal(taken[1:], taken[:-1], out=new[1:])
        return kept[new], idle


def by_states(
    whole: WholeProgram, relaxed: Relaxed, known: Floats, deadline: float
) -> Found | None:
    """Find the best whole decision; ``None`` where this is not the way, or not a quick one.

    Parameters
    ----------
    known
        Any whole decision: how far to reach at most.
    deadline
        Value of the clock at which the search ends.
    """
    instance, program, k = whole.p.instance, whole.program, whole.cells.size
    single = whole.separable and instance.solo and bool((instance.count == 1).all())
    if not (single and k) or whole.lower.any():
        return None
    stays = np.asarray(STAYING * whole.largest_cost * whole.stays, dtype=np.float64)
    row, option = np.divmod(whole.cells, instance.options)
    held = program.A[whole.priced].tocsc()[:, :k].toarray()
    shape = (instance.jobs, instance.options + 1)
    cost, column = np.full(shape, np.inf), np.full(shape, -1)
    amounts = np.zeros((*shape, len(held)))
    cost[row, option], cost[:, -1] = program.c[:k] - stays, 0.0
    column[row, option], amounts[row, option] = np.arange(k), held.T
    price = np.maximum(relaxed.dual[whole.priced], 0.0)
    states = States.of(cost, amounts, program.b[whole.priced], price)
    if states is None:
        return None
    least = states.least + program.offset
    most = relaxed.slack(whole, known) + abs(least - relaxed.bound)
    rounding = ROUNDING * max(abs(relaxed.bound), whole.largest_cost)
    found = best_of(states, most, rounding, deadline)
    if found is None:
        return None
    x, taken = np.zeros(program.c.size), column[np.arange(instance.jobs), found[0]]
    x[taken[taken >= 0]] = 1.0
    bound = program.value(x) - float(stays @ x[:k])
    return Found(x, bound, "optimal", 0)


def best_of(
    states: States, most: float, rounding: float, deadline: float, *, exact: bool = True
) -> tuple[Int64s, float] | None:
    """Return the choice of each job in the best decision that costs `most` at the most.

    And what it costs at most above the best. ``None`` where there is none, or the search takes too
    many parts, or too long.

    Parameters
    ----------
    most
        What some decision costs at the prices.
    rounding
        What sums of costs may be off by.
    deadline
        Value of the clock at which the search ends.
    exact
        Whether it is to be the best; else any that is found quickly will do.
    """
    try:
        return _best(states, most, rounding, deadline, exact)
    except _TooMany:
        return None


def _best(
    states: States, most: float, rounding: float, deadline: float, exact: bool
) -> tuple[Int64s, float] | None:
    """Reach for a good decision first, then for the best, never further than needed."""
    reach, good = _FIRST * most, None
    while good is None and reach < most:
        good = states.within(reach, deadline, _BEAM)
        reach *= 2
    if good is not None and not good[2]:
        good = states.within(good[1] + rounding, deadline, _BEAM) or good
        most = good[1] + rounding
    if good is not None and (good[2] or not exact):
        return good[0], 0.0 if good[2] else good[1]
    if not exact:
        return None
    for part in _PARTS:
        found = states.within(part * most, deadline)
        if found is not None:
            return found[0], 0.0
    return None
