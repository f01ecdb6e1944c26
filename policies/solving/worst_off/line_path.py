"""Levels that rise where groups pass their rates on, at any height, without a step for each stop.

What a group has had in rate until now, its *sum*, settles the levels of its jobs, whatever others
do. As long as no group runs out of jobs that can rise, each sum rises at a rate of its own; when
that ends is found out for no greater heights than are asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.policies.water_filling import RatesOfGroups
    from apportion.types import Bools, Floats, Ints


class CrowdPath:
    """What `LinePath` is, where several jobs of a group rise at once: all straight at first.

    Attributes
    ----------
    first
        Height of the first stop, up to which nothing else is worked out.
    rate
        How fast each level rises up to there, shape (jobs,).
    """

    def __init__(self, rates: RatesOfGroups, most: Floats, active: Bools, level: Floats) -> None:
        self.rate, self._level, self._active = rates(active), level, active
        left, rises = np.array([np.inf]).repeat(level.size), self.rate > 0
        np.divide(np.maximum(most - level, 0.0), self.rate, out=left, where=rises)
        self.first = float(np.minimum.reduce(left))
        self._given = rates, most, active, level

    @cached_property
    def _beyond(self) -> LinePath:
        return LinePath(*self._given)

    def until(self, height: float) -> float:
        """Return the height of a stop beyond another height, or of the last one if none is."""
        return self.first if height < self.first else self._beyond.until(height)

    def standing(self, height: float) -> Bools:
        """Return who has not stopped yet, shape (jobs,)."""
        return self._active if height < self.first else self._beyond.standing(height)

    def along(self, height: float) -> tuple[Floats, Floats]:
        """Return the levels at a height, and how fast they rise up to there, shape (jobs,) each."""
        if height < self.first:
            return self._level + height * self.rate, self.rate
        return self._beyond.along(height)


class LinePath:
    """What `apportion.policies.solving.worst_off.own_limits.Path` is, of `RatesOfGroups`.

    Parameters
    ----------
    rates
        Of the jobs.
    most
        What each job has at most, shape (jobs,).
    active, level
        Who rises, and where all are now, shape (jobs,).

    Attributes
    ----------
    first
        Height of the first stop.
    """

    first: float

    def __init__(self, rates: RatesOfGroups, most: Floats, active: Bools, level: Floats) -> None:
        self._level, self._most, self._rates = level, most, rates
        rise, order = rates.part / rates.per, rates.in_line
        need = np.maximum(most - level, 0.0) / rise
        if order is None:
            order = np.lexsort((need, rates.place, rates.group))
        self._jobs = jobs = order[active[order]]
        group = rates.group[jobs]
        self._rise, need, self._left = rise[jobs], need[jobs], rates.part[jobs]
        new_group = _differs(group)
        begins = new_group.nonzero()[0]
        ends = np.concatenate([begins[1:], [jobs.size]]) - 1
        self._made, more = np.zeros(jobs.size), self._left * need
        self._crowds = rates.in_line is None
        if self._crowds:
            # Jobs at one place of a group rise together: a line of them is behind the one before.
            new_line = new_group | _differs(rates.place[jobs])
            self._starts = new_line.nonzero()[0]
            self._ends = np.concatenate([self._starts[1:], [jobs.size]]) - 1
            self._made[1:] = np.where(new_line[1:], 0.0, need[:-1])
            crowds = (self._ends > self._starts).nonzero()[0]
            for line in crowds.tolist():
                place = slice(self._starts[line], self._ends[line] + 1)
                self._left[place] = self._left[place][::-1].cumsum()[::-1]
            more = self._left * (need - self._made)
        places = zip(begins.tolist(), ends.tolist(), strict=True)
        self._stop = np.concatenate([more[start : end + 1].cumsum() for start, end in places])
        self._since = np.zeros(jobs.size)
        self._since[1:] = np.where(new_group[1:], 0.0, self._stop[:-1])
        self._begun = self._since
        if self._crowds:
            self._line = new_line.cumsum() - 1
            self._begun = self._since[self._starts][self._line]
        self._of_group = new_group.cumsum() - 1
        self._groups, self._whole = group[begins], self._stop[ends]
        self._height, self._had = [0.0], [np.zeros(begins.size)]
        self._speed: list[Floats] = []
        self._known = -1.0, level, level  # no height
        self.first = 0.0
        if self._goes_on():
            stop, speed = self._stop[begins], self._speed[0]
            first = np.divide(stop, speed, out=np.zeros(stop.size), where=speed > 0)
            self.first = float(np.minimum.reduce(first))

    def _goes_on(self) -> bool:
        """Note at which height the next group runs out of jobs, and what all have had by then."""
        had = self._had[-1]
        goes_on = had < self._whole
        if not np.logical_or.reduce(goes_on):
            return False
        alive = np.zeros(self._rates.groups, dtype=bool)
        alive[self._groups] = goes_on
        speed = np.where(goes_on, self._rates.shares(alive)[self._groups], 0.0)
        left = np.where(goes_on, self._whole - had, np.inf) / np.where(goes_on, speed, 1.0)
        more = float(np.minimum.reduce(left))
        self._had.append(np.where(left > more, had + more * speed, self._whole))
        self._speed.append(speed)
        self._height.append(self._height[-1] + more)
        return True

    def until(self, height: float) -> float:
        """Return the height of a stop beyond another height, or of the last one if none is."""
        while self._height[-1] <= height and self._goes_on():
            pass
        return self._height[-1]

    def _sums(self, height: float) -> tuple[Floats, Floats]:
        """Return what the group of each job has had at a height, and how fast that rises."""
        if height == self._known[0]:
            return self._known[1:]
        self.until(height)
        after = min(max(bisect_left(self._height, height), 1), len(self._speed))
        speed, had = self._speed[after - 1], self._had[after]
        if height < self._height[after]:
            had = self._had[after - 1] + (height - self._height[after - 1]) * speed
        self._known = height, had[self._of_group], speed[self._of_group]
        return self._known[1:]

    def standing(self, height: float) -> Bools:
        """Return who has not stopped yet, shape (jobs,)."""
        stands = np.zeros(self._level.size, dtype=bool)
        stands[self._jobs] = self._stop > self._sums(height)[0]
        return stands

    def along(self, height: float) -> tuple[Floats, Floats]:
        """Return the levels at a height, and how fast they rise up to there, shape (jobs,) each."""
        had, speed = self._sums(height)
        since, made, left = self._since, self._made, self._left
        if self._crowds:  # of each line, up to the first that has not stopped
            stopped = np.add.reduceat(self._stop < had, self._starts, dtype=np.intp)
            at = np.minimum(self._starts + stopped, self._ends)[self._line]
            since, made, left = since[at], made[at], left[at]
        time = np.maximum(made + (had - since) / left, 0.0)
        moves = (had > self._begun) & (self._stop >= had)
        level, slope = self._level.copy(), np.zeros(self._level.size)
        there = self._level[self._jobs] + self._rise * time
        level[self._jobs] = np.where(self._stop <= had, self._most[self._jobs], there)
        slope[self._jobs] = np.where(moves, self._rise * speed / left, 0.0)
        return level, slope


def _differs(values: Floats | Ints) -> Bools:
    """Tell which of some values differ from the one before, as the first one does."""
    differs = np.zeros(values.size, dtype=bool)
    differs[:1] = True
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs
