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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Int64s


NEVER = 2**60
"""Cost of what a job cannot have."""
_BEAM = 500
"""Parts kept of each length where any good decision will do."""
_FIRST = 24
"""Jobs that have a second option within the first reach."""
_MOST_WORK = 20_000_000
"""Parts up to which this is quicker than branch and bound."""


class Decision(NamedTuple):
    """Options of all jobs, shape (jobs,), what they cost above the bound, and if that is proved."""

    option: Int64s
    cost: int
    proved: bool


class _TooMuchWork(Exception):
    """The parts are too many, or the time is over."""


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
        Units of each resource, shape (jobs, options, resources).
    room, price
        Units of each resource, and the price of one, shape (resources,).
    """

    cost: Int64s
    option: Int64s
    held: Int64s
    room: Int64s
    price: Int64s

    @classmethod
    def of(cls, cost: Int64s, held: Int64s, room: Int64s, price: Int64s) -> Choices:
        """Sort the options of jobs; those that cost `NEVER` are closed."""
        order = np.argsort(cost, axis=1, kind="stable")
        ordered = np.take_along_axis(cost, order, axis=1)
        held = np.take_along_axis(held, order[:, :, None], axis=1)
        return cls(ordered - ordered[:, :1], order, held, room, price)

    def best(self, deadline: float) -> Decision | None:
        """Return the best decision, not proved where that takes too long.

        ``None`` if there is no decision, or none was found.

        Parameters
        ----------
        deadline
            Value of the clock at which the search ends.
        """
        second = np.sort(self.cost[:, 1]) if self.cost.shape[1] > 1 else np.zeros(1, np.int64)
        reach, found = max(int(second[min(_FIRST, second.size) - 1]), 1), None
        try:
            while found is None and reach < NEVER:
                found, reach = self.within(reach, deadline, _BEAM), 2 * reach
            if found is None or found.proved:
                return found
            nearer = self.within(found.cost // 2, deadline)
            return nearer or self.within(found.cost, deadline)
        except _TooMuchWork:
            return found

    def within(self, reach: int, deadline: float, beam: int | None = None) -> Decision | None:
        """Return the best decision within a reach, ``None`` if there is none.

        With a `beam` only so many parts of each length are kept, the cheapest, and what is found is
        proved to be the best only if all were.

        Raises
        ------
        _TooMuchWork
            If the parts are too many, or the clock has reached the deadline.
        """
        second = self.cost[:, 1] if self.cost.shape[1] > 1 else np.full(len(self.cost), NEVER)
        open_ = np.flatnonzero(second <= reach)
        open_ = open_[np.argsort(-second[open_], kind="stable")]
        near = self.cost[open_] <= reach
        least = np.where(near[:, :, None], self.held[open_], NEVER).min(axis=1, initial=NEVER)
        most = np.where(near[:, :, None], self.held[open_], 0).max(axis=1, initial=0)
        # What all the jobs that wait hold at least, and at most.
        wait_least, wait_most = (each[::-1].cumsum(axis=0)[::-1] for each in (least, most))
        strides = np.append(1, np.cumprod(self.room[:-1] + 1))
        cost = np.zeros(1, dtype=np.int64)
        left = (self.room - self.held[second > reach, 0].sum(axis=0))[:, None]
        work, proved, steps = 0, True, []
        for turn, (job, options) in enumerate(zip(open_, near.sum(axis=1), strict=True)):
            work += cost.size * options
            if work > _MOST_WORK or time.perf_counter() > deadline:
                raise _TooMuchWork
            sums = (cost[:, None] + self.cost[job, :options]).ravel()
            step = np.flatnonzero(sums <= reach)
            before, option = np.divmod(step, options)
            cost, left = sums[step], left[:, before] - self.held[job, option].T
            after = turn + 1 < open_.size
            waits = wait_least[turn + 1] if after else 0 * self.room
            takes = wait_most[turn + 1] if after else 0 * self.room
            idle = cost + self.price @ np.maximum(left - takes[:, None], 0)
            kept = np.flatnonzero((left >= waits[:, None]).all(axis=0) & (idle <= reach))
            kept = kept[_cheapest(strides @ left[:, kept], cost[kept])]
            if beam is not None and kept.size > beam:
                proved = False
                kept = np.sort(kept[np.argsort(idle[kept], kind="stable")[:beam]])
            cost, left = cost[kept], left[:, kept]
            steps.append((job, before[kept], option[kept]))
        total = np.where((left >= 0).all(axis=0), cost + self.price @ left, NEVER)
        if not total.size or total.min() > reach:
            return None
        at, chosen = int(total.argmin()), np.zeros(len(self.cost), dtype=np.intp)
        found = int(total[at])
        for job, before, option in reversed(steps):
            chosen[job], at = option[at], before[at]
        return Decision(self.option[np.arange(chosen.size), chosen], found, proved)


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
