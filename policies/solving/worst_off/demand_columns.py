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
from apportion.policies.solving.worst_off.demand_hulls import Hulls, Reached

if TYPE_CHECKING:
    from apportion.policies.solving.worst_off.demand_hulls import HullsOfJobs
    from apportion.policies.solving.worst_off.last_filling import Near
    from apportion.policies.solving.worst_off.stated_rates import Rise
    from apportion.types import Bools, Floats

_PIVOTS, _HEIGHTS = 200, 30
_SPENT = 1e-14
"""Part of what there is by which it is all spent but for rounding."""
_ROUNDING = 4e-16
"""By what part a job must make less than it can, for no rounding error to make it more."""
_ALIKE = 1e-12
"""By how much numbers around 1 that are the same may differ."""
_NOTHING = 1e-200
"""A demand that is none, as a part of what a job makes where it is fastest."""
_MOST_CELLS = 500_000
"""So many costs of choices are worked out at once."""


class DemandColumns(DemandChoices):
    """Prices found by columns; `Hulls` say what jobs choose at them.

    Attributes
    ----------
    prices
        Those at which demands cost most, of which the largest one is 1, whatever its sign.
    at
        Prices at which the columns in use were taken, as parts of what all types are worth, a row
        each; the next search may begin at them.
    may
        At which points each job may be, rest first, shape (jobs, options + 1).
    """

    at: Floats
    _missed: float

    def restrict(self, may: Bools, full: Bools, held: Bools) -> None:
        """Leave jobs some of their points, and leave out types that are full whatever they do.

        Of the full types `held` are those that jobs might fill otherwise, or not at all.
        """
        self._open = (held | ~full).nonzero()[0]
        self.may, self._exact = may, held[self._open]
        self._most = np.where(may, self._row, 0.0).max(axis=1) * self._top * (1 - _ROUNDING)
        self._barred = ~(may[:, self._lower] & may[:, self._upper])

    def rise(self, path: Rise, per: Floats, near: Near) -> tuple[Reached, HullsOfJobs] | None:
        """Find the largest height of which all demands can be met, and what is chosen there.

        Parameters
        ----------
        path
            Levels at heights.
        per
            Speed per level, as a part of what a job makes where it is fastest, shape (jobs,).
        near
            Where to begin. Unless it is `surely` the prices are not looked at again.
        """
        there, self.at = Reached.of(path, min(near.height, path.until(near.height))), near.at
        for _ in range(_HEIGHTS):
            self._demanding(per * there.level * self._top)
            part = self._least_part()
            if part is None:
                return None
            hulls = Hulls.of(self._per_point(self.prices)[None], self._row, self.may)
            chosen = hulls.at(0, np.arange(per.size), self._gpus, per)
            if part <= 1.0 and there.height >= path.until(there.height):  # all make what they can
                return (there, chosen) if self._missed <= _ALIKE else None
            there = chosen.root(path, float(self.prices @ self._capacity), there)
            if not near.surely or abs(part - 1.0) <= _SPENT:
                return (there, chosen) if self._missed <= _ALIKE else None
        return None

    def _demanding(self, demand: Floats) -> None:
        """Set what jobs must make; who need make nothing chooses as for next to nothing."""
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
                self.prices /= np.abs(self.prices).max()
                self.at = np.concatenate([mix.prices[None], self.at[mix.used]])[
                    : mix.prices.size + 1
                ]
                return mix.part
            mix.add(column)
            self.at = np.concatenate([self.at, mix.prices[None]])
        return None
