"""Offers: free GPUs go to waiting jobs, one after the other, until none accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.offers.candidates import Served, first_served
from apportion.mechanism.offers.lease import Lease
from apportion.mechanism.offers.waiting import WaitingJobs
from apportion.mechanism.placements import Gang
from apportion.mechanism.places import tier_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.offers.candidates import Takers
    from apportion.mechanism.offers.holdings import Holdings
    from apportion.mechanism.offers.leased_jobs import LeasedJobs
    from apportion.mechanism.offers.timer_book import TimerBook
    from apportion.mechanism.offers.waiting import ClusterSize
    from apportion.mechanism.places import Placement

__all__ = ["Offering"]


class Offering:
    """Asks who takes what, gives it, and notes the wait.

    Parameters
    ----------
    candidates
        Decides who takes what.
    jobs, holdings, timers, size
        Who waits, what is free, for how long jobs hold out, and how large machines and racks are.
    """

    def __init__(
        self,
        candidates: Takers,
        jobs: LeasedJobs,
        holdings: Holdings,
        timers: TimerBook,
        size: ClusterSize,
    ) -> None:
        self._candidates, self._jobs, self._holdings = candidates, jobs, holdings
        self._timers, self._size = timers, size

    def offer(self, now_s: float) -> list[Lease]:
        """Offer what is free until no waiting job accepts; return the new leases."""
        leases: list[Lease] = []
        declined: list[tuple[int, int]] = []
        while served := self._first_served(now_s, declined):
            lease = self._lease(served, now_s)
            if lease is None:
                declined.append((served.job, served.kind))
            else:
                leases.append(lease)
        self._holdings.forget()
        return leases

    def next_change_s(self, now_s: float) -> float:
        """Return when a waiting job will accept what is free and rejected now, seconds."""
        room = self._holdings.room
        if not any(room):
            return np.inf
        waiting = self.waiting(room)
        return self._candidates.next_change_s(now_s, waiting) if waiting.job.size else np.inf

    def waiting(self, room: Sequence[int], declined: Sequence[tuple[int, int]] = ()) -> WaitingJobs:
        """Describe the waiting jobs that could have GPUs if there is so much room.

        Parameters
        ----------
        room
            GPUs at every option.
        declined
            Jobs and types on which the placement has had no place for them.
        """
        job, jobs = self._jobs.able(max(room)), self._jobs
        if not declined:
            return WaitingJobs(job, jobs, self._timers, self._size, room)
        has = np.zeros((jobs.told.jobs, jobs.types), dtype=bool)
        has[tuple(np.transpose(declined))] = True
        job = job[~has[job].all(axis=1)]
        return WaitingJobs(job, jobs, self._timers, self._size, room, declined=has[job])

    def give(
        self,
        job: int,
        kind: int,
        placement: Placement,
        devices: Sequence[int] | None = None,
        *,
        continued: bool = False,
    ) -> Lease:
        """Give a job GPUs of a type, and note it and their tier."""
        self._holdings.hold(job, kind, placement, devices)
        tier = tier_of(placement)
        self._jobs.kind[job], self._jobs.tier[job] = kind, tier
        return Lease(job, placement, tier, continued, kind)

    def _first_served(self, now_s: float, declined: Sequence[tuple[int, int]]) -> Served | None:
        """Return the first waiting job to accept anything that is free and not declined."""
        room = self._holdings.room
        if not any(room):
            return None
        return first_served(self._candidates, now_s, self.waiting(room, declined))

    def _lease(self, served: Served, now_s: float) -> Lease | None:
        """Give a waiting job GPUs, if the placement has some that it accepts."""
        job, jobs, tiers = served.job, self._jobs, (served.tightest, served.widest)
        gpus, model = int(jobs.told.scale[job]), jobs.told.job_type[job]
        found = self._holdings.choose(Gang(job, gpus, served.kind, model=model, tiers=tiers))
        if found is None:
            return None
        devices, placement, continued = found
        jobs.waiting[job] = False
        waited_s = now_s - float(jobs.released_s[job])
        self._timers.record(max(served.tightest, tier_of(placement)), gpus, now_s, waited_s)
        return self.give(job, served.kind, placement, devices, continued=continued)
