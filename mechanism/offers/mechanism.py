"""The lease-based mechanism: free GPUs are offered to waiting jobs, who accept or reject."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.offers.candidates import Served, first_served
from apportion.mechanism.offers.lease import Lease
from apportion.mechanism.offers.racks import Racks, machines_of
from apportion.mechanism.offers.records import JobRecords
from apportion.mechanism.offers.timer_book import TimerBook
from apportion.mechanism.offers.waiting import ClusterSize, WaitingJobs
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import Gang
from apportion.mechanism.placements.by_speed import Pace, by_tier
from apportion.mechanism.places import NETWORK, Placement, Room, room_of, tier_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.offers.candidates import Takers
    from apportion.mechanism.offers.scheduler import OfferScheduler

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = ["LeaseMechanism"]


class LeaseMechanism:
    """Jobs, GPUs and delay timers of a running scheduler, without a clock of its own.

    Whoever runs jobs tells it what happens (`arrive`, `ran`, `release`, `complete`) and then calls
    `offer`, which tells who gets which GPUs. It ends when no waiting job accepts anything that is
    free, so nothing changes before the next such call or `next_change_s`.

    Of the placements at the tiers that a job accepts it gets the fastest, as `pace` knows. If it
    gave GPUs back in the same instant it gets these, as long as they are free and no others are
    faster or in a tighter tier: a gang spread in a crowd comes together at the end of a lease.

    Parameters
    ----------
    scheduler
        Order, rule, timers and lease.
    cluster
        Whole racks of one accelerator type.
    seed
        Seed of placements at random.
    pace
        How slow models are on placements; by default all that counts is the tier.
    candidates
        Decides who takes what; by default what the scheduler says.

    Raises
    ------
    InputError
        If the cluster has several accelerator types, or machines or racks are not whole.
    """

    def __init__(
        self,
        scheduler: OfferScheduler,
        cluster: Cluster,
        *,
        seed: int = 0,
        pace: Pace = by_tier,
        candidates: Takers | None = None,
    ) -> None:
        gpus = machines_of(cluster)
        self.scheduler = scheduler
        self.jobs = JobRecords()
        self.size = ClusterSize(cluster.gpus_per_machine, int(gpus[0].sum()), int(gpus.sum()))
        self.timers = TimerBook(scheduler.timers, scheduler.lease_s, **asdict(self.size))
        self._rng = np.random.default_rng(seed)
        self.placer = Placer(cluster, scheduler.placement, self._rng, pace=pace)
        self.placing = self.placer.placings[0]
        self.racks = Racks(self.placer.devices)
        self._candidates = candidates or scheduler.candidates()
        self._given_back: dict[int, list[int]] = {}

    def arrive(
        self,
        now_s: float,
        *,
        scale_factor: int,
        job_type: str,
        ideal_s: float,
        model: str | None = None,
    ) -> int:
        """Let a job in; it waits.

        Parameters
        ----------
        now_s
            The time, seconds.
        scale_factor
            GPUs of its gang.
        job_type
            The model that it trains, as the scheduler's rule knows it.
        ideal_s
            Compute time from start to completion without exposed communication, seconds.
        model
            The same as `pace` knows it; the job type by default.

        Returns
        -------
        int
            Its number: 0 for the first job, and so on.

        Raises
        ------
        InputError
            If the cluster has fewer GPUs, or the rule does not know the job type.
        """
        if not 1 <= scale_factor <= self.size.gpus:
            raise InputError(
                f"Job {self.jobs.jobs} ({written(job_type)}) has scale factor {scale_factor}; it "
                f"must be from 1 to the {self.size.gpus} GPUs of the cluster."
            )
        self.scheduler.rule.check(job_type)
        model = job_type if model is None else model
        slowdown = self.placing.slowdowns(model, scale_factor)
        return self.jobs.add(now_s, scale_factor, job_type, ideal_s, model=model, slowdown=slowdown)

    def ran(self, jobs: Ints, compute_s: Floats, run_s: Floats) -> None:
        """Book progress of jobs that hold GPUs.

        Parameters
        ----------
        jobs
            Numbers of the jobs, each once, shape (jobs,).
        compute_s
            Compute time of the steps done since the last call, seconds, shape (jobs,).
        run_s
            The same with exposed communication.
        """
        self.jobs.compute_s[jobs] += compute_s
        self.jobs.run_s[jobs, self.jobs.tier[jobs]] += run_s

    def release(self, job: int, now_s: float) -> None:
        """End a lease: the job gives its GPUs back and waits, from now on."""
        self._given_back[job] = self.placer.held[job][1]
        self.racks.give_back(job)
        self.jobs.tier[job], self.jobs.waiting[job] = -1, True
        self.jobs.released_s[job] = now_s

    def complete(self, job: int) -> None:
        """Let a job go that holds GPUs and is done."""
        self.racks.give_back(job)
        self.jobs.tier[job], self.jobs.complete[job] = -1, True

    def offer(self, now_s: float) -> list[Lease]:
        """Offer what is free to the waiting jobs, until none accepts; return the new leases.

        After each acceptance the offers start again with the first job, as it may have changed
        the delay timers. A job to whom the placement gives nothing, or nothing within the tiers
        that it accepts, waits.
        """
        leases: list[Lease] = []
        without: list[int] = []
        while served := first_served(self._candidates, now_s, self._waiting(without=without)):
            lease = self._lease(served, now_s)
            if lease is None:
                without.append(served.job)
            else:
                leases.append(lease)
        self._given_back.clear()
        return leases

    def next_change_s(self, now_s: float) -> float:
        """Return when a waiting job will accept what is free and rejected now, seconds."""
        waiting = self._waiting()
        return self._candidates.next_change_s(now_s, waiting) if waiting.job.size else np.inf

    def keeps(self, job: int, now_s: float) -> bool:
        """Whether a job whose lease ends now would get the GPUs that it has.

        That is if, with these given back, it is the first to accept anything and finds nothing
        better. With the scheduler's `keep_placement` it accepts the tier that it has, whatever its
        rule.
        """
        free = self.racks.free_with(job)
        served = self._served_again(job, now_s, room_of(free))
        if served is None or served.widest < self.jobs.tier[job]:
            return False
        return self._better(job, free, served.widest) is None

    def surely_keeps(self, job: int, now_s: float) -> bool:
        """Whether a job would get the GPUs that it has at every end of a lease from now on.

        That is if nobody waits, it accepts no tighter tier even if all were free, and nothing
        faster is free. Then leases need not be told apart until a job arrives, completes, or waits.
        """
        if self.jobs.waiting.any():
            return False
        empty = Room(self.size.gpus_per_machine, self.size.gpus_per_rack, self.size.gpus)
        served = self._served_again(job, now_s, empty)
        if served is None or served.tightest < self.jobs.tier[job]:
            return False
        return self._better(job, self.racks.free_with(job), served.widest) is None

    def renewed(self, job: int, now_s: float) -> None:
        """Write down for the delay timers that a job has got again, at once, what it had."""
        gpus = int(self.jobs.scale_factor[job])
        self.timers.record(int(self.jobs.tier[job]), gpus, now_s, 0.0)

    def migrate(self, jobs: Iterable[int]) -> list[Lease]:
        """Move running jobs to faster placements that are free, their own GPUs included.

        Parameters
        ----------
        jobs
            Numbers of the jobs that may move.

        Returns
        -------
        list of Lease
            The jobs that have moved, on the GPUs that they have now.
        """
        moved: list[Lease] = []
        if not self.racks.room.network:
            return moved
        for job in jobs:
            if better := self._better(job, self.racks.free_with(job), NETWORK):
                self.racks.give_back(job)
                moved.append(self._held(job, better))
        return moved

    def state(self) -> dict[str, Any]:
        """Return everything that later decisions depend on, in lists, numbers and texts."""
        return {
            "jobs": self.jobs.state(),
            "racks": self.racks.state(),
            "timers": self.timers.state(),
            "given_back": [[job, devices] for job, devices in self._given_back.items()],
            "takers": self._takers_state(),
            "random": self._rng.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state` in a new mechanism of the same scheduler and cluster.

        Raises
        ------
        InputError
            If a part is missing, or jobs have come already.
        """
        for part in ("jobs", "racks", "timers", "given_back", "takers", "random"):
            if part not in state:
                raise InputError(f"The state of the lease mechanism has no {part!r}.")
        if self.jobs.jobs:
            raise InputError("A state can only be restored before the first job arrives.")
        self.jobs.restore(state["jobs"])
        gangs = zip(self.jobs.models, self.jobs.scale_factor.tolist(), strict=True)
        self.jobs.set_slowdown(np.array([self.placing.slowdowns(*gang) for gang in gangs]))
        self.racks.restore(state["racks"])
        self.timers.restore(state["timers"])
        self._given_back = {job: list(devices) for job, devices in state["given_back"]}
        if state["takers"] is not None:
            self._candidates.restore(state["takers"])  # type: ignore[attr-defined]
        self._rng.bit_generator.state = state["random"]

    def _takers_state(self) -> dict[str, Any] | None:
        """Return what who decides depends on, if it keeps anything."""
        state = getattr(self._candidates, "state", None)
        return None if state is None else state()

    def _waiting(self, room: Room | None = None, without: Collection[int] = ()) -> WaitingJobs:
        """Describe the waiting jobs that could have GPUs: those that are free, or so many."""
        room = room or self.racks.room
        job = np.flatnonzero(self.jobs.waiting & (self.jobs.scale_factor <= room.network))
        if without:
            job = job[~np.isin(job, list(without))]
        return WaitingJobs(job, self.jobs, self.timers, self.size, room)

    def _served_again(self, job: int, now_s: float, room: Room) -> Served | None:
        """Say what a job that waits from now on would accept; None if another comes first."""
        jobs, tier, released_s = self.jobs, self.jobs.tier[job], self.jobs.released_s[job]
        jobs.waiting[job], jobs.released_s[job] = True, now_s
        waiting = self._waiting(room)
        if self.scheduler.keep_placement:
            waiting = replace(waiting, held_tier=np.where(waiting.job == job, tier, -1))
        served = first_served(self._candidates, now_s, waiting)
        jobs.waiting[job], jobs.released_s[job] = False, released_s
        return served if served is not None and served.job == job else None

    def _lease(self, served: Served, now_s: float) -> Lease | None:
        """Give a waiting job GPUs, if the placement has some that it accepts."""
        job, before = served.job, self._given_back.get(served.job)
        gpus, model = int(self.jobs.scale_factor[job]), self.jobs.models[job]
        gang = Gang(job, gpus, model=model, tiers=served[1:], before=before)
        devices = self.placer.choose(gang)
        if devices is None:
            return None
        placement = self.placer.where(gang, devices)
        if tier_of(placement) > served.widest:
            return None
        self.jobs.waiting[job] = False
        waited_s = now_s - float(self.jobs.released_s[job])
        self.timers.record(max(served.tightest, tier_of(placement)), gpus, now_s, waited_s)
        continued = before is not None and self.placer.pools[0].placement(before) == placement
        return self._held(job, placement, devices, continued=continued)

    def _better(self, job: int, free: Ints, widest: int) -> Placement | None:
        """Return free GPUs that are better for a job than those it holds, within a tier."""
        gpus, held = int(self.jobs.scale_factor[job]), self.racks.held[job]
        return self.placing.better(free, self.jobs.models[job], gpus, widest, held)

    def _held(
        self,
        job: int,
        placement: Placement,
        devices: Sequence[int] | None = None,
        *,
        continued: bool = False,
    ) -> Lease:
        """Give a job GPUs and note their tier."""
        self.racks.hold(job, placement, devices)
        self.jobs.tier[job] = tier_of(placement)
        return Lease(job, placement, int(self.jobs.tier[job]), continued)
