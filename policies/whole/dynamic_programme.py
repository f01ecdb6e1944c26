"""The best whole decision near the prices of a relaxation: an exact dynamic programme.

At prices p of the resources every option of a job has a cost, what it costs plus the price of what
it holds, less the cost of the job's cheapest option (to have nothing is one). A decision then lies
above the bound of the relaxation by ::

    sum over jobs of cost of their option + p @ (capacity - held)

in which all terms are at least 0. A decision within some *reach* of the bound takes only options
that cost no more than the reach, and so does every part of it, a decision about some of the jobs.
Of two parts that leave the same of each resource only the cheaper one matters; one that costs more
than the reach, or is sure to leave idle what does, matters not at all. If any decision is within
the reach the best one is; else the reach is doubled. Jobs whose options cost most come first, as
few parts survive them (the core of a knapsack problem by lists, after Pisinger, "A minimal
algorithm for the multiple-choice knapsack problem", EJOR 83, 1995).

All numbers are whole, so that which decision is the best hangs on no rounding.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Int64s, Ints


NEVER = 2**60
"""Cost of what a job cannot have."""
_FARTHEST = 2.0**58
"""Reach beyond which sums of costs would not be exact."""
_FIRST = 6
"""Jobs that have a second option within the first reach."""
_NOISE = 64
"""What rounding and the preference for an option that a job has add to the cost of each job."""
_NARROW = 8
"""Part of a reach without a decision that is not divided any further, its inverse."""
_MOST_WORK = 20_000_000
"""Parts up to which this is quicker than branch and bound."""


class _TooManyError(Exception):
    """There are too many parts within a reach, or the time is over."""


@dataclass(frozen=True, eq=False)
class Choices:
    """What jobs can choose among at prices of the resources, the cheapest first.

    Attributes
    ----------
    cost
        Of each option above the cheapest of its job, ascending, shape (jobs, options).
    option
        Place of each option in the order given, of the same shape.
    held
        Units of each resource, one more than there are at most, shape (jobs, options, resources).
    room, price
        Units of each resource, and the price of one, shape (resources,).
    shift
        Where a resource lies in a packed number, in which what is left of all resources is one.
        The bit above its largest amount is set as long as that is no less than 0.
    """

    cost: Int64s
    option: Int64s
    held: Int64s
    room: Int64s
    price: Int64s
    shift: Int64s

    @classmethod
    def of(cls, cost: Int64s, held: Int64s, room: Int64s, price: Int64s) -> Choices:
        """Sort the options of jobs; those that cost `NEVER` are closed."""
        order = np.argsort(cost, axis=1, kind="stable")
        ordered = np.take_along_axis(cost, order, axis=1)
        held = np.take_along_axis(np.minimum(held, room + 1), order[:, :, None], axis=1)
        shift = np.append(0, np.cumsum(bits_of(room)))[:-1]
        return cls(ordered - ordered[:, :1], order, held, room, price, shift)

    def best(self, deadline: float) -> Int64s | None:
        """Return the option of each job in the best decision; ``None`` if none is found.

        The reach grows until there is a decision, and shrinks where there are too many parts.

        Parameters
        ----------
        deadline
            Value of the clock at which the search ends.
        """
        dearest = np.where(self.cost < NEVER // 2, self.cost, 0).max(axis=1)
        most = int(min(dearest.sum(dtype=float) + float(self.price @ self.room), _FARTHEST))
        below, above = 0, most + 1
        second = np.append(self.cost[:, 1], most)
        noise = _NOISE * len(self.cost)
        reach = min(int(np.sort(second[second >= min(noise, most)])[:_FIRST][-1]), most)
        while above - below > below // _NARROW:
            try:
                found = self._within(reach, deadline)
            except _TooManyError:
                above = reach
            else:
                if found is not None:
                    return found
                below = reach + 1
            further = reach + reach // 2 + 1 if above > most else (below + above) // 2
            reach = min(further, most)
        return None

    def _within(self, reach: int, deadline: float) -> Int64s | None:
        """Return the options of the best decision within a reach, ``None`` if there is none.

        Raises
        ------
        _TooManyError
            If there are too many parts, or the time is over.
        """
        second = self.cost[:, 1]
        open_ = np.flatnonzero(second <= reach)
        open_ = open_[np.argsort(-second[open_], kind="stable")]
        near = self.cost[open_] <= reach
        guard = int((1 << (self.shift + bits_of(self.room) - 1)).sum())
        packed = (self.held << self.shift).sum(axis=2)
        waits, takes = self._of_those_that_wait(open_, near)
        left = self.room - self.held[second > reach, 0].sum(axis=0)
        if (left < waits[0]).any():
            return None
        fits, fills = ((each << self.shift).sum(axis=1) for each in (waits, takes + 1))
        key, cost = np.array([guard + (left << self.shift).sum()]), np.zeros(1, dtype=np.int64)
        work, steps = 0, []
        for turn, (job, options) in enumerate(zip(open_, near.sum(axis=1), strict=True), 1):
            work += cost.size * options
            if work > _MOST_WORK or time.perf_counter() > deadline:
                raise _TooManyError
            sums = (cost[:, None] + self.cost[job, :options]).ravel()
            step = np.flatnonzero(sums <= reach)
            before, option = np.divmod(step, options)
            cost, key = sums[step], key[before] - packed[job, option]
            kept = np.flatnonzero((key - fits[turn]) & guard == guard)
            kept = kept[_cheapest(key[kept], cost[kept])]
            idle = cost[kept]
            some = np.flatnonzero((key[kept] - fills[turn]) & guard)
            over = np.maximum(self._left(key[kept[some]]) - takes[turn][:, None], 0)
            idle[some] += self.price @ over
            kept = kept[idle <= reach]
            steps.append((job, before[kept], option[kept]))
            cost, key = cost[kept], key[kept]
        total = cost + self.price @ self._left(key)
        if not total.size or total.min() > reach:
            return None
        at, chosen = int(total.argmin()), np.zeros(len(self.cost), dtype=np.intp)
        for job, before, option in reversed(steps):
            chosen[job], at = option[at], before[at]
        return self.option[np.arange(chosen.size), chosen]

    def _left(self, key: Int64s) -> Int64s:
        """Return what packed numbers say is left of each resource, shape (resources, parts)."""
        mask = (1 << (bits_of(self.room) - 1)) - 1
        return (key >> self.shift[:, None]) & mask[:, None]

    def _of_those_that_wait(self, jobs: Ints, near: Bools) -> tuple[Int64s, Int64s]:
        """Return what the jobs from each turn on hold at least and at most, as far as there is."""
        least = np.where(near[:, :, None], self.held[jobs], NEVER).min(axis=1)
        most = np.where(near[:, :, None], self.held[jobs], 0).max(axis=1)
        rest = np.zeros((2, len(jobs) + 1, self.room.size), dtype=np.int64)
        rest[:, :-1] = np.array([least, most])[:, ::-1].cumsum(axis=1)[:, ::-1]
        waits, takes = np.minimum(rest, self.room + 1)
        return waits, takes - (takes > self.room)


def bits_of(room: Int64s) -> Int64s:
    """Return the bits that each resource has in a packed number, shape (resources,)."""
    return np.array([int(each + 1).bit_length() + 1 for each in room], dtype=np.int64)


def _cheapest(key: Int64s, cost: Int64s) -> Int64s:
    """Return the first of the cheapest of each key."""
    bits = key.size.bit_length()
    if key.size and int(key.max()).bit_length() + bits < 63:  # numbers sort faster than places
        packed = np.sort((key << bits) | np.arange(key.size))
        key, order = packed >> bits, packed & ((1 << bits) - 1)
    else:
        order = np.argsort(key, kind="stable")
        key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    if first.size == key.size:
        return order
    ordered = cost[order]
    lowest = np.minimum.reduceat(ordered, first)
    cheap = np.flatnonzero(ordered == np.repeat(lowest, np.diff(first, append=key.size)))
    return order[cheap[np.flatnonzero(np.diff(key[cheap], prepend=-1))]]
