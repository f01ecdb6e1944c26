"""Where a walk over prices ends: what each job has, and how far other choices are."""

from __future__ import annotations

from itertools import chain, combinations, compress
from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solving.solvers.demand_choices import DemandChoices
from apportion.policies.solving.solvers.demand_ties import ALIKE, NEAR, DemandTie, all_apart
from apportion.policies.solving.solvers.even_ties import Indifferent

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints

_MOST_RAYS = 200
"""With more ways to go on, a program is quicker."""


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
    _share: Floats
    _free: list[int]
    _held: list[int]

    def _over(self, each: Floats, y: Floats) -> Floats:
        """Return how much dearer each point is than what a job takes, shape (jobs, points)."""
        over = each - y[:, None] * self._row
        return np.asarray(over - over[np.arange(y.size), self._upper[self._base]][:, None])

    def _mix(self) -> bool:
        """Mix the points of jobs that are indifferent; False if it is not known how."""
        each, y = self._per_point(self.prices), self.duals()
        tight = np.abs(self._over(each, y)) <= self._alike
        freed = (np.abs(y - self._value) <= self._alike) & self._valued
        many = np.where(self._wanted < 1.0 - ALIKE, tight.sum(axis=1), 0)
        tied = many + freed > 2
        jobs, left = np.flatnonzero(tied), self._capacity - self._taken(np.flatnonzero(~tied))
        if not jobs.size:
            return False
        tight, freed = tight[jobs], freed[jobs]
        rays = self._rays(jobs, tight, freed)
        if rays is None:
            return False
        kept, ways, all_ways = rays
        ties = [sum(isinstance(one, DemandTie) for one in each) for each in kept]
        of_jobs = Indifferent(self._row[jobs], self._wanted[jobs], self._gpus[jobs], tight, freed)
        type_of = self._of_type
        dearest, inside = of_jobs.dearest(type_of, ways, left, np.tile(ties, 2))
        if dearest is not None:
            after = kept[dearest % len(kept)], ways[dearest]
            self._mixed = Mixed(jobs, tight, freed, None, inside, *after)
            return True
        if self._held:
            return False
        there = self._per_point(self._capacity)
        shares = of_jobs.evenest(type_of, there, left, self.prices > 0)
        self._mixed = Mixed(jobs, tight, freed, shares, inside and all_ways)
        return shares is not None

    def _rays(
        self, jobs: Ints, tight: Bools, freed: Bools
    ) -> tuple[list[tuple[int | DemandTie, ...]], Floats, bool] | None:
        """List ways of prices along which as many ties are kept as can be; ``None`` if too many.

        Returns
        -------
        kept
            Ties, and places of types whose prices stay, for each of the first half of the ways.
        ways
            Of length 1, or 0 for none, shape (ways, types); the second half goes back.
        all_ways
            Whether these are all: points that are as fast as each other are no tie.
        """
        types = self._capacity.size
        all_ways = True
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
        unit, of_type = np.eye(types), self._of_type
        equations = [unit[one] if isinstance(one, int) else one.toward @ of_type for one in told]
        kept = list(combinations(told, many))
        as_it_is = () if self._valued else (self.prices,)  # whose scale does not matter then
        rows = np.array([(*each, *as_it_is) for each in combinations(equations, many)])
        ways = np.linalg.svd(rows)[2][:, -1]
        ways = np.concatenate([ways, -ways])
        ways[(ways[:, self._free] < 0).any(axis=1)] = 0.0
        return kept, ways, all_ways

    def shares(self) -> Floats:
        """Return the shares of time, shape (jobs, options): as even within a tie as can be."""
        jobs, points = self._row.shape
        X, first, part = (
            np.zeros(self._row.shape),
            np.arange(jobs) * points,
            self._of_base(self._part),
        )
        cells = X.ravel()
        cells[first + self._lower[self._base]] = 1.0 - part
        cells[first + self._upper[self._base]] += part
        if self._mixed is not None and self._mixed.shares is not None:
            X[self._mixed.jobs] = self._mixed.shares
            return X[:, 1:]
        self._share_ties(X)
        return X[:, 1:]

    def _share_ties(self, X: Floats) -> None:
        """Bring jobs to the other sides of their ties, as evenly as can be."""
        weight = self._per_point(1 / self._capacity)
        for place, share in enumerate(self._share.tolist()[: len(self.ties)]):
            mine, toward = self._tied.tie == place, self._tied.toward[place]
            jobs, most = self._tied.job[mine], self._tied.most[mine]
            if jobs.size == 1:
                X[jobs[0]] += min(max(share, 0.0), 1.0) * most[0] * toward
                continue
            gpus, pull = self._gpus[jobs], weight * toward
            evenest = -(X[jobs] @ pull) / (pull @ toward)
            all_of_it = float(gpus @ most)
            level = np.sort(np.concatenate([-evenest, most - evenest]))
            at = np.minimum(np.maximum(level[:, None] + evenest, 0.0), most) @ gpus
            found = np.interp(share * all_of_it, at, level)
            X[jobs] += np.minimum(np.maximum(found + evenest, 0.0), most)[:, None] * toward

    def apart(self, y: Floats, unit: float) -> float:
        """Return how much dearer than what is taken all else is, at least, in units; y is `duals`.

        Beside options these are what a job makes beyond its demand, and GPUs that are left.
        """
        each, everyone = self._per_point(self.prices), np.arange(self._top.size)
        low, up = self._lower[self._base], self._upper[self._base]
        over = self._over(each, y)
        over[everyone, low] = over[everyone, up] = np.inf
        beyond = np.where(low == up, np.inf, y - self._value)
        if self._mixed is not None:
            jobs, tight, freed, *_ = self._mixed
            over[jobs] = np.where(tight, np.inf, over[jobs])
            beyond[jobs[freed]] = np.inf
        member, point = (self._tied.toward[self._tied.tie] != 0).nonzero()
        over[self._tied.job[member], point] = np.inf
        beyond[self._tied.job[self._tied.two[self._tied.tie]]] = np.inf
        hard = np.flatnonzero(self._wanted >= 1.0 - ALIKE)
        if hard.size:  # nothing else is fast enough, but what is as fast
            alike = self._row[hard] >= 1.0 - NEAR
            alike[np.arange(hard.size), up[hard]] = False
            over[hard] = np.where(alike, np.abs(each - each[up[hard], None]), np.inf)
            beyond[hard] = np.inf
        there = (one for at, one in enumerate(self.prices.tolist()) if at not in self._free)
        nearest = min([float(over.min()), *there])
        if self._valued:
            nearest = min(nearest, float(beyond.min()))
        return nearest / unit

    @property
    def degenerate(self) -> bool:
        """Whether a tie is at an end of its range or a price is held: others are right as well."""
        if self._mixed is not None:
            return not self._mixed.inside
        share = self._share[: len(self.ties)]
        return bool(self._held) or bool((np.minimum(share, 1.0 - share) <= NEAR).any())
