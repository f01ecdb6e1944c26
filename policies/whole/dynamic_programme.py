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
    from apportion.types import Bools, Floats, Int64s, Ints


NEVER = 2**60
"""Cost of what a job cannot have."""
_BEAM, _LAST = (500, 4000), 40
_PARTS = (0.4, 0.7, 1.0)
"""Parts kept of each length where any good decision will do."""
_OFF = 16
"""What is left too much or too little counts so many times less than idle units in a beam."""
_FIRST = 60
"""Jobs that have a second option within the first reach."""
_WHOLE = 1 - 1e-7
"""Share from which on a number of an exact vertex is 1."""
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
        held = np.take_along_axis(held, order[:, :, None], axis=1)
        shift = np.append(0, np.cumsum(bits_of(room)))[:-1]
        return cls(ordered - ordered[:, :1], order, held, room, price, shift)

    def good(self, share: Floats, deadline: float) -> Decision | None:
        """Return a good decision, or the best one if that is easy to prove; ``None`` for none.

        Parameters
        ----------
        share
            Of each option at an optimum of the relaxation, shape (jobs, options).
        deadline
            Value of the clock at which the search ends.
        """
        found, reach = self._rounded(share), max(int(np.sort(self.cost[:, 1])[:_FIRST][-1]), 1)
        dearest = np.where(self.cost < NEVER // 2, self.cost, 0).max(axis=1)
        most = int(dearest.sum() + self.price @ self.room) if found is None else found.cost
        while reach < most:
            nearer = self.within(reach, deadline, _BEAM)
            if nearer is not None:
                return nearer
            reach *= 2
        return found or self.within(most, deadline)

    def _rounded(self, share: Floats) -> Decision | None:
        """Let jobs keep what they have all of, and each other one have the cheapest that fits."""
        whole = np.take_along_axis(share, self.option, axis=1) >= _WHOLE
        jobs, place = np.arange(len(whole)), whole.argmax(axis=1)
        sure = whole.any(axis=1)
        left = self.room - self.held[jobs, place][sure].sum(axis=0)
        for job in np.flatnonzero(~sure).tolist():
            fits = (self.held[job] <= left).all(axis=1) & (self.cost[job] < NEVER // 2)
            if not fits.any():
                return None
            place[job] = fits.argmax()
            left = left - self.held[job, place[job]]
        cost = int(self.cost[jobs, place].sum() + self.price @ left)
        return Decision(self.option[jobs, place], cost, False) if (left >= 0).all() else None

    def best(self, most: int, deadline: float) -> Decision | None:
        """Return the best decision, ``None`` if none costs at most `most`, or it takes too long."""
        for part in _PARTS:
            found = self.within(int(part * most), deadline)
            if found is not None:
                return found
        return None

    def within(
        self, reach: int, deadline: float, beam: tuple[int, int] | None = None
    ) -> Decision | None:
        """Return the best decision within a reach, ``None`` if there is none, or too many parts.

        Parameters
        ----------
        beam
            Parts that are kept of each length, the cheapest, and of the last lengths. What is found
            is proved to be the best only if that were all.
        """
        second = self.cost[:, 1]
        open_ = np.flatnonzero(second <= reach)
        open_ = open_[np.argsort(-second[open_], kind="stable")]
        near = self.cost[open_] <= reach
        packed, guard = (
            self.held << self.shift,
            int((1 << (self.shift + bits_of(self.room) - 1)).sum()),
        )
        packed = packed.sum(axis=2)
        waits, takes = self._of_those_that_wait(open_, near)
        left = self.room - self.held[second > reach, 0].sum(axis=0)
        if (left < waits[0]).any():
            return None
        fits, fills = ((each << self.shift).sum(axis=1) for each in (waits, takes + 1))
        key, cost = np.array([guard + (left << self.shift).sum()]), np.zeros(1, dtype=np.int64)
        cheapest = self.held[open_, 0]
        plain = np.append(cheapest[::-1].cumsum(axis=0)[::-1], [0 * self.room], axis=0)
        work, proved, steps = 0, True, []
        for turn, (job, options) in enumerate(zip(open_, near.sum(axis=1), strict=True), 1):
            work += cost.size * options
            if work > _MOST_WORK or time.perf_counter() > deadline:
                return None
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
            matter = idle <= reach
            kept, idle = kept[matter], idle[matter]
            width = kept.size if beam is None else beam[turn + _LAST > open_.size]
            if kept.size > width:
                proved = False
                # Parts that leave what the others would take at the prices are likely to be good.
                off = np.abs(self._left(key[kept]) - plain[turn][:, None])
                rank = idle + (self.price @ off) // _OFF
                kept = np.sort(kept[np.argsort(rank, kind="stable")[:width]])
            steps.append((job, before[kept], option[kept]))
            cost, key = cost[kept], key[kept]
        total = cost + self.price @ self._left(key)
        if not total.size or total.min() > reach:
            return None
        at, chosen = int(total.argmin()), np.zeros(len(self.cost), dtype=np.intp)
        found = int(total[at])
        for job, before, option in reversed(steps):
            chosen[job], at = option[at], before[at]
        return Decision(self.option[np.arange(chosen.size), chosen], found, proved)

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
