"""Jobs that share devices in a simulation: what they make beside each other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from apportion.policies import PairTable

if TYPE_CHECKING:
    from apportion.cluster import Cluster
    from apportion.pairs import PairThroughputs
    from apportion.sim.workload import Workload
    from apportion.types import Bools, Floats, Ints


class BelievedPairs(Protocol):
    """What is believed in a run of pairs of jobs."""

    def table(self, jobs: Ints) -> PairTable:
        """Return what a policy needs of it, for all jobs that are left of those that have run."""
        ...

    def measure(self, job: Ints, partner: Ints, types: Ints) -> Bools:
        """Take note of pairs that have run; tell which turned out not to fit one GPU."""
        ...


@dataclass(eq=False)
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
        Whether a pair of jobs that has run is known from then on, and no other of their types.
        That two jobs cannot share is always learnt: they fail at once.
    """

    own: Floats
    key: Ints
    believed: Floats
    learns: bool = False
    _seen: dict[tuple[int, int], set[int]] = field(default_factory=dict)

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
        believed = told[np.ix_(place, place)]
        return replace(self, believed=believed, learns=learns, _seen={})

    def slowed_down(self, factor: Floats) -> PairSpeeds:
        """Multiply speeds; `factor` is of shape (jobs, types), the same for jobs of one key."""
        of_key = np.ones((len(self.own), factor.shape[1]))
        of_key[self.key] = factor
        own = self.own * of_key[:, None, :]
        return replace(self, own=own, believed=own)

    def table(self, jobs: Ints) -> PairTable:
        """Return what a policy needs of it, for some jobs.

        Jobs that have run beside others have a key each behind those of all. `jobs` are all that
        are left of those that have run: what others have shown is forgotten.
        """
        here, seen = set(jobs.tolist()), self._seen
        for pair in [pair for pair in seen if not here.issuperset(pair)]:
            del seen[pair]
        if not seen:
            return PairTable(self.believed, self.key[jobs])
        known = sorted({job for pair in seen for job in pair})
        keys = np.append(np.arange(len(self.own)), self.key[known])
        place = {job: len(self.own) + row for row, job in enumerate(known)}
        believed = self.believed[np.ix_(keys, keys)]
        for (one, other), types in seen.items():
            for a, b in ((one, other), (other, one)):
                own = self.own[self.key[a], self.key[b]]
                believed[place[a], place[b], list(types)] = own[list(types)]
        of_job = [
            place.get(job, key)
            for job, key in zip(jobs.tolist(), self.key[jobs].tolist(), strict=True)
        ]
        return PairTable(believed, np.array(of_job, dtype=np.intp))

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
        apart = self.own[a, b, types] == 0
        if self.learns:
            return self._measure_jobs(job, partner, types, apart)
        misfits = apart & (self.believed[a, b, types] > 0)
        a, b, types = a[apart], b[apart], types[apart]
        self.believed[a, b, types] = self.own[a, b, types]
        self.believed[b, a, types] = self.own[b, a, types]
        return np.asarray(misfits, dtype=bool)

    def _measure_jobs(self, job: Ints, partner: Ints, types: Ints, apart: Bools) -> Bools:
        """Take note of pairs of jobs; tell which turned out now not to fit one GPU."""
        new = np.zeros(job.size, dtype=bool)
        lines = zip(job.tolist(), partner.tolist(), types.tolist(), strict=True)
        for line, (one, other, where) in enumerate(lines):
            seen = self._seen.setdefault((min(one, other), max(one, other)), set())
            new[line] = where not in seen
            seen.add(where)
        believed = self.believed[self.key[job], self.key[partner], types] > 0
        return np.asarray(new & apart & believed, dtype=bool)
