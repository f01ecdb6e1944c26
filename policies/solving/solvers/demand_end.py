"""Where a walk over prices ends: what each job has, and how far other choices are."""

from __future__ import annotations

from functools import cache
from itertools import chain, combinations, compress
from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import lapack

from apportion.policies.solving.solvers.demand_choices import DemandChoices
from apportion.policies.solving.solvers.demand_ties import NEAR, DemandTie, all_apart
from apportion.policies.solving.solvers.even_ties import Indifferent

if TYPE_CHECKING:
    from apportion.policies.solving.solvers.demand_ties import Tied
    from apportion.types import Bools, Floats, Ints

_MOST_RAYS = 200
"""With more ways to go on, a program is quicker."""
_APART = 1e-6
"""Least difference, relative to the largest, of what choices cost that no solver overlooks."""


@cache
def _identity(size: int) -> Floats:
    return np.eye(size)


class Mixed(NamedTuple):
    """Jobs that are indifferent between more points than a range of shares.

    Attributes
    ----------
    jobs, tight, freed
        Which they are, between which points, shape (jobs, points), and who may make more.
    shares
        Of their time at each point, shape (jobs, points); ``None`` where prices are to go on.
    inside
        Whether nothing else but these prices is right.
    kept, way
        What is kept then, as places of types or ties; and the way of the prices, shape (types,).
    """

    jobs: Ints
    tight: Bools
    freed: Bools
    shares: Floats | None
    inside: bool
    kept: tuple[int | DemandTie, ...] = ()
    way: Floats = np.zeros(0)


