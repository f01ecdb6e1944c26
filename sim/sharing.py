"""Jobs that share devices in a simulation: what they make beside each other, and their shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies import PairTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.pairs import PairThroughputs
    from apportion.sim.workload import Workload

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["NO_PAIRS", "PairSpeeds", "Shares"]

NO_PAIRS = np.empty((0, 2), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class PairSpeeds:
    """Steps/s of jobs beside each other, as they are and as the policy believes.

    Attributes
    ----------
    own
        By keys (job type and scale factor), shape (keys, keys, types).
    key
        Key of each job of the workload, shape (jobs,).
    believed
        What the policy is told, of the shape of `own`.
    learns
        Whether a pair that has run is known from then on. That two jobs cannot share is always
        learnt: they fail at once.
    """

    own: Floats
    key: Ints
    believed: Floats
    learns: bool = False

    @classmethod
    def of(
        cls,
        workload: Workload,
        cluster: Cluster,
        estimates: PairThroughputs | None = None,
        learns: bool = False,
    ) -> PairSpeeds | None:
        """Take them from a workload that has pair throughputs, and perhaps from estimates."""
        if workload.pairs is None:
            return None
        own, key = workload.pairs.lookup(workload.jobs, cluster.accelerators)
        if estimates is None:
            return cls(own, key, own, learns=False)
        of_keys = workload.pairs.keys.to_frame(index=False)
        told, place = estimates.lookup(of_keys, cluster.accelerators)
        place = np.append(place, len(estimates.keys))
        return cls(own, key, told[np.ix_(place, place)], learns)

    def slowed_down(self, factor: Floats) -> PairSpeeds:
        """Multiply speeds; `factor` is of shape (jobs, types), the same for jobs of one key."""
        of_key = np.ones((len(self.own), factor.shape[1]))
        of_key[self.key] = factor
        own = self.own * of_key[:, None, :]
        told = own if self.believed is self.own else self.believed
        return replace(self, own=own, believed=told)

    def table(self, jobs: Ints) -> PairTable:
        """Return what a policy needs of it, for some jobs."""
        return PairTable(self.believed, self.key[jobs])

    def beside(self, job: Ints, partner: Ints) -> Floats:
        """Steps/s of jobs beside partners, shape (pairs, types)."""
        return np.asarray(self.own[self.key[job], self.key[partner]], dtype=float)

    def measure(self, job: Ints, partner: Ints, types: Ints) -> bool:
        """Take note of pairs that have run; tell whether two jobs turned out not to fit."""
        a, b = self.key[job], self.key[partner]
        misfits = (self.own[a, b, types] == 0) & (self.believed[a, b, types] > 0)
        known = self.learns | (self.own[a, b, types] == 0)
        a, b, types = a[known], b[known], types[known]
        self.believed[a, b, types] = self.own[a, b, types]
        self.believed[b, a, types] = self.own[b, a, types]
        return bool(misfits.any())


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of time of the active jobs, alone and in pairs.

    Attributes
    ----------
    alone
        Shape (active jobs, types).
    pairs
        Places of two active jobs each, shape (pairs, 2).
    together
        Shape (pairs, types).
    """

    alone: Floats
    pairs: Ints
    together: Floats

    @classmethod
    def none(cls, types: int) -> Shares:
        """No jobs."""
        return cls(np.zeros((0, types)), NO_PAIRS, np.zeros((0, types)))

    def arrive(self, jobs: int) -> Shares:
        """Append jobs without a share."""
        blank = np.zeros((jobs, self.alone.shape[1]))
        return Shares(np.vstack([self.alone, blank]), self.pairs, self.together)

    def keep(self, stay: Bools) -> Shares:
        """Drop jobs, and the pairs that they were in."""
        place = np.cumsum(stay) - 1
        whole = stay[self.pairs].all(axis=1)
        return Shares(self.alone[stay], place[self.pairs[whole]], self.together[whole])

    def rate(self, jobs: Ints, speed: Floats, beside: PairSpeeds | None) -> Floats:
        """Effective throughput, steps/s, shape (active jobs,)."""
        rate = (self.alone * speed).sum(axis=1)
        if beside is not None and len(self.pairs):
            for me, partner in (self.pairs.T, self.pairs.T[::-1]):
                steps = (self.together * beside.beside(jobs[me], jobs[partner])).sum(axis=1)
                rate += np.bincount(me, weights=steps, minlength=rate.size)
        return np.asarray(rate, dtype=float)

    def presence(self) -> Floats:
        """Share of time in which each job runs, alone or not, shape (active jobs, types)."""
        time = self.alone.copy()
        for me in self.pairs.T:
            np.add.at(time, me, self.together)
        return time

    def gpus(self, scale: Ints) -> Floats:
        """GPUs that each job accounts for, half of what a pair holds, (active jobs, types)."""
        held = self.alone * scale[:, None]
        if len(self.pairs):
            half = self.together * scale[self.pairs].max(axis=1)[:, None] / 2
            for me in self.pairs.T:
                np.add.at(held, me, half)
        return np.asarray(held, dtype=float)
