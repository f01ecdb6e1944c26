"""Levels that end at what jobs make with all of their time: many of them passed at once.

A job that has all of its time rises no further, whoever else there is. Which levels all jobs would
have if nothing else held them follows from their rates alone: a path, along which one after the
other stops at its own limit (`OwnLimits`). It is valid up to the height at which the capacities
hold somebody for the first time, since who can have the levels of a height can have all lower ones.
That height is found by Newton's method. A linear program tells which part of the levels of a height
is feasible, and its dual values y bound what jobs can have together::

    sum of y * u  <=  the part * sum of y * levels

The next height is the one at which the path meets that bound. It is never too low, so each is lower
than the last, until its levels are feasible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.errors import SolveError
from apportion.policies.solving.cone import rows_that_are_bounds
from apportion.policies.solving.worst_off.fixed_point import fixed, floats

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from apportion.policies.solving.cone import ConeProgram
    from apportion.policies.solving.worst_off.fixed_point import Fixed
    from apportion.policies.solving.worst_off.float_filling import FloatFill
    from apportion.policies.solving.worst_off.water_filling import Rising
    from apportion.types import Bools, Floats

    Ints = NDArray[np.integer[Any]]

_MOST_STOPS = 300
"""Stops of a path that are worked out at once, at a row of levels each."""
_MOST_HEIGHTS = 30
_MET = 1e-12
"""Part by which levels may be infeasible where a path is taken to meet the first other limit."""
_BELOW = 1e-9
"""Stops that are nearer to that height, relatively, are left to the next step."""


class OwnLimits(NamedTuple):
    """What follows for the levels of jobs from limits that are read off the program.

    most
        What each job has at most if nothing but its own time limits it, infinite where that cannot
        be told, shape (jobs,).
    worth, bound
        ``sum of worth * level <= bound`` in every feasible allocation: what a job has is worth the
        GPUs that it needs for it at least, a part of those that there are, and all are worth one
        of each type. Zeros where that cannot be told. Shape (jobs,), and a number.
    """

    most: Floats
    worth: Floats
    bound: float

    @classmethod
    def of(cls, program: ConeProgram, rows: Ints, step: int) -> OwnLimits:
        """Read them off a program that was not scaled.

        Parameters
        ----------
        program
            The program.
        rows
            Its demands, one a job: what the job has is at least its step.
        step
            The column by which all demands rise.
        """
        A, b = program.A.tocsr(), program.b
        time, capacity = (program.rows.get(name) for name in ("time of a job <= 1", "capacity"))
        none = cls(np.full(rows.size, np.inf), np.zeros(rows.size), 0.0)
        if time is None or capacity is None or time.stop - time.start != rows.size:
            return none
        spent, held, has = A[time], A[capacity], A[rows].tocoo()
        own = has.coords[1] != step
        (job, column), made = (each[own] for each in has.coords), -has.data[own]
        at_least_0 = np.zeros(program.c.size, dtype=bool)
        at_least_0[rows_that_are_bounds(program)[1]] = True
        needed = np.asarray(spent[job, column]).ravel()
        negative = min(spent.data.min(initial=0.0), held.data.min(initial=0.0)) < 0
        if negative or not (at_least_0[column] & (made > 0) & (needed > 0)).all():
            return none
        most, worth = np.zeros(rows.size), np.full(rows.size, np.inf)
        np.maximum.at(most, job, made / needed)
        # Of what several jobs have together each pays its part.
        owners = np.maximum(np.bincount(column, minlength=program.c.size), 1)
        there = b[capacity] > 0
        price = np.divide(1.0, b[capacity], out=np.zeros(there.size), where=there)
        cost = (price @ held) / owners
        np.minimum.at(worth, job, cost[column] / made)
        worth[np.isinf(worth)] = 0.0
        bound = float(np.count_nonzero(there) + worth @ b[rows])
        return cls(most * b[time] + b[rows], worth, bound)


class Path(NamedTuple):
    """Levels at heights above the first one, straight in between: one job stops at each, at least.

    height
        Ascending, 0 first, shape (stops,).
    level
        Shape (stops, jobs).
    active
        Who has not stopped there, shape (stops, jobs).
    """

    height: Floats
    level: Floats
    active: Bools

    @classmethod
    def of(cls, rising: Rising, limits: OwnLimits, active: Bools, level: Floats) -> Path:
        """Go up from where the jobs are as long as somebody stops, and there may be enough."""
        stops, limit = [(0.0, level, active)], limits.most
        while active.any() and len(stops) <= _MOST_STOPS:
            height, level, active = stops[-1]
            if level @ limits.worth > limits.bound:
                break
            rate = np.where(active, rising.tangent(active, level, height)[1], 0.0)
            left = np.divide(limit - level, rate, out=np.full(rate.size, np.inf), where=rate > 0)
            more = max(float(left.min(initial=np.inf)), 0.0)
            if more == np.inf:
                break
            stopped = left <= more
            level = np.where(stopped, limit, level + more * rate)
            active = active & ~stopped
            stops.append((height + more, level, active))
        return cls(*map(np.array, zip(*stops, strict=True)))

    @property
    def first(self) -> float:
        """Height of the first stop."""
        return float(self.height[1])

    def until(self, _: float) -> float:
        """Return the height of the last stop, beyond a height or not."""
        return float(self.height[-1])

    def standing(self, height: float) -> Bools:
        """Return who has not stopped yet, shape (jobs,)."""
        there: Bools = self.active[int(np.searchsorted(self.height, height, side="right")) - 1]
        return there

    def at(self, height: float) -> Floats:
        """Return the levels at a height of the path."""
        after = min(int(np.searchsorted(self.height, height)), self.height.size - 1)
        before = max(after - 1, 0)
        long = self.height[after] - self.height[before]
        part = (height - self.height[before]) / long if long > 0 else 1.0
        between: Floats = self.level[before] + part * (self.level[after] - self.level[before])
        return between

    def along(self, height: float) -> tuple[Floats, Floats]:
        """Return the levels at a height of the path, and how fast they rise there."""
        after = min(max(int(np.searchsorted(self.height, height)), 1), self.height.size - 1)
        long = self.height[after] - self.height[after - 1]
        rise = self.level[after] - self.level[after - 1]
        rate = rise / long if long > 0 else 0 * rise
        return self.level[after - 1] + (height - self.height[after - 1]) * rate, rate

    def where(self, worth: Floats, bound: float) -> float:
        """Return the largest height at which what all levels are worth is within a bound."""
        value = self.level @ worth
        after = int(np.searchsorted(value, bound, side="right"))
        if after in {0, value.size}:
            return float(self.height[min(after, value.size - 1)])
        part = (bound - value[after - 1]) / (value[after] - value[after - 1])
        return float(self.height[after - 1] + part * (self.height[after] - self.height[after - 1]))


def pass_own_limits(
    fill: FloatFill, rising: Rising, active: Bools, level: Fixed
) -> tuple[Fixed, Bools]:
    """Raise the active jobs as far as only their own limits hold any of them.

    Returns
    -------
    level, active
        The levels of all jobs at the last stop before anything else holds one of them, and who has
        not stopped; those given where that is known of no further stop.
    """
    limits = fill.limits
    path, part = Path.of(rising, limits, active, floats(level)), 0.0
    height = path.where(limits.worth, limits.bound)
    for _ in range(_MOST_HEIGHTS):
        wanted = path.at(height)
        try:
            _, part = fill.rise(level * 0, wanted, wanted > 0)
        except SolveError:
            return level, active
        if part >= 1 - _MET:
            break
        lower = path.where(fill.worth, part * float(fill.worth @ wanted))
        if not lower < height:
            break
        height = lower
    whole = height == path.height[-1] and part >= 1 - _MET
    below = path.height < height * (1 - _BELOW)
    last = path.height.size - 1 if whole else int(np.count_nonzero(below)) - 1
    if last <= 0:
        return level, active
    fill.begin_at(path.level[last])
    return fixed(path.level[last]), path.active[last]
