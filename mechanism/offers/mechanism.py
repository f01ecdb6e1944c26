"""The lease-based mechanism: free GPUs are offered to waiting jobs, who accept or reject."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.offers.candidates import Served, first_served
from apportion.mechanism.offers.lease import Lease
from apportion.mechanism.offers.on_types import OnTypes, step_times
from apportion.mechanism.offers.racks import Racks, machines_of
from apportion.mechanism.offers.records import JobRecords
from apportion.mechanism.offers.timer_book import TimerBook
from apportion.mechanism.offers.waiting import ClusterSize, WaitingJobs
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import Gang
from apportion.mechanism.placements.by_speed import Pace, by_tier
from apportion.mechanism.places import Placement, Room, room_of, tier_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

    Of the accelerator types at whose free tiers it accepts GPUs a job gets that on which it is
    fastest, and there, at the tiers that it accepts, the fastest placement, as `pace` knows. If it
    gave GPUs back in the same instant it gets these, as long as they are free and no others are
    faster or in a tighter tier: a gang spread in a crowd comes together at the end of a lease.

    Parameters
    ----------
    scheduler
        Order, rule, timers and lease.
    cluster
        Whole racks, each of one accelerator type.
    seed
        Seed of placements at random.
    pace
        How slow models are on placements of any type; by default all that counts is the tier.
    candidates
        Decides who takes what; by default what the scheduler says.

    Raises
    ------
    InputError
        If machines or racks are not whole, or there are none of a type.
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
        self.jobs = JobRecords(len(gpus))
        of_type = tuple(int(each.sum()) for each in gpus)
        rack = max(int(each[0].sum()) for each in gpus)
        self.size = ClusterSize(cluster.gpus_per_machine, rack, max(of_type), of_type)
        self.timers = TimerBook(
            *(scheduler.timers, scheduler.lease_s),
            gpus_per_machine=cluster.gpus_per_machine,
            gpus_per_rack=rack,
            gpus=self.size.gpus,
        )
        self._rng = np.random.default_rng(seed)
        self.placer = Placer(cluster, scheduler.placement, self._rng, pace=pace)
        self.held: dict[int, Placement] = {}
        self.racks = [Racks(self.placer.devices, k, self.held) for k in range(len(gpus))]
        self._candidates = candidates or scheduler.candidates()
        self._given_back: dict[int, tuple[int, list[int], Placement]] = {}
        self._on_types = OnTypes(self.placer.placings, self.jobs)

    def arrive(
        self,
        now_s: float,
        *,
        scale_factor: int,
        job_type: str,
        ideal_s: float,
        model: str | None = None,
        speed: Sequence[float] | None = None,
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
            Compute time from start to completion on its fastest type, without exposed
            communication, seconds.
        model
            The same as `pace` knows it; the job type by default.
        speed
            Steps/s on each accelerator type without exposed communication, or what is proportional
            to them, 0 where it cannot run; shape (types,). The same on all by default.

        Returns
        -------
        int
            Its number: 0 for the first job, and so on.

        Raises
        ------
        InputError
            If the cluster has fewer GPUs of any type on which it runs, or the rule does not know
            the job type.
        """
        times = step_times([1.0] * len(self.racks) if speed is None else speed)
        if not 1 <= scale_factor <= self.size.gpus:
            raise InputError(
                f"Job {self.jobs.jobs} ({written(job_type)}) has scale factor {scale_factor}; it "
                f"must be from 1 to the {self.size.gpus} GPUs of the cluster."
            )
        self.scheduler.rule.check(job_type)
        model = job_type if model is None else model
        slowdown = self._on_types.slowdowns(model, scale_factor, times)
        if np.isinf(slowdown).all():
            raise InputError(
                f"Job {self.jobs.jobs} ({written(job_type)}) has scale factor {scale_factor}; no "
                f"type on which it runs has so many GPUs."
            )
        self._on_types.step_times.append(times)
        return self.jobs.add(now_s, scale_factor, job_type, ideal_s, model=model, slowdown=slowdown)

    def ran(self, jobs: Ints, compute_s: Floats, run_s: Floats) -> None:
        """Book progress of jobs that hold GPUs.

        Parameters
        ----------
        jobs
            Numbers of the jobs, each once, shape (jobs,).
        compute_s
            Compute time of the steps done since the last call, on the job's fastest type, seconds,
            shape (jobs,).
        run_s
            How long they have taken on the GPUs that they hold, with exposed communication.
        """
        self.jobs.compute_s[jobs] += compute_s
        self.jobs.run_s[jobs, self.jobs.option(jobs)] += run_s

    def release(self, job: int, now_s: float) -> None:
        """End a lease: the job gives its GPUs back and waits, from now on."""
        self._given_back[job] = (*self.placer.held[job], self._racks_of(job).give_back(job))
        self.jobs.tier[job], self.jobs.waiting[job] = -1, True
        self.jobs.released_s[job] = now_s

    def complete(self, job: int) -> None:
        """Let a job go that holds GPUs and is done."""
        self._racks_of(job).give_back(job)
        self.jobs.tier[job], self.jobs.complete[job] = -1, True

    def offer(self, now_s: float) -> list[Lease]:
        """Offer what is free to the waiting jobs, until none accepts; return the new leases.

        After each acceptance the offers start again with the first job, as it may have changed
        the delay timers. A job to whom the placement gives nothing on any type, or nothing within
        the tiers that it accepts, waits.
        """
        leases: list[Lease] = []
        declined: list[tuple[int, int]] = []
        while served := self._first_served(now_s, declined):
            lease = self._lease(served, now_s)
            if lease is None:
                declined.append((served.job, served.kind))
            else:
                leases.append(lease)
        self._given_back.clear()
        return leases

    def next_change_s(self, now_s: float) -> float:
        """Return when a waiting job will accept what is free and rejected now, seconds."""
        room = self._room()
        if not any(room):
            return np.inf
        waiting = self._waiting(room)
        return self._candidates.next_change_s(now_s, waiting) if waiting.job.size else np.inf

    def keeps(self, job: int, now_s: float) -> bool:
        """Whether a job whose lease ends now would get the GPUs that it has.

        That is if, with these given back, it is the first to accept anything and finds nothing
        better. With the scheduler's `keep_placement` it accepts the tier that it has, whatever its
        rule.
        """
        kind, free = int(self.jobs.kind[job]), self._racks_of(job).free_with(job)
        rooms = [room_of(free) if k == kind else each.room for k, each in enumerate(self.racks)]
        served = self._served_again(job, now_s, _behind_each_other(rooms))
        if served is None or served.kind != kind or served.widest < self.jobs.tier[job]:
            return False
        return self._better(job, free, served.widest) is None

    def surely_keeps(self, job: int, now_s: float) -> bool:
        """Whether a job would get the GPUs that it has at every end of a lease from now on.

        That is if nobody waits, it accepts no tighter tier and no other type even if all were free,
        and nothing faster is free. Then leases need not be told apart until a job arrives,
        completes, or waits.
        """
        if self.jobs.waiting.any():
            return False
        kind, empty = int(self.jobs.kind[job]), [each.room_of_all for each in self.racks]
        served = self._served_again(job, now_s, _behind_each_other(empty))
        if served is None or served.kind != kind or served.tightest < self.jobs.tier[job]:
            return False
        return self._better(job, self._racks_of(job).free_with(job), served.widest) is None

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
        if not any(each.room.network for each in self.racks):
            return moved
        for job in jobs:
            racks, own = self.racks, int(self.jobs.kind[job])
            free = [each.free_with(job) if k == own else each.free for k, each in enumerate(racks)]
            if better := self._on_types.better_anywhere(job, free, self.held[job]):
                self._racks_of(job).give_back(job)
                moved.append(self._held(job, *better))
        return moved

    def state(self) -> dict[str, Any]:
        """Return everything that later decisions depend on, in lists, numbers and texts."""
        return {
            "jobs": self.jobs.state(),
            "step_times": list(self._on_types.step_times),
            "racks": self.racks[0].state(),
            "timers": self.timers.state(),
            "given_back": [[job, *held[:2]] for job, held in self._given_back.items()],
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
        for part in ("jobs", "step_times", "racks", "timers", "given_back", "takers", "random"):
            if part not in state:
                raise InputError(f"The state of the lease mechanism has no {part!r}.")
        if self.jobs.jobs:
            raise InputError("A state can only be restored before the first job arrives.")
        self.jobs.restore(state["jobs"])
        on, times = self._on_types, [list(each) for each in state["step_times"]]
        gangs = zip(self.jobs.models, self.jobs.scale_factor.tolist(), times, strict=True)
        self.jobs.set_slowdown(np.array([on.slowdowns(*gang) for gang in gangs]))
        on.step_times = times
        self.racks[0].restore(state["racks"])
        self.timers.restore(state["timers"])
        self._given_back = {
            job: (kind, devices, self.placer.pools[kind].placement(devices))
            for job, kind, devices in state["given_back"]
        }
        if state["takers"] is not None:
            self._candidates.restore(state["takers"])  # type: ignore[attr-defined]
        self._rng.bit_generator.state = state["random"]

    def _takers_state(self) -> dict[str, Any] | None:
        """Return what who decides depends on, if it keeps anything."""
        state = getattr(self._candidates, "state", None)
        return None if state is None else state()

    def _racks_of(self, job: int) -> Racks:
        """Return the racks of the type of which a job holds GPUs."""
        return self.racks[self.placer.held[job][0]]

    def _room(self) -> Sequence[int]:
        """Return the room that is free at every option."""
        return _behind_each_other([each.room for each in self.racks])

    def _waiting(
        self, room: Sequence[int], declined: Sequence[tuple[int, int]] = ()
    ) -> WaitingJobs:
        """Describe the waiting jobs that could have GPUs if there is so much room."""
        job = (self.jobs.waiting & (self.jobs.scale_factor <= max(room))).nonzero()[0]
        if not declined:
            return WaitingJobs(job, self.jobs, self.timers, self.size, room)
        has = np.zeros((self.jobs.jobs, len(self.racks)), dtype=bool)
        has[tuple(np.transpose(declined))] = True
        job = job[~has[job].all(axis=1)]
        return WaitingJobs(job, self.jobs, self.timers, self.size, room, declined=has[job])

    def _first_served(self, now_s: float, declined: Sequence[tuple[int, int]]) -> Served | None:
        """Return the first waiting job to accept anything that is free and not declined."""
        room = self._room()
        if not any(room):
            return None
        return first_served(self._candidates, now_s, self._waiting(room, declined))

    def _served_again(self, job: int, now_s: float, room: Sequence[int]) -> Served | None:
        """Say what a job that waits from now on would accept; None if another comes first."""
        jobs, option, released_s = self.jobs, self.jobs.option(job), self.jobs.released_s[job]
        jobs.waiting[job], jobs.released_s[job] = True, now_s
        waiting = self._waiting(room)
        if self.scheduler.keep_placement:
            waiting = replace(waiting, held_option=np.where(waiting.job == job, option, -1))
        served = first_served(self._candidates, now_s, waiting)
        jobs.waiting[job], jobs.released_s[job] = False, released_s
        return served if served is not None and served.job == job else None

    def _lease(self, served: Served, now_s: float) -> Lease | None:
        """Give a waiting job GPUs, if the placement has some that it accepts."""
        job, kind, had = served.job, served.kind, self._given_back.get(served.job)
        before = had[1] if had is not None and had[0] == kind else None
        gpus, model = int(self.jobs.scale_factor[job]), self.jobs.models[job]
        tiers = (served.tightest, served.widest)
        gang = Gang(job, gpus, kind, model=model, tiers=tiers, before=before)
        devices = self.placer.choose(gang)
        if devices is None:
            return None
        if devices is before and had is not None:
            placement = had[2]
        else:
            placement = self.placer.where(gang, devices)
        tier = tier_of(placement)
        if tier > served.widest:
            return None
        self.jobs.waiting[job] = False
        waited_s = now_s - float(self.jobs.released_s[job])
        self.timers.record(max(served.tightest, tier), gpus, now_s, waited_s)
        continued = before is not None and had is not None and had[2] == placement
        return self._held(job, kind, placement, devices, continued=continued)

    def _better(self, job: int, free: Ints, widest: int) -> Placement | None:
        """Return free GPUs of its type better for a job than those it holds, within a tier."""
        return self._on_types.better(job, free, widest, self.held[job])

    def _held(
        self,
        job: int,
        kind: int,
        placement: Placement,
        devices: Sequence[int] | None = None,
        *,
        continued: bool = False,
    ) -> Lease:
        """Give a job GPUs of a type and note it and their tier."""
        self.racks[kind].hold(job, placement, devices)
        self.jobs.kind[job], self.jobs.tier[job] = kind, tier_of(placement)
        return Lease(job, placement, int(self.jobs.tier[job]), continued, kind)


def _behind_each_other(rooms: Sequence[Room]) -> Sequence[int]:
    """Return the room at every option, in the order of the types."""
    return rooms[0] if len(rooms) == 1 else tuple(gpus for room in rooms for gpus in room)
