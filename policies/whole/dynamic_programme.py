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
        second = np.append(self.cost[:, 1], most)
        clear = second >= min(_NOISE * len(self.cost), most)
        reach = min(int(np.sort(second[clear])[:_FIRST][-1]), most)
        below, above = 0, most + 1
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
        least, most = self._of_those_that_wait(open_, near)
        radix = np.append(1, np.cumprod(self.room[:-1] + 1))
        # What is left of each resource, shape (resources, parts), and what that costs.
        left = (self.room - self.held[second > reach, 0].sum(axis=0))[:, None]
        cost, work, steps = np.zeros(1, dtype=np.int64), 0, []
        for turn, (job, options) in enumerate(zip(open_, near.sum(axis=1), strict=True)):
            work += cost.size * options
            if work > _MOST_WORK or time.perf_counter() > deadline:
                raise _TooManyError
            sums = (cost[:, None] + self.cost[job, :options]).ravel()
            step = np.flatnonzero(sums <= reach)
            before, option = np.divmod(step, options)
            cost, left = sums[step], left[:, before] - self.held[job, option].T
            idle = cost + self.price @ np.maximum(left - most[turn], 0)
            kept = np.flatnonzero((left >= least[turn]).all(axis=0) & (idle <= reach))
            kept = kept[_cheapest(radix @ left[:, kept], cost[kept])]
            steps.append((job, before[kept], option[kept]))
            cost, left = cost[kept], left[:, kept]
        total = cost + self.price @ left
        if (left < 0).any() or not total.size or total.min() > reach:
            return None
        at, chosen = int(total.argmin()), np.zeros(len(self.cost), dtype=np.intp)
        for job, before, option in reversed(steps):
            chosen[job], at = option[at], before[at]
        return self.option[np.arange(chosen.size), chosen]

    def _of_those_that_wait(self, jobs: Ints, near: Bools) -> Int64s:
        """Return what the jobs after each turn hold at least and at most of each resource.

        Shape (2, turns, resources, 1).
        """
        least = np.where(near[:, :, None], self.held[jobs], NEVER).min(axis=1)
        most = np.where(near[:, :, None], self.held[jobs], 0).max(axis=1)
        held = np.array([least, most])
        return (held.sum(axis=1, keepdims=True) - held.cumsum(axis=1))[:, :, :, None]


def _cheapest(key: Int64s, cost: Int64s) -> Int64s:
    """Return the first of the cheapest of each key."""
    order = np.argsort(key, kind="stable")
    key, cost = key[order], cost[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    if first.size == key.size:
        return order
    lowest = np.minimum.reduceat(cost, first)
    cheap = np.flatnonzero(cost == np.repeat(lowest, np.diff(first, append=key.size)))
    return order[cheap[np.flatnonzero(np.diff(key[cheap], prepend=-1))]]
