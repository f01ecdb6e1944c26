"""Policies that share out time over tiers, carried out by offers of leases."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import TIERS
from apportion.errors import InputError
from apportion.mechanism.priority import LEAST_SHARE, Candidates, idle_first, time_at_start
from apportion.policies import solve
from apportion.sim.tier_speeds import tier_speeds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.offers import WaitingJobs
    from apportion.mechanism.offers.records import JobRecords
    from apportion.policies import Policy
    from apportion.sim.network import NetworkModel
    from apportion.sim.workload import Workload

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["TierShares"]


class TierShares:
    """Offers free GPUs by share of time wanted over time received, per job and tier.

    The policy is solved over options (accelerator, tier) whenever a job has arrived or completed,
    gangs packed into machines and racks. A job is offered a tier at which it has a share; what
    nobody with a share accepts is lent to the least served, each at its fastest tier, unless the
    policy says that it leaves GPUs idle. What jobs are owed at a new solve is carried over, up
    to one lease. Source: Gavel (Narayanan et al., OSDI 2020), section 5, its priorities.

    It is the part of a scheduler that decides, `apportion.mechanism.offers.Takers`.

    Parameters
    ----------
    policy
        The policy.
    workload, cluster, network
        Jobs, whole racks of one accelerator type, and what slows gangs down.
    lease_s
        Length of a lease, seconds.
    resolve_seconds
        Least time between two solves, seconds.

    Attributes
    ----------
    solves, policy_seconds
        How often the policy was solved, and the real time that it took, seconds.

    Raises
    ------
    InputError
        If the policy lets jobs share GPUs, which leases do not, or a job cannot run.
    """

    def __init__(
        self,
        policy: Policy,
        workload: Workload,
        cluster: Cluster,
        network: NetworkModel,
        *,
        lease_s: float,
        resolve_seconds: float,
    ) -> None:
        if policy.space_sharing:
            raise InputError(
                f"Policy {policy.label!r} lets jobs share GPUs; under leases every gang has its "
                f"GPUs to itself. Choose the policy without space sharing."
            )
        self.solves, self.policy_seconds = 0, 0.0
        self._policy, self._cluster, self._lease_s = policy, cluster, lease_s
        self._resolve_seconds = resolve_seconds
        self._jobs = workload.jobs.reset_index(drop=True)
        self._speed = tier_speeds(workload, cluster, network)
        self._fastest = self._speed * (self._speed == self._speed.max(axis=1, keepdims=True))
        none = np.zeros_like(self._speed)
        self._target, self._run_s, self._owed, self._at_start = none, none, none, none
        self._compute_s, self._isolated_s = np.zeros((2, len(workload)))
        self._active: Ints = np.empty(0, dtype=np.intp)
        self._solved_s = -np.inf

    def candidates(self, now_s: float, waiting: WaitingJobs) -> tuple[Ints, Bools]:
        """Return waiting jobs and a tier for each, who is owed most first."""
        if self._changed(waiting.records) and now_s >= self._solved_s + self._resolve_seconds:
            self._solve(now_s, waiting.records)
        jobs, tiers = self._in_order(waiting.records)
        position = np.full(waiting.records.jobs, -1)
        position[waiting.job] = np.arange(waiting.job.size)
        here = position[jobs] >= 0
        serves, tiers = position[jobs[here]], tiers[here]
        free = waiting.fits[serves, tiers]
        return serves[free], np.eye(len(TIERS), dtype=bool)[tiers[free]]

    def next_change_s(self, now_s: float, waiting: WaitingJobs) -> float:
        """Return when the policy may be solved again, if it is due; infinite if not."""
        due_s = self._solved_s + self._resolve_seconds
        return due_s if due_s > now_s and self._changed(waiting.records) else np.inf

    def _changed(self, records: JobRecords) -> bool:
        """Whether jobs have come or gone since the last solve."""
        return not np.array_equal(np.flatnonzero(~records.complete), self._active)

    def _in_order(self, records: JobRecords) -> tuple[Ints, Ints]:
        """Return (job, tier) pairs by priority, those to which idle GPUs are lent behind."""
        known = records.jobs
        since = records.run_s - self._run_s[:known]
        received = self._at_start[:known] + since
        wanted = Candidates.of(self._target[:known], self._speed[:known], self._owed[:known])
        jobs, tiers = wanted.by_priority(received)
        if "leaves_gpus_idle" in self._policy.traits:
            return jobs, tiers
        served = records.run_s.sum(axis=1)
        idle, at = idle_first(served, self._fastest[:known], records.waiting)
        return np.concatenate([jobs, idle]), np.concatenate([tiers, at])

    def _solve(self, now_s: float, records: JobRecords) -> None:
        """Ask the policy for new shares of the jobs that are here now."""
        self._settle(now_s, records)
        self._active = np.flatnonzero(~records.complete)
        started = time.perf_counter()
        options = pd.MultiIndex.from_product([self._cluster.accelerators, TIERS])
        speeds = pd.DataFrame(self._speed[self._active], self._active, options)
        usable = [option for option in options if (speeds[option] > 0).any()]
        allocation = solve(
            self._policy, speeds[usable], workers=self._cluster, jobs=self._table(now_s, records)
        )
        shares = allocation.X.reindex(index=self._active, columns=options).fillna(0.0)
        self._target = np.zeros_like(self._speed)
        self._target[self._active] = np.clip(shares.to_numpy(dtype=float), 0.0, 1.0)
        self.policy_seconds += time.perf_counter() - started
        self.solves += 1
        self._solved_s = now_s

    def _settle(self, now_s: float, records: JobRecords) -> None:
        """Close the books of the last shares: what is owed, and time in an isolated share."""
        known = records.jobs
        run_s = np.zeros_like(self._speed)
        run_s[:known] = records.run_s
        if self._active.size:
            wanted_s = self._target * (now_s - self._solved_s)
            owed = self._owed + wanted_s - (run_s - self._run_s)
            self._owed = np.clip(owed, -self._lease_s, self._lease_s)
            gpus = self._jobs["scale_factor"].to_numpy()[self._active]
            share = self._cluster.total_gpus / self._active.size / gpus
            done_s = records.compute_s[self._active] - self._compute_s[self._active]
            done_s *= records.alone_slowdown[self._active]
            self._isolated_s[self._active] += done_s / np.minimum(share, 1.0)
        self._compute_s[:known] = records.compute_s
        self._run_s = run_s
        self._at_start = time_at_start(self._owed, self._lease_s, carry_over=True)

    def _table(self, now_s: float, records: JobRecords) -> pd.DataFrame:
        """Return what policies may ask of the jobs that are here."""
        active = self._active
        jobs = self._jobs.loc[active]
        undone = 1 - records.compute_s[active] / records.ideal_s[active]
        run_s = records.run_s[active].sum(axis=1)
        columns: dict[str, Any] = {
            # A job whose last step is being rounded off is still here.
            "steps_remaining": jobs["total_steps"] * np.maximum(undone, 1e-9),
            "elapsed_s": now_s - jobs["arrival_s"],
            "isolated_elapsed_s": self._isolated_s[active],
            "running_on": np.where(
                self._target[active].sum(axis=1) >= 1 - LEAST_SHARE,
                self._cluster.accelerators[0],
                "",
            ),
            "network_priority": np.divide(
                records.compute_s[active], run_s, out=np.zeros(active.size), where=run_s > 0
            ),
        }
        return jobs.assign(**columns)
