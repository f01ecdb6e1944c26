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
rows are equations, ``sum of weights * column = capacity``, whose prices have any sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solving.solvers.demand_choices import NEAR, DemandChoices

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.types import Bools, Floats

    Demand = Callable[[float], tuple[Floats, Floats]]

_PIVOTS, _HEIGHTS, _ROOT_STEPS = 200, 30, 60
_CHEAPER = 1e-13
"""By what part of what is paid a column must cost less to count."""
_STILL = 1e-15
"""Part of a height by which it moves for rounding only."""
_ROUNDING = 4e-16
"""By what part a job must make less than it can, for no rounding error to make it more."""
_FAR_COSTS = 1e4
"""What it costs to be away from full, where all open types are worth one."""
_ALIKE = 1e-12
"""By how much numbers around 1 that are the same may differ."""
_NOTHING = 1e-200
"""A demand that is none, as a part of what a job makes where it is fastest."""
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
    """

    height = np.nan
    at: Floats
    idle: Bools
    _missed: float

    def restrict(self, may: Bools, full: Bools, held: Bools) -> None:
        """Leave jobs some of their points, and leave out types that are full whatever they do.

        Of the full types `held` are those that jobs might fill otherwise, or not at all.
        """
        self.may, self._exact = may, held[held | ~full]
        self._open = np.flatnonzero(held | ~full)
        self._row_most = np.where(may, self._row, 0.0).max(axis=1)
        self._most = self._row_most * self._top * (1 - _ROUNDING)
        self._barred = ~(may[:, self._lower] & may[:, self._upper])

    def rise(self, demand: Demand, heights: tuple[float, float], at: Floats) -> bool:
        """Find the largest height of which all demands can be met; tell whether it was found.

        Parameters
        ----------
        demand
            Throughput that jobs must make at a height, and how fast that grows there.
        heights
            One to begin at, and the last one.
        at
            Prices to take the first columns at, a row each.
        """
        self.height, self.at = min(heights), at
        for _ in range(_HEIGHTS):
            self._demanding(demand(self.height)[0])
            part = self._least_part()
            if part is None:
                return False
            if part <= 1.0 and self.height >= heights[1]:
                return self._missed <= _ALIKE
            before, self.height = self.height, self._root(demand, heights[1])
            if abs(self.height - before) <= 4 * _STILL * before:
                return self._missed <= _ALIKE
        return False

    def rise_at(self, known: Floats, demand: Demand, heights: tuple[float, float]) -> None:
        """Find a height of which the demands cost all that there is, as at `rise`.

        No larger one can be met. If this one can, the prices are right.

        Parameters
        ----------
        known
            Prices, a row each, of which those are taken at which the first demands cost most.
        """
        self.height = min(heights)
        self._demanding(demand(self.height)[0])
        each = np.column_stack([known, np.zeros(len(known))])[:, None, self._kind]
        low, up = each[..., self._lower], each[..., self._upper]
        cost = (self._part * (up - low) + low - self._gain).min(axis=2) @ self._gpus
        self.prices = known[int((cost / (known @ self._capacity)).argmax())]
        self.height = self._root(demand, heights[1])

    def _demanding(self, demand: Floats) -> None:
        """Set what jobs must make; who need make nothing chooses as for next to nothing."""
        self.idle = demand <= 0
        made = np.maximum(demand, _NOTHING * self._top)
        super()._demanding(np.minimum(made, self._most))
        self._gain[self._barred] = -np.inf

    def _column(self, prices: Floats) -> Floats:
        """Return the parts of each type that all jobs hold, where prices are parts as well.

        Of types that are to stay full, what is beyond all of it.
        """
        self.prices = np.zeros(self._capacity.size)
        self.prices[self._open] = prices / self._capacity[self._open]
        self._choose()
        return np.asarray((self._taken() / self._capacity)[self._open] - self._exact)

    def _least_part(self) -> float | None:
        """Find the least part of the types that are not full yet with which all demands are met.

        `prices` and the choices are those at which the demands cost most.
        """
        types, at = self._open.size, [*self.at]
        mix = _Mix(self._column(at[0]), self._exact)
        for each in at[1:]:
            mix.add(self._column(each))
        for _ in range(_PIVOTS):
            if not mix.solve():
                return None
            column = self._column(mix.prices)
            if mix.saves(column) <= _CHEAPER:
                self._missed = mix.missed
                self.at = np.array([mix.prices, *(at[one] for one in mix.used)])[: types + 1]
                return mix.part
            mix.add(column)
            at.append(mix.prices)
        return None

    def _root(self, demand: Demand, highest: float) -> float:
        """Return the height of which the demands cost as much as there is, by Newton's method."""
        budget, height, low, high = float(self.prices @ self._capacity), self.height, 0.0, np.inf
        for _ in range(_ROOT_STEPS):
            wanted, slope = demand(height)
            self._demanding(wanted)
            self._choose()
            over = float(self.prices @ self._taken()) - budget
            low, high = (low, min(high, height)) if over > 0 else (max(low, height), high)
            grows = float(self.prices @ self._growing(slope))
            new = highest if over <= _STILL * abs(budget) else low
            new = min(height - over / grows, highest) if grows > 0 else new
            if abs(new - height) <= _STILL * height:
                break
            height = new if low < new < high else min(0.5 * (low + high), highest)
        return height

    def marginal(self) -> Floats:
        """Return what throughput costs each job at the margin, in units of the largest price."""
        y: Floats = self.duals() / self.dearest
        return y

    @property
    def dearest(self) -> float:
        """The largest price, whatever its sign."""
        return float(np.abs(self.prices).max())

    def choices(self) -> tuple[Bools, float]:
        """Return at which points jobs may be, rest first, and how much dearer all else is.

        In units of the largest price: nothing is cheaper than what they have if that is > 0.
        """
        each, everyone = self._per_point(self.prices), np.arange(self._top.size)
        low, up = self._lower[self._base], self._upper[self._base]
        over = each - self.duals()[:, None] * self._row
        over -= over[everyone, up][:, None]
        over[everyone, up] = over[everyone, low] = 0.0
        over[:, 1:][self._row[:, 1:] <= 0.0] = np.inf
        hard = self.hard
        if hard.any():  # nothing else is fast enough, but what is as fast
            over[hard] = np.where(self._as_fast[hard], np.abs(each - each[up[hard], None]), np.inf)
            over[hard, 0] = 0.0  # for no time at all
        may = self.may & (over <= _TIED * self.dearest)
        return may, float(over[self.may & ~may].min(initial=np.inf) / self.dearest)

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
        return float(self.prices @ self._growing(slope))

    @property
    def hard(self) -> Bools:
        """Who must be where it is fastest, all the time."""
        return np.asarray(self._wanted >= self._row_most - _ALIKE)


