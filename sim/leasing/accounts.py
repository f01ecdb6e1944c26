"""What jobs under leases do with their time: computing, communicating, held in each tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.cluster import TIERS
from apportion.mechanism.offers.exact import TICK_S
from apportion.sim.leasing.stays import Stays
from apportion.sim.metrics import jobs_table

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.offers import LeaseMechanism, Placement
    from apportion.sim.engine.truth import Truth
    from apportion.sim.workload import Workload

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["Accounts"]


class Accounts:
    """Entries per job in order of submission, beside those of the ledger.

    Parameters
    ----------
    ledger
        Steps, completions, time in an isolated share.
    mechanism
        Is told of the progress of each job, for its priorities.

    Attributes
    ----------
    stays
        Who has held which GPUs.
    ready_s, end_s
        From when to when a job makes progress under its present lease, shape (jobs,).
    slowdown
        Time of a step over its compute time, 1 + overhead of its placement.
    tier
        Tier of the GPUs that it holds, -1 for none.
    compute_s, communication_s
        Seconds that it has computed, and in which communication was exposed.
    tier_s
        Seconds that it has held GPUs in each tier, checkpoints included, shape (jobs, tiers).
    """

    def __init__(self, ledger: Truth, mechanism: LeaseMechanism) -> None:
        self.ledger, self._mechanism = ledger, mechanism
        self.stays = Stays(ledger.jobs)
        self.speed = ledger.speed[:, 0]
        self.ready_s: Floats = np.zeros(ledger.jobs)
        self.end_s: Floats = np.zeros(ledger.jobs)
        self._booked_s: Floats = np.zeros(ledger.jobs)
        self._held_from_s: Floats = np.zeros(ledger.jobs)
        self.slowdown: Floats = np.ones(ledger.jobs)
        self.tier = np.full(ledger.jobs, -1, dtype=np.intp)
        self.compute_s: Floats = np.zeros(ledger.jobs)
        self.communication_s: Floats = np.zeros(ledger.jobs)
        self.tier_s = np.zeros((ledger.jobs, len(TIERS)))

    @property
    def holders(self) -> Ints:
        """Jobs that hold GPUs."""
        return np.flatnonzero(self.tier >= 0)

    def needed_s(self, job: int) -> float:
        """Return the time that a job needs to completion where it is, seconds."""
        return float(self.ledger.remaining[job] / self.speed[job] * self.slowdown[job])

    def hold(self, job: int, placement: Placement, tier: int, now_s: float) -> None:
        """Write down that a job has got GPUs."""
        self.stays.begin(job, placement, now_s)
        self.tier[job] = tier
        self._held_from_s[job] = now_s
        if np.isnan(self.ledger.start_s[job]):
            self.ledger.start_s[job] = now_s

    def drop(self, job: int, now_s: float) -> None:
        """Write down that a job holds its GPUs no longer."""
        self.stays.end(job, now_s)
        held_s = now_s - self._held_from_s[job]
        self.tier_s[job, self.tier[job]] += held_s
        self.ledger.held_s[job, 0] += held_s
        self.ledger.gpu_s[job, 0] += held_s * self.ledger.scale[job]
        self.tier[job] = -1

    def lease(self, job: int, ready_s: float, end_s: float) -> None:
        """Let a job make progress from one time to another."""
        self.ready_s[job] = self._booked_s[job] = ready_s
        self.end_s[job] = end_s

    def book(self, jobs: Ints, now_s: float) -> None:
        """Book the progress of jobs that hold GPUs, up to now."""
        until_s = np.minimum(now_s, self.end_s[jobs])
        self.progress(jobs, np.maximum(until_s - self._booked_s[jobs], 0.0))
        self._booked_s[jobs] = np.maximum(self._booked_s[jobs], until_s)

    def progress(self, jobs: Ints, run_s: Floats) -> None:
        """Book progress of jobs over some time that each ran, seconds, shape (jobs,)."""
        speed = self.speed[jobs]
        done = np.minimum(run_s / self.slowdown[jobs] * speed, self.ledger.remaining[jobs])
        self.ledger.work(jobs, done)
        self._spend(jobs, done / speed)

    def complete(self, job: int, now_s: float) -> None:
        """Book what is left of a job, which is no more than rounding, and take it out."""
        one = np.array([job])
        self._spend(one, self.ledger.remaining[one] / self.speed[one])
        self.drop(job, now_s)
        self.ledger.complete(one, np.array([now_s]))

    def table(self, workload: Workload, cluster: Cluster) -> pd.DataFrame:
        """Return the jobs table with the columns that only racks have, all in seconds."""
        tiers = {f"{name}_s": self.tier_s[:, k] for k, name in enumerate(TIERS)}
        jobs = jobs_table(self.ledger, workload, cluster)
        # A job that arrives between two ticks has its GPUs at the next one and has not waited.
        waited = jobs["queueing_s"] > TICK_S
        return jobs.assign(
            queueing_s=jobs["queueing_s"].where(waited, 0.0),
            communication_s=self.communication_s,
            compute_s=self.compute_s,
            **tiers,
        )

    def _spend(self, jobs: Ints, compute_s: Floats) -> None:
        run_s = compute_s * self.slowdown[jobs]
        self.compute_s[jobs] += compute_s
        self.communication_s[jobs] += run_s - compute_s
        self._mechanism.ran(jobs, compute_s, run_s)
