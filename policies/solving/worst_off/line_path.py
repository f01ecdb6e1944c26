"""Levels that rise where groups pass their rates on, at any height, without a step for each stop.

What a group has had in rate until now, its *sum*, settles the levels of its jobs, whatever others
do. As long as no group runs out of jobs that can rise, each sum rises at a rate of its own; when
that ends is found out for no greater heights than are asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.policies.water_filling import RatesOfGroups
    from apportion.types import Bools, Floats, Ints


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
        rise = rates.part / rates.per
        need = np.maximum(most - level, 0.0) / rise
        order = np.lexsort((need, rates.place, rates.group))
        self._jobs = jobs = order[active[order]]
        group, place = rates.group[jobs], rates.place[jobs]
        self._rise, need, self._left = rise[jobs], need[jobs], rates.part[jobs]
        # Jobs at one place of a group rise together: a line of them is behind the one before.
        new_group = np.ones(jobs.size, dtype=bool)
        new_group[1:] = group[1:] != group[:-1]
        new_line = new_group.copy()
        new_line[1:] |= place[1:] != place[:-1]
        self._starts, begins = new_line.nonzero()[0], new_group.nonzero()[0]
        self._ends = _ends(self._starts, jobs.size)
        self._crowded = (self._ends > self._starts).any()
        self._made = _before(need, new_line)
        for start, end in self._crowds():
            self._left[start:end] = self._left[start:end][::-1].cumsum()[::-1]
        more, ends = self._left * (need - self._made), _ends(begins, jobs.size)
        self._stop = np.concatenate(
            [
                more[start : end + 1].cumsum()
                for start, end in zip(begins.tolist(), ends.tolist(), strict=True)
            ]
        )
        self._since = _before(self._stop, new_group)
        self._line = new_line.cumsum() - 1
        self._begun = self._since[self._starts][self._line]
        self._of_group = new_group.cumsum() - 1
        self._groups, self._whole = group[begins], self._stop[ends]
        self._height, self._had = [0.0], [np.zeros(begins.size)]
        self._speed: list[Floats] = []
        self.first = 0.0
        if self._goes_on():
            stop, speed = self._stop[begins], self._speed[0]
            self.first = float(np.divide(stop, speed, out=0 * stop, where=speed > 0).min())

    def _crowds(self) -> list[tuple[int, int]]:
        """Return where the jobs are that are not alone at their place."""
        crowds = (self._ends > self._starts).nonzero()[0]
        return [*zip(self._starts[crowds].tolist(), (self._ends[crowds] + 1).tolist(), strict=True)]

    def _goes_on(self) -> bool:
        """Note at which height the next group runs out of jobs, and what all have had by then."""
        had = self._had[-1]
        goes_on = had < self._whole
        if not goes_on.any():
            return False
        alive = np.zeros(self._rates.groups, dtype=bool)
        alive[self._groups] = goes_on
        speed = np.where(goes_on, self._rates.shares(alive)[self._groups], 0.0)
        left = np.where(goes_on, self._whole - had, np.inf) / np.where(goes_on, speed, 1.0)
        more = float(left.min())
        now = np.where(left > more, had + more * speed, self._whole)
        self._had.append(np.where(goes_on, now, self._whole))
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
        self.until(height)
        after = min(max(bisect_left(self._height, height), 1), len(self._speed))
        speed, had = self._speed[after - 1], self._had[after]
        if height < self._height[after]:
            had = self._had[after - 1] + (height - self._height[after - 1]) * speed
        return had[self._of_group], speed[self._of_group]

    def standing(self, height: float) -> Bools:
        """Return who has not stopped yet, shape (jobs,)."""
        stands = np.zeros(self._level.size, dtype=bool)
        stands[self._jobs] = self._stop > self._sums(height)[0]
        return stands

    def along(self, height: float) -> tuple[Floats, Floats]:
        """Return the levels at a height, and how fast they rise up to there, shape (jobs,) each."""
        had, speed = self._sums(height)
        since, made, left = self._since, self._made, self._left
        if self._crowded:  # of each line, up to the first that has not stopped
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


def _before(values: Floats, new: Bools) -> Floats:
    """Return the value before each, 0 where something new begins."""
    before = np.zeros(values.size)
    before[1:] = values[:-1]
    before[new] = 0.0
    return before


def _ends(starts: Ints, size: int) -> Ints:
    """Return where what starts somewhere ends."""
    return np.concatenate([starts[1:], [size]]) - 1
