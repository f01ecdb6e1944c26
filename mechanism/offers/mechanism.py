"""The lease-based mechanism: free GPUs are offered to waiting jobs, who accept or reject."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.annotations import explained
from apportion.cluster import TIERS
from apportion.errors import InputError, written
from apportion.mechanism.offers.holdings import Holdings, machines_of
from apportion.mechanism.offers.keeping import Keeping
from apportion.mechanism.offers.leased_jobs import LeasedJobs
from apportion.mechanism.offers.offering import Offering
from apportion.mechanism.offers.on_types import OnTypes
from apportion.mechanism.offers.timer_book import TimerBook
from apportion.mechanism.offers.waiting import ClusterSize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.offers.candidates import Takers
    from apportion.mechanism.offers.offering import Lease
    from apportion.mechanism.offers.scheduler import OfferScheduler
    from apportion.mechanism.offers.serving import InTurn
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import Placement
    from apportion.mechanisms.past import Past

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


class LeaseMechanism:
    """Jobs, GPUs and delay timers of a running scheduler, without a clock of its own.

    Whoever runs jobs tells it what happens (`arrive`, `ran`, `release`, `complete`) and then calls
    `offer`, which tells who gets which GPUs. It ends when no waiting job accepts anything that is
    free, so nothing changes before the next such call or `next_change_s`.

    Of the accelerator types at whose free tiers it accepts GPUs a job gets that on which it is
    fastest, and there, at the tiers that it accepts, the fastest placement that is known. If it
    gave GPUs back in the same instant it gets these, as long as they are free and no others are
    faster or in a tighter tier: a gang spread in a crowd comes together at the end of a lease.

    Parameters
    ----------
    scheduler
        Order, rule, timers and lease.
    cluster
        Whole racks, each of one accelerator type.
    told
        The job table, kept by whoever runs the jobs, who lets them in by `admit`.
    placer
        The GPUs and their placement.
    candidates
        Decides who takes what; by default what the scheduler says.

    Raises
    ------
    InputError
        If machines or racks are not whole, or there are none of a type.
    """

    @explained
    def __init__(
        self,
        scheduler: OfferScheduler,
        cluster: Cluster,
        told: JobTable,
        placer: Placer,
        candidates: Takers | InTurn | None = None,
    ) -> None:
        gpus = machines_of(cluster)
        self.size = ClusterSize.of(gpus, cluster.largest_machine, cluster.gpus_per_rack)
        on_cluster = getattr(scheduler.timers, "on_cluster", None)
        if on_cluster is not None:  # timers that hang on how many GPUs there are
            scheduler = replace(scheduler, timers=on_cluster(self.size.gpus))
        self.scheduler = scheduler
        self.jobs = LeasedJobs(told, len(gpus))
        self.timers = TimerBook(
            *(scheduler.timers, scheduler.lease_s),
            gpus_per_machine=cluster.largest_machine,
            gpus_per_rack=self.size.gpus_per_rack,
            gpus=self.size.gpus,
        )
        self.placer, self.holdings = placer, Holdings(placer)
        self.held: Mapping[int, Placement] = self.holdings.held
        self._takers = takers = candidates or scheduler.candidates()
        self._on_types = OnTypes(self.placer.placings, self.jobs)
        self._offering = Offering(
            takers, self.jobs, self.holdings, self.timers, self.size, self._on_types
        )
        # Where a job that may migrate stayed: its GPUs, and what was free then; None if these are
        # its best ones, whatever is free.
        self._stayed: dict[int, tuple[Placement, bytes | None]] = {}
        self._keeping = Keeping(
            *(self.jobs, self.holdings, self.timers, self.size, self._offering),
            whatever_the_rule=scheduler.keep_placement,
        )

    def admit(self, job: int, now_s: float, job_type: str) -> None:
        """Let in a job that has arrived in the job table; it waits.

        Parameters
        ----------
        job
            Its number in the table.
        now_s
            The time, seconds.
        job_type
            The model that it trains, as the scheduler's rule knows it.

        Raises
        ------
        InputError
            If the cluster has fewer GPUs of any type on which it runs, or the rule does not know
            the job type.
        """
        gpus, most = int(self.jobs.told.scale[job]), self.size.gpus
        who = f"Job {job} ({written(job_type)}) has scale factor {gpus}"
        if not 1 <= gpus <= most:
            raise InputError(f"{who}; it must be from 1 to the {most} GPUs of the cluster.")
        self.scheduler.rule.check(job_type)
        slowdown = self._on_types.slowdowns(job)
        if np.isinf(slowdown).all():
            raise InputError(f"{who}; no type on which it runs has so many GPUs.")
        self._offering.happened()
        self.jobs.enter(job, now_s, job_type, slowdown)

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
        self.jobs.book(jobs, self.jobs.cells(jobs), compute_s, run_s)

    def release(self, job: int, now_s: float) -> None:
        """End a lease: the job gives its GPUs back and waits, from now on."""
        self._offering.end(job, now_s)

    def complete(self, job: int) -> None:
        """Let a job go that holds GPUs and is done."""
        self._offering.happened()
        self.holdings.give_back(job)
        self.jobs.tier[job] = -1

    def offer(self, now_s: float, ending: Sequence[int] = ()) -> list[Lease]:
        """Offer what is free to the waiting jobs, until none accepts; return the new leases.

        Jobs whose leases end now give their GPUs back before, see `release`.

        After each acceptance the offers start again with the first job, as it may have changed
        the delay timers. A job to whom the placement gives nothing on any type, or nothing within
        the tiers that it accepts, waits.
        """
        leases = self._offering.offer(now_s, ending)
        if not self.scheduler.migrates:  # else `migrate` follows, and maybe more offers
            self.holdings.forget()
        return leases

    def next_change_s(self, now_s: float) -> float:
        """Return when a waiting job will accept what is free and rejected now, seconds."""
        return self._offering.next_change_s(now_s)

    def keeps(self, job: int, now_s: float) -> bool:
        """Whether a job whose lease ends now would get the GPUs that it has; see `Keeping`."""
        return self._keeping.keeps(job, now_s)

    def surely_keeps(self, job: int, now_s: float) -> bool:
        """Whether it would at every end of a lease from now on; see `Keeping`.

        Only a gang on its best placement is sure of that: others may find a better one among the
        GPUs of all whose leases end in the same instant.
        """
        at_best = self._on_types.is_at_best(job, self.held[job])
        return at_best and self._keeping.surely_keeps(job, now_s)

    def renewed(self, job: int, now_s: float) -> None:
        """Write down for the delay timers that a job has got again, at once, what it had."""
        self._offering.note(job, self.jobs.tier.item(job), now_s, 0.0)

    def migrate(self, jobs: Iterable[int]) -> list[Lease]:
        """Move running jobs to faster placements that are free, their own GPUs included.

        Where none moves, the instant is over: what was given back in it is as any other.

        Parameters
        ----------
        jobs
            Numbers of the jobs that may move.

        Returns
        -------
        list of Lease
            The jobs that have moved, on the GPUs that they have now.
        """
        moved = self._moved(jobs) if any(pool.room.network for pool in self.holdings.pools) else []
        if not moved:
            self.holdings.forget()
        return moved

    def _moved(self, jobs: Iterable[int]) -> list[Lease]:
        """Move some jobs, see `migrate`; return who has."""
        moved: list[Lease] = []
        # On several types speeds that are learnt change it.
        remembers = len(self.holdings.pools) == 1
        for job in jobs:
            held = self.held[job]
            before = self._stayed.get(job)
            if before is not None and before[0] is held and before[1] is None:
                continue
            if self._on_types.is_at_best(job, held):
                if remembers:
                    self._stayed[job] = held, None
                continue
            free = self.holdings.free_with([job])
            now = held, free[0].tobytes()
            if before == now:
                continue
            if better := self._on_types.better_anywhere(job, free, held):
                self.holdings.give_back(job)
                moved.append(self._offering.give(job, *better))
            elif remembers:
                self._stayed[job] = now
        return moved

    def take_over(self, past: Past) -> None:
        """Begin in the middle, with jobs that are let in: who has GPUs, and how far all are."""
        told, jobs = self.jobs.told, self.jobs
        jobs.run_s[:, :: len(TIERS)] = told.held_s  # at which tier is no matter to anybody
        jobs.compute_s[:] = (told.total - told.remaining) / told.speed.max(axis=1)
        for job, (kind, devices) in past.held.items():
            placement = self.placer.pools[kind].placement(devices)
            self._offering.give(job, kind, placement, devices)
            jobs.wait(job, waits=False)
            self.placer.remember(job, told.job_type[job])
        if hasattr(self._takers, "take_over"):
            self._takers.take_over(past)
