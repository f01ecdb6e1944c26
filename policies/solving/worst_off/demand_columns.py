"""How high demands can rise until types are full, by columns.

What all jobs hold together if each takes the cheapest way at some prices is a *column*, one number
for each type. Mixes of columns are all that they can hold, so that the least part of the capacities
with which the demands can be met is ::

    min over t, weights >= 0 of t  such that  sum of weights * column <= t * capacity, sum = 1

Its dual values are prices, at which the next column is the one that costs least; where that costs
no less than t, these are the prices at which the demands cost most (Dantzig and Wolfe). The program
has a row for each type, however many jobs there are, and does not see who is indifferent between
how many options. The next height is the one of which the demands cost all that there is.

Of types that were full before, which have no part in t, some are to stay as full as they are. Their
rows are equations, ``sum of weights * column = capacity``, whose prices have any sign. `ColumnMix`
solves the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solving.solvers.column_mix import CHEAPER, ColumnMix
from apportion.policies.solving.solvers.demand_choices import DemandChoices
from apportion.policies.solving.solvers.demand_ties import NEAR

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.solving.worst_off.last_filling import Near
    from apportion.types import Bools, Floats, Ints

    Demand = Callable[[float], tuple[Floats, Floats]]
    Until = Callable[[float], float]

_PIVOTS, _HEIGHTS, _ROOT_STEPS = 200, 30, 60
_STILL = 1e-15
"""Part of a height by which it moves for rounding only."""
_ROUNDING = 4e-16
"""By what part a job must make less than it can, for no rounding error to make it more."""
_ALIKE = 1e-12
"""By how much numbers around 1 that are the same may differ."""
_NOTHING = 1e-200
"""A demand that is none, as a part of what a job makes where it is fastest."""
_MOST_CELLS = 500_000
"""So many costs of choices are worked out at once."""
_TIED = 1e-10
"""By what part of the largest price a choice may be dearer that is as good."""


class DemandColumns(DemandChoices):
    """Prices found by columns; `DemandChoices` says what jobs choose at them.

    Attributes
    ----------
    height
        The largest height of which all demands can be met, once it is found.
    at
        Prices at which the columns in use were taken, as parts of what all types are worth, a row
        each; the next search may begin at them.
    may
        At which points each job may be, rest first, shape (jobs, options + 1).
    idle
        Who need make nothing, shape (jobs,).
    dearest
        The largest price, whatever its sign.
    """

    height = np.nan
    at: Floats
    idle: Bools
    dearest: float
    _missed: float
    _edge: Floats

    def restrict(self, may: Bools, full: Bools, held: Bools) -> None:
        """Leave jobs some of their points, and leave out types that are full whatever they do.

        Of the full types `held` are those that jobs might fill otherwise, or not at all.
        """
        self._open = (held | ~full).nonzero()[0]
        self.may, self._exact = may, held[self._open]
        self._row_most = np.where(may, self._row, 0.0).max(axis=1)
        self._most = self._row_most * self._top * (1 - _ROUNDING)
        self._barred = ~(may[:, self._lower] & may[:, self._upper])

    def rise(self, demand: Demand, near: Near, until: Until) -> bool:
        """Find the largest height of which all demands can be met; tell whether it was found.

        Parameters
        ----------
        demand
            Throughput that jobs must make at a height, and how fast that grows there.
        near
            Where to begin. Unless it is `surely` the prices are not looked at again.
        until
            Tells of a height a larger one up to which demands are known, or the last one.
        """
        self.height, self.at = min(near.height, until(near.height)), near.at
        for _ in range(_HEIGHTS):
            self._demanding(demand(self.height)[0])
            part = self._least_part()
            if part is None:
                return False
            if part <= 1.0 and self.height >= until(self.height):
                return self._missed <= _ALIKE
            before, self.height = self.height, self._root(demand, until)
            if not near.surely or abs(self.height - before) <= 4 * _STILL * before:
                return self._missed <= _ALIKE
        return False

    def rise_at(self, known: Floats, demand: Demand, begin: float, until: Until) -> None:
        """Find a height of which the demands cost all that there is, as at `rise`.

        No larger one can be met. If this one can, the prices are right.

        Parameters
        ----------
        known
            Prices, a row each, of which those are taken at which the first demands cost most.
        """
        self.height = min(begin, until(begin))
        self._demanding(demand(self.height)[0])
        each = np.zeros((len(known), self._capacity.size + 1))
        each[:, :-1] = known
        each = each[:, None, self._kind]
        low, up = each[..., self._lower], each[..., self._upper]
        cost = (self._part * (up - low) + low - self._gain).min(axis=2) @ self._gpus
        self.prices = known[int((cost / (known @ self._capacity)).argmax())]
        self.height = self._root(demand, until)

    def _demanding(self, demand: Floats) -> None:
        """Set what jobs must make; who need make nothing chooses as for next to nothing."""
        self.idle = demand <= 0
        made = np.maximum(demand, _NOTHING * self._top)
        super()._demanding(np.minimum(made, self._most))
        self._gain[self._barred] = -np.inf

    def _columns(self, prices: Floats) -> Floats:
        """Return the parts of each type that all jobs hold at some prices, shape (prices, types).

        Of types that are to stay full, what is beyond all of it. Prices are parts as well.
        """
        types, many = self._capacity.size + 1, len(prices)
        if many > 1 and many * self._part.size > _MOST_CELLS:
            return np.concatenate([self._columns(one[None]) for one in prices])
        each = np.zeros((many, types))
        each[:, self._open] = prices / self._capacity[self._open]
        each = each[:, None, self._kind]
        low, up = each[..., self._lower], each[..., self._upper]
        base = (self._part * (up - low) + low - self._gain).argmin(axis=2)
        more = self._gpus * self._part[np.arange(self._top.size), base]
        points = np.concatenate([self._lower[base], self._upper[base]], axis=1)
        place = self._kind[points] + types * np.arange(many)[:, None]
        held = np.concatenate([self._gpus - more, more], axis=1)
        summed = np.bincount(place.ravel(), held.ravel(), many * types).reshape(many, types)
        return np.asarray(summed[:, self._open] / self._capacity[self._open] - self._exact)

    def _least_part(self) -> float | None:
        """Find the least part of the types that are not full yet with which all demands are met.

        `prices` are those at which the demands cost most.
        """
        mix = ColumnMix(self._columns(self.at), self._exact)
        for _ in range(_PIVOTS):
            if not mix.solve():
                return None
            column = self._columns(mix.prices[None])
            if mix.saves(column[0]) <= CHEAPER:
                self._missed, self.prices = mix.missed, np.zeros(self._capacity.size)
                self.prices[self._open] = mix.prices / self._capacity[self._open]
                self.at = np.concatenate([mix.prices[None], self.at[mix.used]])[
                    : mix.prices.size + 1
                ]
                return mix.part
            mix.add(column)
            self.at = np.concatenate([self.at, mix.prices[None]])
        return None

    def _root(self, demand: Demand, until: Until) -> float:
        """Return the height of which the demands cost as much as there is, by Newton's method.

        Jobs have chosen for it then, from the height whose demands they have.
        """
        budget, height, low, high = float(self.prices @ self._capacity), self.height, 0.0, np.inf
        each = self._per_point(self.prices)
        dearer = each[self._upper] - each[self._lower]
        per_step, everyone = dearer / self._span, np.arange(self._top.size)
        self.dearest = float(np.abs(self.prices).max())
        for _ in range(_ROOT_STEPS):
            cost = self._part * dearer + each[self._lower] - self._gain
            self._base = cost.argmin(axis=1)
            self._edge = per_step[everyone, self._base]
            over = float(cost[everyone, self._base] @ self._gpus) - budget
            grows = self.dearer(demand(height)[1])
            low, high = (low, min(high, height)) if over > 0 else (max(low, height), high)
            new = np.inf if over <= _STILL * abs(budget) else low
            new = height - over / grows if grows > 0 else new
            new = min(new, until(new))
            if abs(new - height) <= _STILL * height:
                break
            height = new if low < new < high else min(mid := 0.5 * (low + high), until(mid))
            self._demanding(demand(height)[0])
        return height

    def marginal(self) -> Floats:
        """Return what throughput costs each job at the margin, in units of the largest price."""
        return self._edge / self.dearest

    def choices(self) -> tuple[Bools, float]:
        """Return at which points jobs may be, rest first, and how much dearer all else is.

        In units of the largest price: nothing is cheaper than what they have if that is > 0.
        """
        everyone, hard = np.arange(self._top.size), self.hard
        over = self._over(everyone, self._edge, self._base)
        below = (self.may & (over < -_TIED * self.dearest)).any(axis=1) & ~hard
        if below.any():
            self._to_hull(below.nonzero()[0])
            over = self._over(everyone, self._edge, self._base)
        low, up = self._lower[self._base], self._upper[self._base]
        over[everyone, up] = over[everyone, low] = 0.0
        if hard.any():  # nothing else is fast enough, but what is as fast
            each = self._per_point(self.prices)
            over[hard] = np.where(self._as_fast[hard], np.abs(each - each[up[hard], None]), np.inf)
            over[hard, 0] = 0.0  # for no time at all
        may = self.may & (over <= _TIED * self.dearest)
        return may, float(over[self.may & ~may].min(initial=np.inf) / self.dearest)

    def _over(self, jobs: Ints, edge: Floats, base: Ints) -> Floats:
        """Return how much dearer each point is than the line of an edge, shape (..., points)."""
        each = self._per_point(self.prices)
        line = each[self._upper[base]] - edge * self._above[jobs, base]
        return np.asarray(each - edge[..., None] * self._row[jobs] - line[..., None])

    def _to_hull(self, jobs: Ints) -> None:
        """Let jobs that make what they do at one point alone choose an edge of the hull there.

        All edges that end there cost as much.
        """
        each = self._per_point(self.prices)
        dearer = each[self._upper] - each[self._lower]
        cost = self._part[jobs] * dearer + each[self._lower] - self._gain[jobs]
        alike = cost <= cost.min(axis=1)[:, None] + _ALIKE * self.dearest
        edge = (dearer / self._span[jobs]).T
        over = self._over(jobs, edge, np.arange(len(edge))[:, None])
        worst = np.where(self.may[jobs], over, np.inf).min(axis=2)
        base = np.where(alike.T, worst, -np.inf).argmax(axis=0)
        self._base[jobs], self._edge[jobs] = base, edge[base, np.arange(jobs.size)]

    def anywhere(self) -> Bools:
        """Return at which points jobs may be to make their demands, whatever it costs."""
        may = self.may & (self._as_fast | ~self.hard[:, None])
        may[:, 0] = self.may[:, 0]
        return may

    @property
    def _as_fast(self) -> Bools:
        alike: Bools = self._row >= self._row_most[:, None] - NEAR
        return alike

    def dearer(self, slope: Floats) -> float:
        """Return how fast what demands cost grows, where they grow so fast."""
        return float((slope / self._top * self._edge) @ self._gpus)

    @property
    def hard(self) -> Bools:
        """Who must be where it is fastest, all the time."""
        return np.asarray(self._wanted >= self._row_most - _ALIKE)