class DemandEnd(DemandChoices):
    """What is chosen at the end of a walk, and the ties between which jobs are there."""

    _mixed: Mixed | None = None
    _tied: list[Tied]
    _slope: Floats
    _share: list[float]
    _inverse: Floats
    _free: list[int]
    _held: list[int]

    def _columns(self) -> list[list[float]]:
        """List what fills the types: ties, free types, held prices, and what a level adds."""
        kind, types = self._kind.tolist(), self._capacity.size
        columns = [[0.0] * (types + 1) for _ in self._tied]  # rest last
        for tied, column in zip(self._tied, columns, strict=True):
            held, toward = tied.held, tied.tie.toward
            for point in tied.tie.points:
                column[kind[point]] += held * toward[point]
        units = _identity(types).tolist()
        columns = [column[:-1] for column in columns]
        columns += [units[place] for place in (*self._free, *self._held)]
        return columns if self._valued else [*columns, self._growing(self._slope).tolist()]

    def _fill_types(self) -> bool:
        """Find the shares of ties, of free types and of the level that fill the types."""
        self._mixed = None
        if len(self.ties) > 1:
            jobs = [job for tied in self._tied for job, *_ in tied.members]
            if len({*jobs}) < len(jobs):
                return self._mix()  # two ties of one job are more than a range each
        solve = lapack.dgesv  # pyright: ignore[reportAttributeAccessIssue]
        columns, identity = np.array(self._columns()).T, _identity(self._capacity.size)
        _, _, self._inverse, failed = solve(columns, identity)
        self._share = (self._inverse @ (self._capacity - self._taken(self._gpus))).tolist()
        return not failed

    def _mix(self) -> bool:
        """Mix the points of jobs that are indifferent; False if it is not known how."""
        tight = self._dear <= self._alike
        freed = (np.abs(self._steep - self._value) <= self._alike) & self._valued
        freed[self._hard] = False
        tied = tight.sum(axis=1) + freed > 2
        tied[self._hard] = False
        jobs, left = tied.nonzero()[0], self._capacity - self._taken(self._gpus * ~tied)
        if not jobs.size:
            return False
        tight, freed = tight[jobs], freed[jobs]
        rays = self._rays(jobs, tight, freed)
        if rays is None:
            return False
        told, kept, ways, all_ways = rays
        ties = (kept >= len(self._free) + len(self._held)).sum(axis=1)
        of_jobs = Indifferent(self._row[jobs], self._wanted[jobs], self._gpus[jobs], tight, freed)
        type_of = self._of_type
        dearest, inside = of_jobs.dearest(type_of, ways, left, np.tile(ties, 2))
        if dearest is not None:
            stay = tuple(told[at] for at in kept[dearest % len(kept)])
            self._mixed = Mixed(jobs, tight, freed, None, inside, stay, ways[dearest])
            return True
        if self._held:
            return False
        there = self._per_point(self._capacity)
        shares = of_jobs.evenest(type_of, there, left, self.prices > 0)
        self._mixed = Mixed(jobs, tight, freed, shares, inside and all_ways)
        return shares is not None

    def _rays(
        self, jobs: Ints, tight: Bools, freed: Bools
    ) -> tuple[list[int | DemandTie], Ints, Floats, bool] | None:
        """List ways of prices along which as many ties are kept as can be; ``None`` if too many.

        Returns
        -------
        told
            Places of types whose prices may stay, then ties.
        kept
            Which of these are, for each of the first half of the ways, shape (ways / 2, kept).
        ways
            Of length 1, or 0 for none, shape (ways, types); the second half goes back.
        all_ways
            Whether these are all: points that are as fast as each other are no tie.
        """
        types, all_ways = self._capacity.size, True
        ties: dict[tuple[bytes, float, tuple[int, ...]], DemandTie] = {}
        for job, points, more in zip(jobs.tolist(), tight.tolist(), freed.tolist(), strict=True):
            row, value = self._row[job], float(self._value[job])
            model, speeds = row.tobytes(), row.tolist()
            ordered = sorted(compress(range(row.size), points), key=speeds.__getitem__)
            for some in chain(combinations(ordered, 3), combinations(ordered, 2) if more else ()):
                if all_apart(speeds, some):
                    key = model, value if len(some) == 2 else 0.0, some
                    ties.setdefault(key, DemandTie(row, value, some))
                else:
                    all_ways = False
        told: list[int | DemandTie] = [*self._free, *self._held, *ties.values()]
        many = types - 1 if self._valued else types - 2
        if comb(len(told), many) > _MOST_RAYS:
            return None
        kept = np.array([*combinations(range(len(told)), many)], dtype=np.intp)
        units = _identity(types)[[*self._free, *self._held]]
        toward = np.array([tie.toward for tie in ties.values()]).reshape(-1, len(self._of_type))
        rows = np.concatenate([units, toward @ self._of_type])[kept]
        if not self._valued:  # prices stay as they are but for their scale
            as_it_is = self.prices[None, None].repeat(len(kept), axis=0)
            rows = np.concatenate([rows, as_it_is], axis=1)
        ways = np.linalg.svd(rows)[2][:, -1]
        ways = np.concatenate([ways, -ways])
        ways[(ways[:, self._free] < 0).any(axis=1)] = 0.0
        return told, kept, ways, all_ways

    def shares(self) -> Floats:
        """Return the shares of time, shape (jobs, options): as even within a tie as can be."""
        jobs, points = self._row.shape
        X, first, up = np.zeros((jobs, points)), np.arange(0, jobs * points, points), self._up()
        cells = X.ravel()
        cells[first + self._lower.take(self._base)] = 1.0 - up
        cells[first + self._upper.take(self._base)] += up
        if self._mixed is not None and self._mixed.shares is not None:
            X[self._mixed.jobs] = self._mixed.shares
        else:
            weight = self._per_point(1 / self._capacity).tolist()
            amounts = [
                time * toward
                for tied, share in zip(self._tied, self._share, strict=False)
                for time in tied.moved(share, weight)
                for toward in tied.tie.at_points
            ]
            cells[self._cells_of_ties()] += amounts
        return X[:, 1:]

    def alone(self, unit: float) -> bool:
        """Whether all else is certainly dearer than what is taken, in units of so much.

        Beside options these are what a job makes beyond its demand, and GPUs that are left.
        """
        each, first = self.prices.tolist(), np.arange(0, self._dear.size, self._kind.size)
        near = self._dear <= (limit := _APART * unit)
        cells = near.ravel()
        cells[first + self._lower.take(self._base)] = False
        cells[first + self._upper.take(self._base)] = False
        cells[self._cells_of_ties()] = False
        if self._mixed is not None:
            near[self._mixed.jobs] &= ~self._mixed.tight
        if near.any() or any(one <= limit for at, one in enumerate(each) if at not in self._free):
            return False
        return not (self._valued and self._makes_more(limit).any())

    def _cells_of_ties(self) -> list[int]:
        """List the points of members of ties, as cells of a matrix (jobs, options + 1)."""
        wide = self._kind.size
        return [
            job * wide + point
            for tied in self._tied
            for job, *_ in tied.members
            for point in tied.tie.points
        ]

    def _makes_more(self, limit: float) -> Bools:
        """Tell who would make more at a price of so much, and is not known to; shape (jobs,)."""
        near: Bools = (self._base < self._edges) & (self._steep - self._value <= limit)
        near[self._hard] = False
        if self._mixed is not None:
            near[self._mixed.jobs[self._mixed.freed]] = False
        near[self._free_to_make_more()] = False
        return near

    def _free_to_make_more(self) -> list[int]:
        """List the jobs whose edge costs what it gains."""
        two = (tied for tied in self._tied if len(tied.tie.points) == 2)
        return [job for tied in two for job, *_ in tied.members]

    def missed(self, demand: Floats, slope: Floats) -> tuple[float, float]:
        """Return by how much a level costs less than there is, at the least, and what more costs.

        By duality, whatever the prices: what each job must make at them, less what its time is
        worth, costs no more than all there is.
        """
        per_gpu = np.maximum(self._steep, 0.0)
        beyond = self._per_point(self.prices)[:, None] - per_gpu * self._row.T
        least = np.minimum.reduce(beyond)
        each = per_gpu * self._gpus / self._top
        spare = self._capacity @ self.prices - self._gpus @ least - each @ demand
        return float(spare), float(each @ slope)

    @property
    def degenerate(self) -> bool:
        """Whether a tie is at an end of its range or a price is held: others are right as well."""
        if self._mixed is not None:
            return not self._mixed.inside
        return bool(self._held) or any(
            min(share, 1.0 - share) <= NEAR for share in self._share[: len(self.ties)]
        )
