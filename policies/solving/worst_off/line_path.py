"""Levels that rise where groups pass their rates on, at any height, without a step for each stop.

What a group has had in rate until now, its *sum*, settles the levels of its jobs, whatever others
do. As long as no group runs out of jobs that can rise, each sum rises at a rate of its own.
"""

from __future__ import annotations

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
    first, last
        Heights of the first and of the last stop.
    """

    first: float
    last: float

    def __init__(self, rates: RatesOfGroups, most: Floats, active: Bools, level: Floats) -> None:
        self._level, self._most = level, most
        rise = rates.part / rates.per
        need = np.maximum(most - level, 0.0) / rise
        order = np.lexsort((need, rates.place, rates.group))
        self._jobs = jobs = order[active[order]]
        group, place = rates.group[jobs], rates.place[jobs]
        self._rise, self._need, self._left = rise[jobs], need[jobs], rates.part[jobs]
        # Jobs at one place of a group rise together: a line of them is behind the one before.
        new_group = np.diff(group, prepend=-1) != 0
        new_line = new_group | (np.diff(place, prepend=np.nan) != 0)
        starts = np.flatnonzero(new_line)
        ends = np.append(starts[1:], jobs.size)
        self._crowds = [
            (start, end)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
            if end - start > 1
        ]
        step = self._need.copy()
        for start, end in self._crowds:
            self._left[start:end] = self._left[start:end][::-1].cumsum()[::-1]
            step[start + 1 : end] -= self._need[start : end - 1]
        more, line = self._left * step, np.cumsum(new_line) - 1
        begins = np.flatnonzero(new_group).tolist()
        ends_of = [*begins[1:], jobs.size]
        self._stop = np.concatenate(
            [more[start:end].cumsum() for start, end in zip(begins, ends_of, strict=True)]
        )
        self._begun = np.where(new_group, 0.0, np.roll(self._stop, 1))[starts][line]
        self._of_group = np.cumsum(new_group) - 1
        self._phases(rates, group[begins], np.array(ends_of) - 1)
        self.last, self.first = float(self._height[-1]), 0.0
        if self._speed:
            stop, speed = self._stop[begins], self._speed[0]
            self.first = float(np.divide(stop, speed, out=0 * stop, where=speed > 0).min())
        self._left_first = self._left[starts][line]

    def _phases(self, rates: RatesOfGroups, groups: Ints, last: Ints) -> None:
        """Note at which heights groups run out of jobs, and what all have had by then."""
        whole, alive = self._stop[last], np.zeros(rates.groups, dtype=bool)
        height, self._had = [0.0], [np.zeros(whole.size)]
        self._speed: list[Floats] = []
        while (goes_on := self._had[-1] < whole).any():
            alive[groups], had = goes_on, self._had[-1]
            speed = np.where(goes_on, rates.shares(alive)[groups], 0.0)
            left = np.divide(whole - had, speed, out=np.full(had.size, np.inf), where=goes_on)
            more = float(left.min())
            self._had.append(np.where(left <= more, whole, had + more * speed))
            self._had[-1][~goes_on] = whole[~goes_on]
            self._speed.append(speed)
            height.append(height[-1] + more)
        self._height = np.array(height)

    def _sums(self, height: float) -> tuple[Floats, Floats]:
        """Return what the group of each job has had at a height, and how fast that rises."""
        after = min(max(int(np.searchsorted(self._height, height)), 1), len(self._speed))
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
        since, left, made = self._begun.copy(), self._left_first.copy(), np.zeros(had.size)
        for start, end in self._crowds:
            at = start + int(np.searchsorted(self._stop[start:end], had[start]))
            if start < at < end:
                since[start:end], made[start:end] = self._stop[at - 1], self._need[at - 1]
                left[start:end] = self._left[at]
        time = np.maximum(made + (had - since) / left, 0.0)
        moves = (had > self._begun) & (self._stop >= had)
        level, slope = self._level.copy(), np.zeros(self._level.size)
        there = self._level[self._jobs] + self._rise * time
        level[self._jobs] = np.where(self._stop <= had, self._most[self._jobs], there)
        slope[self._jobs] = np.where(moves, self._rise * speed / left, 0.0)
        return level, slope
