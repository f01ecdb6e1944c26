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
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Int64s


_BEAM = 500
"""Parts kept of each length where any good decision will do."""
_FEW, _FIRST, _FIRST_OF_FEW = 100, 1 / 64, 1 / 8
"""Where to reach for a good decision first, of what one costs; further where jobs are few."""
_LAST, _WIDER = 40, 8
"""Of the last jobs, whose choices fill up what is left, so many times as many parts are kept."""
_PARTS = (0.4, 0.7, 1.0)
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
        Where a resource lies in a packed number, and its bits, shape (resources,). The highest of
        them is spare: it tells whether a difference is below 0.
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
    def of(cls, reduced: Floats, amounts: Floats, capacity: Floats, price: Floats) -> States | None:
        """Order the choices of jobs; ``None`` where they do not take whole amounts.

        Parameters
        ----------
        reduced
            Costs at the prices, infinite where a job has no such choice; the last one is to have
            nothing; shape (jobs, choices).
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
        lowest = reduced.min(axis=1)
        option = np.argsort(reduced, axis=1, kind="stable")
        ordered = np.take_along_axis(reduced - lowest[:, None], option, axis=1)
        taken = np.take_along_axis(amounts, option[:, :, None], axis=1).astype(np.int64)
        shift = np.array([sum(bits[:place]) for place in range(len(bits))], dtype=np.int64)
        mask = np.array([(1 << each) - 1 for each in bits], dtype=np.int64)
        least = float(lowest.sum()) - float(capacity @ price)
        return cls(ordered, option, taken, capacity, price, shift, mask, least)

    def within(
        self, reach: float, deadline: float, beam: tuple[int, int] | None = None
    ) -> tuple[Int64s, float, bool] | None:
        """Return choices and cost of the best decision within a reach, if any, and if it is that.

        With a `beam` only so many parts are kept of each length, and so many of the last lengths,
        the cheapest, and what is found need not be the best if any is left out.

        Raises
        ------
        _TooMany
            If that takes too many parts, or too long.
        """
        jobs, choices = self.cost.shape
        second = self.cost[:, 1] if choices > 1 else np.full(jobs, np.inf)
        chosen, settled = np.zeros(jobs, dtype=np.intp), second > reach
        held = self.amounts[settled, 0].sum(axis=0)
        wait = np.flatnonzero(~settled)
        open_ = wait[np.argsort(-second[wait], kind="stable")]
        near = self.cost[open_] <= reach
        limits = _Limits.of(self, open_, near)
        if (held > limits.room[0]).any():
            return None
        key, cost = np.array([held @ (1 << self.shift)], dtype=np.int64), np.zeros(1)
        work, whole, steps = 0, True, []
        packed, count = (self.amounts[open_] << self.shift).sum(axis=2), near.sum(axis=1).tolist()
        for turn, job in enumerate(open_.tolist()):
            choices = count[turn]
            work += key.size * choices
            if work > _MOST_WORK or time.perf_counter() > deadline:
                raise _TooMany
            sums = (cost[:, None] + self.cost[job, :choices]).ravel()
            step = np.flatnonzero(sums <= reach)
            before = step // choices
            key, cost = key[before] + packed[turn].take(step - before * choices), sums[step]
            fits, idle = limits.matter(turn + 1, key, cost, reach)
            kept = fits[_cheapest(key[fits], cost[fits])]
            if not kept.size:
                return None
            most = kept.size if beam is None else beam[turn >= open_.size - _LAST]
            if kept.size > most:
                whole = False
                kept = np.sort(kept[np.argsort(idle[kept], kind="stable")[:most]])
            key, cost = key[kept], cost[kept]
            steps.append(step[kept].astype(np.int32))
        total = cost + sum(
            price * left for price, left in zip(self.price, self.left(key), strict=True)
        )
        at = int(total.argmin())
        if total[at] > reach:
            return None
        for taken, job, choices in zip(steps[::-1], open_.tolist()[::-1], count[::-1], strict=True):
            at, chosen[job] = divmod(int(taken[at]), choices)
        return self.option[np.arange(jobs), chosen], float(total.min()), whole

    def left(self, key: Int64s) -> Floats:
        """Return what parts leave of each resource, shape (resources, parts)."""
        return self.capacity[:, None] - ((key >> self.shift[:, None]) & self.mask[:, None])


class _Limits(NamedTuple):
    """What a part may have taken before each turn, and in the end, for it to matter.

    Attributes
    ----------
    states
        Where the parts are of.
    room
        Most that it may have taken for the jobs that wait to fit, shape (turns + 1, resources).
    most
        Most that these take, of the same shape.
    fits, fills
        Packed, what taken is subtracted from and added to: spare bits stay where it is at most
        `room`, and where what waits may fill up all resources; shape (turns + 1,).
    spare
        The spare bits.
    """

    states: States
    room: Int64s
    most: Int64s
    fits: list[int]
    fills: list[int]
    spare: int

    @classmethod
    def of(cls, states: States, open_: Int64s, near: Bools) -> _Limits:
        """Find the limits of jobs in an order, of which only some choices are near."""
        amounts, far = states.amounts[open_], ~near[:, :, None]
        least = np.where(far, np.iinfo(np.int64).max, amounts).min(axis=1, initial=2**62)
        most = np.where(far, 0, amounts).max(axis=1, initial=0)
        rest = np.zeros((2, open_.size + 1, states.shift.size), dtype=np.int64)
        rest[:, :-1] = np.cumsum(np.array([least, most])[:, ::-1], axis=1)[:, ::-1]
        # Amounts are whole; a capacity is a float, which may miss a whole number.
        room = np.floor(states.capacity + 1e-9).astype(np.int64) - rest[0]
        full = np.ceil(states.capacity).astype(np.int64)
        spare = int((((states.mask >> 1) + 1) << states.shift).sum())
        # Where nothing fits, nothing is asked: what waits only grows less.
        fits = spare + (np.maximum(room, 0) << states.shift).sum(axis=1)
        fills = spare - (np.maximum(full - rest[1], 0) << states.shift).sum(axis=1)
        return cls(states, room, rest[1], fits.tolist(), fills.tolist(), spare)

    def matter(self, turn: int, key: Int64s, cost: Floats, reach: float) -> tuple[Int64s, Floats]:
        """Return which parts may become a decision within reach, and what each costs at least."""
        fits = ((self.fits[turn] - key) & self.spare) == self.spare
        leaves = ((self.fills[turn] + key) & self.spare) != self.spare
        some, idle = np.flatnonzero(fits & leaves), cost
        if some.size:
            over, least = self.states.left(key[some]) - self.most[turn][:, None], cost[some]
            for price, sure in zip(self.states.price.tolist(), over, strict=True):
                if price:
                    least = least + price * np.maximum(sure, 0.0)
            fits[some], idle = least <= reach, cost.copy()
            idle[some] = least
        return np.flatnonzero(fits), idle


def _cheapest(key: Int64s, cost: Floats) -> Int64s:
    """Return the first of the cheapest of each key, in the order of the keys."""
    bits = key.size.bit_length()
    if key.size and int(key.max()).bit_length() + bits < 64:  # numbers sort faster than places
        packed = np.sort((key << bits) | np.arange(key.size))
        key, order = packed >> bits, packed & ((1 << bits) - 1)
    else:
        order = np.argsort(key, kind="stable")
        key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    if starts.size == key.size:
        return order
    ordered, length = cost[order], np.diff(starts, append=key.size)
    low = np.minimum.reduceat(ordered, starts)
    cheap = np.flatnonzero(ordered == np.repeat(low, length))
    if cheap.size > starts.size:
        cheap = cheap[np.flatnonzero(np.diff(key[cheap], prepend=-1))]
    return order[cheap]


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
    beam = _BEAM, _BEAM * (_WIDER if exact else 1)
    first = _FIRST_OF_FEW if len(states.cost) < _FEW else _FIRST
    reach, good = first * most, None
    while good is None and reach < most:
        good = states.within(reach, deadline, beam)
        reach *= 2
    if good is not None and not good[2]:
        most = good[1] + rounding
        if not exact:
            good = states.within(most, deadline, beam) or good
    if good is not None and (good[2] or not exact):
        return good[0], 0.0 if good[2] else good[1]
    if not exact:
        return None
    for part in _PARTS:
        found = states.within(part * most, deadline)
        if found is not None:
            return found[0], 0.0
    return None
