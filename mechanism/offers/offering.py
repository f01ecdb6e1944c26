"""Offers: free GPUs go to waiting jobs, one after the other, until none accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.mechanism.offers.candidates import Plans
from apportion.mechanism.offers.serving import FirstServed
from apportion.mechanism.placements import Gang
from apportion.mechanism.scheduler import tier_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from apportion.mechanism.offers.candidates import Planned, Served, Takers
    from apportion.mechanism.offers.holdings import Holdings
    from apportion.mechanism.offers.leased_jobs import LeasedJobs
    from apportion.mechanism.offers.on_types import OnTypes
    from apportion.mechanism.offers.serving import InTurn
    from apportion.mechanism.offers.timer_book import TimerBook
    from apportion.mechanism.offers.waiting import ClusterSize
    from apportion.mechanism.scheduler import Placement


class Lease(NamedTuple):
    """GPUs that a job has got.

    Attributes
    ----------
    job
        Its number.
    placement
        Where the GPUs are: (rack, machine in the rack, GPUs).
    tier
        Position of the tier in `apportion.cluster.TIERS`.
    continued
        Whether these are the GPUs that it gave back in this instant.
    kind
        Position of their accelerator type.
    """

    job: int
    placement: Placement
    tier: int
    continued: bool
    kind: int = 0


class Offering:
    """Asks who takes what, one by one or by a plan, gives it, and notes the wait.

    Parameters
    ----------
    candidates
        Decides who takes what.
    jobs, holdings, timers, size, on_types
        Who waits, what is free, for how long jobs hold out, how large machines and racks are, and
        how fast jobs are where.

    Attributes
    ----------
    steady
        Whether who accepts what hangs on the delay timers alone, see `Rule.steady`.
    """

    def __init__(
        self,
        candidates: Takers | InTurn,
        jobs: LeasedJobs,
        holdings: Holdings,
        timers: TimerBook,
        size: ClusterSize,
        on_types: OnTypes,
    ) -> None:
        self.candidates, self._jobs, self._holdings = candidates, jobs, holdings
        self._on_types = on_types
        self._timers = timers
        self._plans = candidates if isinstance(candidates, Plans) else None
        self.serving = FirstServed(candidates, jobs, timers, size)
        self._never_later = getattr(candidates, "at_once", False)
        self.steady = getattr(candidates, "steady", False)
        # Until then nobody accepts what is free, unless something happens.
        self._quiet_until_s = -np.inf

    def happened(self) -> None:
        """Take in that others wait than before, or other GPUs are free."""
        self._quiet_until_s = -np.inf

    def end(self, job: int, now_s: float) -> None:
        """End a lease: the job gives its GPUs back and waits, from now on."""
        self.happened()
        self._wait(job, now_s)
        self._holdings.lend_back(job)

    def offer(self, now_s: float, ending: Sequence[int] = ()) -> list[Lease]:
        """Offer what is free until no waiting job accepts; return the new leases.

        Parameters
        ----------
        now_s
            The time, seconds.
        ending
            Jobs whose leases end now, see `end`.
        """
        plans, placer = self._plans, self._holdings.placer
        leases: list[Lease] = []
        self.serving.begin()
        if plans is not None or placer.chooses_anew or placer.compares_whole:
            for job in ending:
                self.end(job, now_s)
        elif ending:
            leases = self._end_all(ending, now_s)
        if now_s >= self._quiet_until_s:
            leases += self._one_by_one(now_s) if plans is None else self._by_plan(plans, now_s)
        if leases and placer.compares_whole:
            leases = self._compared(leases)
        return leases

    def _end_all(self, ending: Sequence[int], now_s: float) -> list[Lease]:
        """End leases and serve the first who accept what is free then: often the same jobs again.

        As long as they would get the GPUs that they have, these change hands in the books only.
        """
        jobs, holdings = self._jobs, self._holdings
        leases, tiers = list[Lease](), {job: jobs.tier.item(job) for job in ending}
        served: Served | None = None
        for job in ending:
            self._wait(job, now_s)
        while tiers:
            served = self.serving.first(now_s, holdings.room_with(tiers))
            if served is None or served.job not in tiers:
                break
            job, tier = served.job, tiers[served.job]
            if not self.stays(job, served, tier, tiers):
                break
            del tiers[job]
            jobs.tier[job] = tier
            self._wait_no_more(job, max(served.tightest, tier), now_s)
            leases.append(Lease(job, holdings.held[job], tier, continued=True, kind=served.kind))
        if not tiers:
            return leases
        self.happened()
        for job in tiers:
            holdings.lend_back(job)
        lease = None if served is None else self._lease(served, now_s)
        return leases if lease is None else [*leases, lease]

    def stays(
        self, job: int, served: Served | None, tier: int, ending: Collection[int] = ()
    ) -> bool:
        """Whether a job would get again what it holds, at a tier, if it gave it back.

        That is if it would be served, accepts as much, and nothing that is free is better for it,
        nor would be if all jobs in `ending` gave theirs back, by default it alone.
        """
        if served is None or served.kind != self._jobs.kind[job] or served.widest < tier:
            return False
        held = self._holdings.held[job]
        if self._on_types.is_best_of_type(job, held):
            return True
        free = self._holdings.free_with(ending or (job,))[served.kind]
        return self._on_types.better(job, free, served.widest, held) is None

    def _compared(self, leases: list[Lease]) -> list[Lease]:
        """Let the placement put all who have got GPUs where their links suit them, tier by tier."""
        told, holdings = self._jobs.told, self._holdings
        gangs = [
            Gang(
                *(lease.job, int(told.scale[lease.job]), lease.kind),
                told.job_type[lease.job],
                tiers=(lease.tier, lease.tier),
                before=holdings.placer.held[lease.job][1],
            )
            for lease in leases
        ]
        for gang in gangs:
            holdings.give_back(gang.job)
        wheres = holdings.placer.together(gangs)
        moves = [lease.placement != where for lease, where in zip(leases, wheres, strict=True)]
        for place in sorted(range(len(leases)), key=moves.__getitem__):
            lease, where = leases[place], wheres[place]
            if moves[place]:
                again = holdings.hold_planned(lease.job, lease.kind, where)
                leases[place] = lease._replace(placement=where, continued=again)
            else:
                holdings.hold(lease.job, lease.kind, where, gangs[place].before)
        return leases

    def _one_by_one(self, now_s: float) -> list[Lease]:
        leases: list[Lease] = []
        declined: list[tuple[int, int]] = []
        while served := self._first_served(now_s, declined):
            lease = self._lease(served, now_s)
            if lease is None:
                declined.append((served.job, served.kind))
            else:
                leases.append(lease)
        return leases

    def _by_plan(self, plans: Plans, now_s: float) -> list[Lease]:
        leases: list[Lease] = []
        while any(room := self._holdings.room):
            waiting = self.serving.waiting(room)
            plan = plans.plan(now_s, waiting, self._holdings) if waiting.job.size else ()
            if not plan:
                break
            leases += [self._planned(each, now_s) for each in plan]
        return leases

    def next_change_s(self, now_s: float) -> float:
        """Return when a waiting job will accept what is free and rejected now, seconds."""
        if now_s < self._quiet_until_s:
            return self._quiet_until_s
        room, change_s = self._holdings.room, np.inf
        if not self._never_later and any(room):
            waiting = self.serving.waiting(room)
            if waiting.job.size:
                change_s = self.candidates.next_change_s(now_s, waiting)
        if self.steady:
            self._quiet_until_s = change_s
        return change_s

    def give(
        self,
        job: int,
        kind: int,
        placement: Placement,
        devices: Sequence[int] | None = None,
        *,
        continued: bool = False,
    ) -> Lease:
        """Give a job GPUs of a type, and note it and their tier.

        By default its own, if it gave these back in this instant, or those with the lowest numbers.
        """
        if devices is None:
            continued = self._holdings.hold_planned(job, kind, placement)
        else:
            self._holdings.hold(job, kind, placement, devices)
        self.happened()
        tier = tier_of(placement)
        self._jobs.kind[job], self._jobs.tier[job] = kind, tier
        return Lease(job, placement, tier, continued, kind)

    def _first_served(self, now_s: float, declined: Sequence[tuple[int, int]]) -> Served | None:
        """Return the first waiting job to accept anything that is free and not declined."""
        room = self._holdings.room
        if not self._jobs.any_able(max(room)):
            return None
        return self.serving.first(now_s, room, declined)

    def _lease(self, served: Served, now_s: float) -> Lease | None:
        """Give a waiting job GPUs, if the placement has some that it accepts."""
        job, jobs, tiers = served.job, self._jobs, (served.tightest, served.widest)
        gpus, model = int(jobs.told.scale[job]), jobs.told.job_type[job]
        found = self._holdings.choose(Gang(job, gpus, served.kind, model=model, tiers=tiers))
        if found is None:
            return None
        devices, placement, continued = found
        self._wait_no_more(job, max(served.tightest, tier_of(placement)), now_s)
        return self.give(job, served.kind, placement, devices, continued=continued)

    def _planned(self, planned: Planned, now_s: float) -> Lease:
        """Give a waiting job what a plan says."""
        job, kind, placement, tier = planned
        self._wait_no_more(job, tier, now_s)
        return self.give(job, kind, placement)

    def _wait(self, job: int, now_s: float) -> None:
        """Let a job wait from now on."""
        self._jobs.tier[job], self._jobs.released_s[job] = -1, now_s
        self._jobs.wait(job)

    def _wait_no_more(self, job: int, tier: int, now_s: float) -> None:
        """Let a job wait no longer, and tell the delay timers for how long it has."""
        self._jobs.wait(job, waits=False)
        self.note(job, tier, now_s, now_s - self._jobs.released_s.item(job))

    def note(self, job: int, tier: int, now_s: float, waited_s: float) -> None:
        """Tell delay timers that follow the waits that a job got a tier after one."""
        if not self._timers.tuned:
            return
        gpus = self._jobs.told.scale.item(job)
        changed = self._timers.record(tier, gpus, now_s, waited_s)
        if changed and gpus in self._jobs.waiting_of_size:
            self.happened()
