"""Jobs that share devices in a simulation: what they make beside each other, and their shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.errors import unknown_name
from apportion.policies import PairTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.sim.workload import Workload

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["NO_PAIRS", "PairSpeeds", "Shares"]

NO_PAIRS = np.empty((0, 2), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class PairSpeeds:
    """Steps/s of jobs beside each other.

    Attributes
    ----------
    own
        By keys (job type and scale factor), shape (keys, keys, types).
    key
        Key of each job of the workload, shape (jobs,).
    """

    own: Floats
    key: Ints

    @classmethod
    def of(cls, workload: Workload, cluster: Cluster) -> PairSpeeds | None:
        """Take them from a workload that has pair throughputs."""
        pairs = workload.pairs
        if pairs is None:
            return None
        for name in cluster.accelerators:
            if name not in pairs.accelerators:
                raise unknown_name("accelerator in the pairs", name, pairs.accelerators)
        types = [pairs.accelerators.index(name) for name in cluster.accelerators]
        labels = pd.MultiIndex.from_frame(workload.jobs[["job_type", "scale_factor"]])
        # Jobs of a key that nothing is known of share with nobody: a last row and column of zeros.
        own = np.pad(pairs.own[:, :, types], ((0, 1), (0, 1), (0, 0)))
        return cls(own, pairs.keys.get_indexer(labels))

    def table(self, jobs: Ints) -> PairTable:
        """Return what a policy needs of it, for some jobs."""
        return PairTable(self.own, self.key[jobs])

    def beside(self, job: Ints, partner: Ints) -> Floats:
        """Steps/s of jobs beside partners, shape (pairs, types)."""
        return np.asarray(self.own[self.key[job], self.key[partner]], dtype=float)


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