class _Mix:
    """The program over columns, solved by the simplex method from its last basis.

    Its variables by number: the part t, -1; what is left idle of each type, or, of one that is to
    stay full, how far it is from that, which costs so much that there is none in the end if there
    need be none; the weights of columns.
    """

    def __init__(self, column: Floats, exact: Bools) -> None:
        types = column.size
        self.columns, self.basis = [column], [*range(types), types]
        self.basis[int(np.where(exact, -np.inf, column).argmax())] = -1
        self._sign = np.where(exact & (column > 0), -1.0, 1.0)
        self._exact = exact

    def add(self, column: Floats) -> None:
        """Add a column."""
        self.columns.append(column)

    def saves(self, column: Floats) -> float:
        """Return how much less than what is paid a column costs, as a part of it."""
        return (self.part - float(self.prices @ column)) / self.part

    @property
    def used(self) -> list[int]:
        """Places of the columns that are in use."""
        columns = [one - self.columns[0].size for one in self.basis]
        return [one for one in columns if one >= 0]

    def solve(self) -> bool:
        """Bring in columns and idle types as long as that saves anything; False if it cannot."""
        types = self.columns[0].size
        for _ in range(_PIVOTS):
            matrix = np.array([self._of(one) for one in self.basis]).T
            try:
                inverse = np.linalg.inv(matrix)
            except np.linalg.LinAlgError:
                return False
            place = self.basis.index(-1)
            dual, value = inverse[place], inverse[:, types]
            far = [0 <= one < types and self._exact[one] for one in self.basis]
            dual = dual + _FAR_COSTS * inverse[far].sum(axis=0)
            self.missed, self.part = float(np.abs(value[far]).sum()), float(dual[types])
            self.prices = np.where(self._exact, -dual[:types], np.maximum(-dual[:types], 0.0))
            idle = np.where(self._exact, -np.inf, dual[:types])
            saved = np.concatenate([idle, self.part - np.array(self.columns) @ self.prices])
            enters = int(saved.argmax())
            if saved[enters] <= _CHEAPER * self.part:
                return True
            moves = inverse @ self._of(enters)
            falls = (moves > _ALIKE) | (far & (value <= _ALIKE) & (np.abs(moves) > _ALIKE))
            falls[place] = False  # t is free
            if not falls.any():
                return False
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(falls, np.maximum(value, 0.0) / np.abs(moves), np.inf)
            self.basis[int(ratio.argmin())] = enters
        return False

    def _of(self, one: int) -> Floats:
        """Return the column of a variable in the program."""
        types = self.columns[0].size
        entries = np.zeros(types + 1)
        if one < 0:
            entries[:types] = np.where(self._exact, 0.0, -1.0)
        elif one < types:
            entries[one] = self._sign[one]
        else:
            entries[:types], entries[types] = self.columns[one - types], 1.0
        return entries
