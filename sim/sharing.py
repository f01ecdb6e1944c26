"""Jobs that share devices in a simulation: what they make beside each other."""

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

__all__ = ["PairSpeeds"]


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
    def of(cls, workload: Workload, cluster: Cluster) -> PairSpeeds | None:
        """Take them from a workload that has pair throughputs; all of it is believed."""
        if workload.pairs is None:
            return None
        own, key = workload.pairs.lookup(workload.jobs, cluster.accelerators)
        return cls(own, key, own)

    def estimated(
        self, estimates: PairThroughputs, workload: Workload, cluster: Cluster, learns: bool
    ) -> PairSpeeds:
        """Return the same speeds of which something else is believed."""
        if workload.pairs is None:
            return self
        of_keys = workload.pairs.keys.to_frame(index=False)
        told, place = estimates.lookup(of_keys, cluster.accelerators)
        place = np.append(place, len(estimates.keys))
        return replace(self, believed=told[np.ix_(place, place)], learns=learns)

    def slowed_down(self, factor: Floats) -> PairSpeeds:
        """Multiply speeds; `factor` is of shape (jobs, types), the same for jobs of one key."""
        of_key = np.ones((len(self.own), factor.shape[1]))
        of_key[self.key] = factor
        own = self.own * of_key[:, None, :]
        return replace(self, own=own, believed=own)

    def table(self, jobs: Ints) -> PairTable:
        """Return what a policy needs of it, for some jobs."""
        return PairTable(self.believed, self.key[jobs])

    def beside(self, job: Ints, partner: Ints) -> Floats:
        """Steps/s of jobs beside partners, shape (pairs, types)."""
        return np.asarray(self.own[self.key[job], self.key[partner]], dtype=float)

    def believed_times(self, factor: Floats) -> PairSpeeds:
        """Multiply what is believed; `factor` as for `slowed_down`."""
        of_key = np.ones((len(self.own), factor.shape[1]))
        of_key[self.key] = factor
        return replace(self, believed=self.believed * of_key[:, None, :])

    def measure(self, job: Ints, partner: Ints, types: Ints) -> Bools:
        """Take note of pairs that have run; tell which turned out not to fit one GPU."""
        a, b = self.key[job], self.key[partner]
        misfits = (self.own[a, b, types] == 0) & (self.believed[a, b, types] > 0)
        known = self.learns | (self.own[a, b, types] == 0)
        a, b, types = a[known], b[known], types[known]
        self.believed[a, b, types] = self.own[a, b, types]
        self.believed[b, a, types] = self.own[b, a, types]
        return np.asarray(misfits, dtype=bool)
