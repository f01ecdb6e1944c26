"""Steps of water filling at prices: each rises until types are full, and tells who goes on."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solving.solvers.even_ties import Indifferent
from apportion.policies.solving.worst_off.demand_columns import DemandColumns
from apportion.policies.solving.worst_off.demand_hulls import Reached, anywhere

if TYPE_CHECKING:
    from apportion.policies.solving.worst_off.buyers import Buyers
    from apportion.policies.solving.worst_off.demand_hulls import HullsOfJobs
    from apportion.policies.solving.worst_off.last_filling import LastFilling, LastStep
    from apportion.policies.solving.worst_off.stated_rates import Rise, StatedRates
    from apportion.types import Bools, Floats

APART = 1e-6
"""Least difference, relative to the largest price, that no solver overlooks."""
_SOME, _NONE = 1e-6, 1e-12
"""What a price, or a cost at the margin, is above, and below, if it is some or none."""


class Stop(NamedTuple):
    """Who stops where, and what that leaves open.

    Attributes
    ----------
    level
        Levels of all jobs in the end of the step, shape (jobs,).
    active, full
        Who may rise beyond it, and which types are full.
    may
        At which points each job may be, rest first, shape (jobs, options + 1).
    prices
        By how much one more GPU of each type would raise the height, shape (types,).
    height
        By how much the height rose, and how much to where a job's own time stops it.
    """

    level: Floats
    active: Bools
    full: Bools
    may: Bools
    prices: Floats
    height: tuple[float, float]


class Filling:
    """Jobs that rise step by step until nobody can.

    Parameters
    ----------
    buyers, rising
        The jobs, and how they rise.
    """

    def __init__(self, buyers: Buyers, rising: StatedRates) -> None:
        self._buyers, self._rising, top = buyers, rising, buyers.top
        self._row = np.zeros((top.size, buyers.kind.size + 1))
        np.divide(buyers.speed, top[:, None], out=self._row[:, 1:])
        self._per = rising.unit / top

    @cached_property
    def _search(self) -> DemandColumns:
        buyers = self._buyers
        return DemandColumns(buyers.speed, buyers.held, buyers.kind, buyers.capacity)

    def steps(self, last: LastFilling, way: int) -> list[Stop] | None:
        """Rise; ``None`` where it is not clear who stops.

        No levels at all are higher than those that cost all that there is at some prices, whatever
        the way to these, so if shares make such levels in the end, the prices are right.
        """
        jobs, types = self._per.size, self._buyers.capacity.size
        level, active, full = np.zeros(jobs), np.ones(jobs, dtype=bool), np.zeros(types, dtype=bool)
        steps, held, may = list[Stop](), np.zeros(types, dtype=bool), self._row > 0
        may[:, 0] = True
        while active.any():
            known = last.step(len(steps), full, held, self._buyers.kind)
            most = np.where(may, self._row, 0.0).max(axis=1) / self._per
            path = self._rising.path(most, self._buyers, active, level)
            found = self._found(path, may, full, held, known, way)
            step = None if found is None else self._stop(path, may, full, *found)
            if step is None:
                return None
            steps.append(step)
            held |= step.full & ~full
            held[int(np.where(full, -np.inf, step.prices).argmax())] = False  # the others fill it
            level, active, full, may = step.level, step.active, step.full, step.may
        return steps

    def _found(
        self, path: Rise, may: Bools, full: Bools, held: Bools, known: LastStep, way: int
    ) -> tuple[Reached, HullsOfJobs, Floats] | None:
        """Rise as far as types allow, at known prices or at those that a search finds."""
        if not (path.first > 0 or path.until(0.0) > 0):
            return None
        buyers, per = self._buyers, self._per
        if way == 0:
            if not len(known.known.prices):
                return None
            hulls, kind = known.known.hulls(self._row, may)
            there = Reached.of(path, min(known.height, path.until(known.height)))
            budget = known.known.prices @ buyers.capacity
            costs = hulls.costs(kind, per * there.level, buyers.held)
            place = int((costs / budget).argmax())
            jobs, prices = hulls.at(place, kind, buyers.held, per), known.known.prices[place]
            there = jobs.root(path, float(budget[place]), there)
        else:
            search = self._search
            search.restrict(may, full, held)
            found = search.rise(path, per, known.near(full, held, way == 2))
            if found is None:
                return None
            (there, jobs), prices = found, search.prices
            known.found(search)
        known.height = there.height
        return there, jobs, prices

    def _stop(
        self, path: Rise, may: Bools, full: Bools, there: Reached, jobs: HullsOfJobs, prices: Floats
    ) -> Stop | None:
        """Tell who stops at a height; ``None`` where that is not clear."""
        height, level, rise = there
        own, stands = path.first, path.standing(height)
        if path.until(height) <= height:  # all make what they can
            if stands.any():
                return None
            may = anywhere(self._row, may, self._per * level)
            return Stop(level, stands, full, may, 0 * prices, (height, own))
        may, apart, y = jobs.choices(level)
        grows = float((rise * self._per * y) @ self._buyers.held)
        price = np.where(full, 0.0, prices)
        if apart <= APART or _unclear(np.concatenate([price, y[stands]])) or not grows > 0:
            return None
        full = full | (price > _NONE)
        go_on = stands & (y <= _NONE) & (not full.all())
        return Stop(level, go_on, full, may, prices / grows, (height, own))

    def evenest(self, last: Stop) -> Floats | None:
        """Return the most even shares that the last step allows, shape (jobs, options)."""
        buyers, row, may, full = self._buyers, self._row, last.may, last.full
        jobs, points = row.shape
        wanted, cell = np.minimum(self._per * last.level, 1.0), np.arange(0, row.size, points)
        low = cell + np.where(may, row, np.inf).argmin(axis=1)
        up = cell + np.where(may, row, -1.0).argmax(axis=1)
        slow, X = row.take(low), np.zeros(row.size)
        span = row.take(up) - slow
        mixes = span > _SOME
        part = np.divide(wanted - slow, span, out=np.ones(jobs), where=mixes)
        X[low] = 1.0 - part
        X[up] += part
        X, most = X.reshape(row.shape), 1 + mixes + points * (wanted <= 0)
        tied = (np.add.reduce(may, axis=1, dtype=np.intp) > most).nonzero()[0]
        X[tied] = 0.0
        type_of = np.zeros((points, buyers.capacity.size))
        type_of[np.arange(1, points), buyers.kind] = 1.0
        there = type_of @ buyers.capacity
        left = buyers.capacity - buyers.held @ X @ type_of
        if tied.size:
            exactly = np.zeros(tied.size, dtype=bool)
            ties = Indifferent(row[tied], wanted[tied], buyers.held[tied], may[tied], exactly)
            found = ties.evenest(type_of, there, left, full)
            if found is None:
                return None
            X[tied] = found
        return X[:, 1:]


def _unclear(part: Floats) -> bool:
    """Whether one of some numbers may be nothing or not."""
    return bool(((part > _NONE) & (part < _SOME)).any())
