"""What jobs choose at prices, whatever they must make.

The cheapest way to make a demand lies on the lower convex hull of the points (speed, price) of a
job and (0, 0), rest. An edge of it tells what throughput costs at the margin, and which points are
as good. Jobs of one model have the same hull, at any time at which prices are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solving.solvers.demand_ties import ALIKE, NEAR

if TYPE_CHECKING:
    from apportion.policies.solving.worst_off.stated_rates import Rise
    from apportion.types import Bools, Floats, Ints

_TIED = 1e-10
"""By what part of the largest price a choice may be dearer that is as good."""
_ROUNDING = 1e-14
"""Part of the largest price by which a point may be below the hull for rounding only."""
_STILL = 1e-15
"""Part of a height by which it moves for rounding only."""
_ROOT_STEPS = 60


class Hulls(NamedTuple):
    """Hulls of rows at prices, of which the largest one is 1, whatever its sign.

    Attributes
    ----------
    start
        Speed at which each edge begins, infinite where there is none; (prices, rows, edges).
    slope, base
        What a GPU's time costs on it, ``base + slope * speed``; that of the last where there is
        none, shape (prices, rows, edges).
    may
        Points that are as good as those of each edge, and last as the fastest one is where a job
        has to be there all the time, or nowhere; (prices, rows, edges + 1, options + 1).
    apart
        How much dearer all others are, shape (prices, rows, edges + 1).
    most
        Speed at the fastest point, shape (rows,).
    """

    start: Floats
    slope: Floats
    base: Floats
    may: Bools
    apart: Floats
    most: Floats

    @classmethod
    def of(cls, each: Floats, row: Floats, may: Bools) -> Hulls:
        """Find them.

        Parameters
        ----------
        each
            Prices of points, rest first, shape (prices, options + 1).
        row, may
            Speeds there, and where a row may be, shape (rows, options + 1).
        """
        shape = (len(each), *row.shape)
        points, price = np.arange(row.shape[1]), each[:, None]
        most = np.where(may, row, 0.0).max(axis=1)
        ahead = row[:, None] - row[..., None]  # of each from each
        both = (ahead > 0) & may[:, None] & may[..., None]
        dearer = np.full((*shape, points.size), np.inf)
        np.divide(price[:, :, None] - price[..., None], ahead, out=dearer, where=both)
        slope = dearer.min(axis=3)  # from each point on
        slope[none := slope == np.inf] = 0.0
        base = price - slope * row
        over = price[:, :, None] - base[..., None] - slope[..., None] * row[:, None]
        none |= ((over < -_ROUNDING) & may[:, None]).any(axis=3)
        tied, apart = _as_good(over, may[:, None])
        start = np.where(none, np.inf, row)
        base[none] = -np.inf
        fastest = np.where(may & (row == most[:, None]), price, np.inf).min(axis=2)
        alone = none.all(axis=2)
        base[alone, 0] = fastest[alone]
        good, dear = _as_good(
            np.abs(price - fastest[..., None]), may & (row >= most[:, None] - NEAR)
        )
        good[..., 0] |= may[:, 0]  # for no time at all
        order = (
            *np.ogrid[: shape[0], : shape[1], :1][:2],
            start.argsort(axis=2, kind="stable")[..., :-1],
        )
        return cls(
            *(start[order], slope[order], base[order]),
            np.concatenate([tied[order], good[:, :, None]], axis=2),
            np.concatenate([apart[order], dear[..., None]], axis=2),
            most,
        )

    def and_of(self, others: Hulls) -> Hulls:
        """Return these and those of other rows at the same prices."""
        own = (np.concatenate(both, axis=1) for both in zip(self[:-1], others[:-1], strict=True))
        return Hulls(*own, np.concatenate([self.most, others.most]))  # type: ignore[call-arg]

    def costs(self, kind: Ints, wanted: Floats, gpus: Floats) -> Floats:
        """Return what jobs pay at each of the prices, shape (prices,).

        Parameters
        ----------
        kind
            Row of each job, shape (jobs,).
        wanted, gpus
            What it must make, as a speed, and GPUs that it holds, shape (jobs,).
        """
        paid = self.base.take(kind, axis=1) + self.slope.take(kind, axis=1) * wanted[:, None]
        return np.asarray(np.maximum.reduce(paid, axis=2) @ gpus)

    def at(self, price: int, kind: Ints, gpus: Floats, per: Floats) -> HullsOfJobs:
        """Return the hulls of jobs at one of the prices, see `HullsOfJobs`."""
        slope, base = self.slope[price].take(kind, axis=0), self.base[price].take(kind, axis=0)
        return HullsOfJobs(self, price, kind, gpus, per, slope, base)


class Reached(NamedTuple):
    """A height, the levels there and how fast they rise, shape (jobs,) each."""

    height: float
    level: Floats
    rise: Floats

    @classmethod
    def of(cls, path: Rise, height: float) -> Reached:
        """Return the levels of a height."""
        return cls(height, *path.along(height))


class HullsOfJobs(NamedTuple):
    """Hulls of jobs at prices.

    Attributes
    ----------
    hulls, price, kind
        Where they are.
    gpus, per
        GPUs that each job holds, and speed per level, shape (jobs,).
    slope, base
        Of the edges, shape (jobs, edges).
    """

    hulls: Hulls
    price: int
    kind: Ints
    gpus: Floats
    per: Floats
    slope: Floats
    base: Floats

    def root(self, path: Rise, budget: float, there: Reached) -> Reached:
        """Go to the height of which the demands cost as much as there is, by Newton's method."""
        (height, level, rise), low, high = there, 0.0, np.inf
        edge_of, growing = np.arange(0, self.slope.size, self.slope.shape[1]), self.gpus * self.per
        for _ in range(_ROOT_STEPS):
            paid = self.base + self.slope * (self.per * level)[:, None]
            over = float(self.gpus @ np.maximum.reduce(paid, axis=1)) - budget
            grows = float(growing * self.slope.take(edge_of + paid.argmax(axis=1)) @ rise)
            low, high = (low, min(high, height)) if over > 0 else (max(low, height), high)
            new = np.inf if over <= _STILL * abs(budget) else low
            new = height - over / grows if grows > 0 else new
            new = min(new, path.until(new))
            if abs(new - height) <= _STILL * height:
                break
            height = new if low < new < high else min(mid := 0.5 * (low + high), path.until(mid))
            level, rise = path.along(height)
        return Reached(height, level, rise)

    def choices(self, level: Floats) -> tuple[Bools, float, Floats]:
        """Return at which points jobs may be, how much dearer all else is, and what costs more.

        The last is of each job's speed at the margin, per GPU, in units of the largest price.
        """
        hulls, edges, wanted = self.hulls, self.slope.shape[1], self.per * level
        start, most = hulls.start[self.price], hulls.most.take(self.kind)
        at = np.add.reduce(wanted[:, None] > start[:, 1:].take(self.kind, axis=0), axis=1)
        where = self.price, self.kind, np.where(wanted >= most - ALIKE, edges, at)
        margin = self.slope.take(np.arange(0, self.slope.size, edges) + at)
        return hulls.may[where], float(np.minimum.reduce(hulls.apart[where])), margin


def anywhere(row: Floats, may: Bools, wanted: Floats) -> Bools:
    """Return at which points jobs may be to make their demands, whatever it costs."""
    most = np.where(may, row, 0.0).max(axis=1, keepdims=True)
    good: Bools = may & ((row >= most - NEAR) | (wanted[:, None] < most - ALIKE))
    good[:, 0] = may[:, 0]
    return good


def _as_good(over: Floats, may: Bools) -> tuple[Bools, Floats]:
    """Tell which points are as good as some, and how much dearer the others are."""
    good: Bools = may & (over <= _TIED)
    return good, np.where(may & ~good, over, np.inf).min(axis=-1)
