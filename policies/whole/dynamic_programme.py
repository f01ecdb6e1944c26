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
    from apportion.types import Bools, Int64s, Ints


NEVER = 2**60
"""Cost of what a job cannot have."""
_FARTHEST = 2.0**58
"""Reach beyond which sums of costs would not be exact."""
_FIRST = 6
"""Jobs that have a second option within the first reach."""
_NOISE = 64
"""What rounding and the preference for an option that a job has add to the cost of each job."""
_BEAM, _PARTS, _OFF = 1000, (0.4, 0.7, 1.0), 16
"""Parts kept of each length where any good decision will do, and parts of its cost within which
the best one is looked for; what is left too much or too little counts so many times less than idle
units in a beam."""
_MOST_WORK = 20_000_000
"""Parts up to which this is quicker than branch and bound."""


class Decision(NamedTuple):
    """Options of all jobs, shape (jobs,), what they cost above the bound, and if that is proved."""

    option: Int64s
    cost: int
    proved: bool


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
        """Return the best decision, or a good one that is not proved; ``None`` if none is found.

        Within a reach that grows, a beam finds a good decision, which is the best if no part was
        left out. Else the best is within its cost.

        Parameters
        ----------
        deadline
            Value of the clock at which the search ends.
        """
        dearest = np.where(self.cost < NEVER // 2, self.cost, 0).max(axis=1)
        most = int(min(dearest.sum(dtype=float) + float(self.price @ self.room), _FARTHEST))
        second = np.append(self.cost[:, 1], most)
        clear = second >= min(_NOISE * len(self.cost), most)
        reach = min(int(np.sort(second[clear])[:_FIRST][-1]), most)
        good = self._within(reach, deadline, _BEAM)
        while good is None and reach < most:
            reach = min(2 * reach + 1, most)
            good = self._within(reach, deadline, _BEAM)
        for part in _PARTS:
            if good is not None and not good.proved:
                good = self._within(int(part * good.cost), deadline) or good
        return good

    def _within(self, reach: int, deadline: float, beam: float = np.inf) -> Decision | None:
        """Return the best decision within a reach, ``None`` if there is none, or too many parts.

        At most `beam` parts are kept of each length; what is found is the best if these are all.
        """
        second = self.cost[:, 1]
        open_ = np.flatnonzero(second <= reach)
        open_ = open_[np.argsort(-second[open_], kind="stable")]
        near = self.cost[open_] <= reach
        least, most, cheapest = self._of_those_that_wait(open_, near)
        radix = np.append(1, np.cumprod(self.room[:-1] + 1))
        # What is left of each resource, shape (resources, parts), and what that costs.
        left = (self.room - self.held[second > reach, 0].sum(axis=0))[:, None]
        cost, work, proved, steps = np.zeros(1, dtype=np.int64), 0, True, []
        for turn, (job, options) in enumerate(zip(open_, near.sum(axis=1), strict=True)):
            work += cost.size * options
            if work > _MOST_WORK or time.perf_counter() > deadline:
                return None
            sums = (cost[:, None] + self.cost[job, :options]).ravel()
            step = np.flatnonzero(sums <= reach)
            before, option = np.divmod(step, options)
            cost, left = sums[step], left[:, before] - self.held[job, option].T
            idle = cost + self.price @ np.maximum(left - most[turn], 0)
            kept = np.flatnonzero((left >= least[turn]).all(axis=0) & (idle <= reach))
            kept = kept[_cheapest(radix @ left[:, kept], cost[kept])]
            if kept.size > beam:
                proved = False
                # Parts that leave what the others would take at the prices are likely to be good.
                off = self.price @ np.abs(left[:, kept] - cheapest[turn])
                rank = np.argsort(idle[kept] + off // _OFF, kind="stable")
                kept = np.sort(kept[rank[: int(beam)]])
            steps.append((job, before[kept], option[kept]))
            cost, left = cost[kept], left[:, kept]
        total = cost + self.price @ left
        if (left < 0).any() or not total.size or total.min() > reach:
            return None
        at, chosen = int(total.argmin()), np.zeros(len(self.cost), dtype=np.intp)
        found = int(total[at])
        for job, before, option in reversed(steps):
            chosen[job], at = option[at], before[at]
        return Decision(self.option[np.arange(chosen.size), chosen], found, proved)

    def _of_those_that_wait(self, jobs: Ints, near: Bools) -> Int64s:
        """Return what the jobs after each turn hold at least, at most, and at the prices.

        Shape (3, turns, resources, 1).
        """
        least = np.where(near[:, :, None], self.held[jobs], NEVER).min(axis=1)
        most = np.where(near[:, :, None], self.held[jobs], 0).max(axis=1)
        held = np.array([least, most, self.held[jobs, 0]])
        after = held.sum(axis=1, keepdims=True) - held.cumsum(axis=1)
        return np.asarray(after[:, :, :, None], dtype=np.int64)


def _cheapest(key: Int64s, cost: Int64s) -> Int64s:
    """Return the first of the cheapest of each key."""
    bits = key.size.bit_length()
    if int(key.max(initial=0)).bit_length() + bits < 63:  # numbers sort faster than places
        packed = np.sort((key << bits) | np.arange(key.size))
        key, order = packed >> bits, packed & ((1 << bits) - 1)
    else:
        order = np.argsort(key, kind="stable")
        key = key[order]
    cost = cost[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    if first.size == key.size:
        return order
    lowest = np.minimum.reduceat(cost, first)
    cheap = np.flatnonzero(cost == np.repeat(lowest, np.diff(first, append=key.size)))
    return order[cheap[np.flatnonzero(np.diff(key[cheap], prepend=-1))]]
