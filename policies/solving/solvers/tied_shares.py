"""The most even shares of jobs each of which is indifferent between three points or more.

A job makes its demand by any mix of its points that sums to 1: a polygon, or more than that. Of all
mixes that hold what is left of each type the least sum of ``GPUs * X**2 / capacity`` is wanted::

    min over x of  sum over jobs of gpus * sum of x**2 / capacity / 2
    such that      x >= 0, sum of x = 1, sum of speed * x = demand  for each job,
                   sum of gpus * x = left  of each type

At given dual values of the types each job has a minimum of its own. Which of its points are above 0
there is tried out: few are. Of the rest the minimum is linear in the dual values, whose own optimum
Newton's method finds.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints

MOST_POINTS = 5
"""With more, there are too many sets of them."""
_STEPS, _MOST_TRIED, _LENGTHS = 30, 12, tuple(0.5**halves for halves in range(20))
_MISSED = 1e-10
"""Part of what is left by which it may be missed before prices go on."""
_EVEN, _RANK = 1e-12, 1e-9
"""By how much costs that are the same may differ, and less of a difference is none."""
_BELOW = 1e-13
"""How far below 0 a share may be by rounding."""
_WORTH = 1e-4
"""Part of what the slope promises that a step is to gain."""
_FULL = 1e-13
"""Part of what is left of a type that may be missed."""
_REGULAR, _LEAST = 1e-12, 1e-6
"""Keeps steps finite along prices that change nothing, and where none changes anything."""


class _Mixes(NamedTuple):
    """Least squares of points of which some are above 0, linear in the demand and dual values.

    Attributes
    ----------
    start, by_demand
        Shares at dual values and a demand of 0, and what demand adds, shape (sets, points).
    by_dual
        What the dual value of each point adds, shape (sets, points, points).
    """

    start: Floats
    by_demand: Floats
    by_dual: Floats


@lru_cache(256)
def _mixes(
    speed: tuple[float, ...], points: tuple[int, ...], weight: tuple[float, ...], freed: bool
) -> _Mixes:
    """Solve the conditions of optimality for each set of points that may be above 0.

    Parameters
    ----------
    speed, weight
        Of all points.
    points
        Those between which a job is indifferent.
    freed
        Whether it may make more than it must.
    """
    many = len(speed)
    sets = [
        (*each, many, many + 1)
        for size in range(2, len(points) + 1)
        for each in combinations(points, size)
        if len({speed[point] for point in each}) > 1
    ]
    if freed:
        sizes = range(1, len(points) + 1)
        sets += [(*each, many) for size in sizes for each in combinations(points, size)]
    above = np.zeros((len(sets), many + 2), dtype=bool)
    for place, each in enumerate(sets):
        above[place, list(each)] = True
    system = np.zeros((many + 2, many + 2))
    system[range(many), range(many)] = weight
    system[many:, :many] = np.ones(many), speed
    system[:many, many:] = system[many:, :many].T
    inside = above[:, :, None] & above[:, None, :]
    inverse = np.linalg.inv(np.where(inside, system, np.eye(many + 2)))
    inverse[~inside] = 0.0
    return _Mixes(inverse[:, :many, many], inverse[:, :many, many + 1], inverse[:, :many, :many])


class TiedShares:
    """Jobs that are indifferent between points, and what they may share.

    Parameters
    ----------
    row
        Speed at each point, that of rest, 0, first; shape (jobs, points).
    tight
        Between which points a job is indifferent, shape (jobs, points).
    freed
        Who may make more, shape (jobs,).
    demand
        Speed that each must make, shape (jobs,).
    gpus
        That each holds, shape (jobs,).
    weight
        Of the square of a share at each point, 0 for rest, shape (points,).
    kind
        Type of each point, the number of types for rest, shape (points,).
    """

    def __init__(
        self,
        row: Floats,
        tight: Bools,
        freed: Bools,
        demand: Floats,
        gpus: Floats,
        weight: Floats,
        kind: Ints,
    ) -> None:
        self._gpus, self._weight, self._one = gpus, weight, np.arange(len(row))
        weights, told = tuple(weight.tolist()), dict[tuple[bytes, bytes, bool], int]()
        found: list[_Mixes] = []
        place = []
        for speeds, points, more in zip(row, tight, freed.tolist(), strict=True):
            key = speeds.tobytes(), points.tobytes(), more
            if key not in told:
                told[key] = len(found)
                given = tuple(speeds.tolist()), tuple(np.flatnonzero(points).tolist())
                found.append(_mixes(*given, weights, more))
            place.append(told[key])
        self._place = np.array(place)
        sets = max(len(mixes.start) for mixes in found)
        padded = [[_padded(each, sets) for each in mixes] for mixes in found]
        start, by_demand, self._by_dual = (np.array(each) for each in zip(*padded, strict=True))
        self._start = start[self._place] + by_demand[self._place] * demand[:, None, None]
        self._start[~self._start.any(axis=2)] = -1.0  # no set
        self._row, self._demand, self._freed = row[:, None], demand[:, None] - _BELOW, freed.any()
        self._to_type = np.eye(kind[0] + 1)[kind][:, : kind[0]]  # (points, types)

    def _outside(self, X: Floats) -> Bools:
        """Tell which sets have shares below 0, or make less than is demanded; (jobs, sets)."""
        outside = np.asarray(X.min(axis=2) < -_BELOW)
        if self._freed:
            outside |= (X * self._row).sum(axis=2) < self._demand
        return outside

    def _at(self, dual: Floats) -> tuple[Floats, Floats, float]:
        """Return the shares at dual values of points, how they grow with these, and the value."""
        X = self._start + (self._by_dual @ dual)[self._place]
        value = (X * (0.5 * self._weight * X - dual)).sum(axis=2)
        value[self._outside(X)] = np.inf
        best = value.argmin(axis=1)
        chosen, grows = X[self._one, best], self._by_dual[self._place, best]
        return chosen, grows, float(self._gpus @ value[self._one, best])

    def dearest(self, ways: Floats, left: Floats, rank: Ints) -> tuple[int | None, bool]:
        """Return along which way of prices all mixes become dearer most than what is left.

        Parameters
        ----------
        ways
            Of length 1, or 0 for none, shape (ways, types).
        left
            Of each type, shape (types,).
        rank
            In how many directions jobs are to stay indifferent, shape (ways,).

        Returns
        -------
        way
            ``None`` if there is none.
        inside
            Whether what is left lies inside of what mixes may hold, in all directions.
        """
        X = self._start @ self._to_type
        cost = X @ ways.T
        cost[self._outside(self._start)] = np.inf
        least = cost.min(axis=1)
        dearer = self._gpus @ least - ways @ left
        for way in np.argsort(-dearer)[:_MOST_TRIED].tolist():
            if dearer[way] <= _MISSED * left.max():
                break
            even = cost[:, :, way] <= least[:, way, None] + _EVEN
            differ = X - X[self._one, cost[:, :, way].argmin(axis=1)][:, None]
            if np.linalg.matrix_rank(differ[even], _RANK) == rank[way]:
                return int(way), False
        may = ~self._outside(self._start)
        apart = (X - X[self._one, may.argmax(axis=1)][:, None])[may]
        wide = np.linalg.matrix_rank(apart, _RANK) > rank.max()
        there = ways.any(axis=1)
        return None, bool(wide and (dearer[there] < -_RANK * left.max()).all())

    def share(self, left: Floats, full: Bools) -> Floats | None:
        """Share what is left of each type.

        Parameters
        ----------
        left, full
            Of each type, and which of them are to be full, shape (types,).

        Returns
        -------
        X
            Shares at each point, shape (jobs, points); ``None`` where nothing holds just as much.
        """
        dual, held, most = np.zeros(left.size), full, _FULL * left.max()
        X, grows, value = self._at(self._to_type @ dual)
        for _ in range(_STEPS):
            missed = left - (self._gpus @ X) @ self._to_type
            held = held | (missed < -most)
            if np.abs(missed[held]).max(initial=0.0) <= most:
                return np.maximum(X, 0.0) if (dual[~full] <= 0).all() else None
            slope = self._to_type.T @ np.tensordot(self._gpus, grows, 1) @ self._to_type
            slope[range(left.size), range(left.size)] += _REGULAR * max(np.trace(slope), _LEAST)
            missed, slope[~held], slope[:, ~held] = np.where(held, missed, 0.0), 0.0, 0.0
            slope[~held, ~held] = 1.0
            step, before = np.linalg.solve(slope, missed), value + float(dual @ left)
            for length in _LENGTHS:
                tried = dual + length * step
                X, grows, value = self._at(self._to_type @ tried)
                least = before + _WORTH * length * float(missed @ step) - _FULL * abs(before)
                if value + float(tried @ left) >= least:
                    dual = tried
                    break
            else:
                return None
        return None


def _padded(numbers: Floats, sets: int) -> Floats:
    wide = np.zeros((sets, *numbers.shape[1:]))
    wide[: len(numbers)] = numbers
    return wide
