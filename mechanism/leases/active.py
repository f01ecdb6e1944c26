"""The one book of who holds which GPUs under leases, until when, and what is free."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.placements import Gang
from apportion.mechanism.scheduler import NETWORK, NOBODY, Decision, DutyCycle, Gangs, tier_of
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apportion.mechanism.devices import Held
    from apportion.mechanism.leases.jobs import LeasedJobs
    from apportion.mechanism.leases.queue import Candidate
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import Placement
    from apportion.types import Floats, Ints


class ActiveLeases:
    """Jobs that hold GPUs, when each works, and when its GPUs come back.

    A job that has the same GPUs as at the last decision, or as many of the same machines, goes on,
    whatever happened in between. Lines of decisions are in the order in which jobs got their GPUs.

    Parameters
    ----------
    placer
        GPUs in whole racks, and their placement.
    jobs
        What leases know of jobs.
    pause_s
        Seconds from the end of its lease until the GPUs of each job are free.

    Attributes
    ----------
    held
        Type and devices of each job that has some.
    duty
        From when on, for how long, and with how much rest after that each job works, shape
        (3, jobs).
    """

    def __init__(self, placer: Placer, jobs: LeasedJobs, pause_s: Sequence[float]) -> None:
        self.placer, self.pools, self.jobs, self.pause_s = placer, placer.pools, jobs, pause_s
        self.held, self._place = placer.held, placer.devices.layout.placement
        self.duty: Floats = np.full((3, jobs.table.jobs), inf)
        self._back: dict[int, tuple[float, bool]] = {}  # when GPUs come back, and whether last
        self._heap: list[tuple[float, bool, int]] = []
        self._given_back: dict[int, Held] = {}  # in this instant
        self._touched: dict[int, None] = {}  # since the last decision, the last one last
        self._before: dict[int, Held] = {}  # at the last decision, but for who is done
        self._gangs: Gangs | None = None  # of that decision, unless somebody is done
        self._at_best: dict[int, bool] = {}

    @property
    def room(self) -> Sequence[int]:
        """Most GPUs that one gang can have free at each option ``type * 3 + tier``."""
        pools = self.pools
        return pools[0].room if len(pools) == 1 else [n for pool in pools for n in pool.room]

    @property
    def next_s(self) -> float:
        """When the next GPUs come back, seconds; infinite for never."""
        heap = self._heap
        while heap and self._back.get(heap[0][2]) != heap[0][:2]:
            heappop(heap)
        return heap[0][0] if heap else inf

    def due(self, now_s: float, *, last: bool) -> list[int]:
        """Return the jobs whose GPUs come back now, and forget when they do.

        Of one instant, GPUs come back first after a checkpoint. Those without one come back after
        everything else, if it is time for the `last`.
        """
        jobs = list[int]()
        while self.next_s == now_s and (last or not self._heap[0][1]):
            last &= self._heap[0][1]
            jobs.append(heappop(self._heap)[2])
            del self._back[jobs[-1]]
        return jobs

    def place(self, job: int) -> Placement:
        """Return in which racks and machines the GPUs of a job are."""
        return self._place(self.held[job])

    def before(self, job: int) -> tuple[int, Placement] | None:
        """Return type and place of what a job has given back in this instant, if anything."""
        held = self._given_back.get(job)
        return None if held is None else (held[0], self._place(held))

    def take(self, candidate: Candidate) -> bool | None:
        """Give a candidate its GPUs; return whether it had them until now, or None for none.

        It has again what it gave back in this instant, as far as that is free and no other GPUs are
        faster for it or in a tighter tier.
        """
        job, kind, tightest, widest, where = candidate
        if where is not None:
            return self.move(job, kind, where)
        own = self._given_back.get(job)
        before = own[1] if own is not None and own[0] == kind else None
        gang = Gang(
            *(job, self.jobs.gpus[job], kind, self.jobs.gang_class[job].model),
            tiers=(tightest, widest),
            before=before,
        )
        if self.placer.give(gang, first=True, accepted=True) is None:
            return None
        self._note(job)
        return before is not None and self._place((kind, before)) == self.place(job)

    def move(self, job: int, kind: int, where: Placement) -> bool:
        """Give a job GPUs in a place, in place of any that it has.

        Returns
        -------
        bool
            Whether it gave back just these in this instant.
        """
        if job in self.held:
            self.placer.devices.give_back(job)
        again = self.before(job) == (kind, where)
        own = self._given_back[job][1] if again else ()
        devices = own if again and self.pools[kind].are_free(own) else None
        self.hold(job, kind, self.pools[kind].lowest(where) if devices is None else devices)
        return again

    def hold(self, job: int, kind: int, devices: Sequence[int]) -> None:
        """Give a job some devices."""
        self.placer.devices.hold(job, kind, devices)
        self._note(job)

    def _note(self, job: int) -> None:
        """Take down that a job has got GPUs."""
        self.jobs.option[job] = 3 * self.held[job][0] + tier_of(self.place(job))
        self._touch(job)

    def compare(self, jobs: Iterable[int]) -> dict[int, bool]:
        """Let a placement that compares whole placements choose for all jobs that have just come.

        Returns
        -------
        dict
            Whether each has just what it gave back in this instant.
        """
        gangs = []
        for job in jobs:
            kind, tier = divmod(self.jobs.option.item(job), 3)
            model = self.jobs.gang_class[job].model
            gangs.append(Gang(job, self.jobs.gpus[job], kind, model, (tier, tier)))
        self.placer.compare(gangs)
        for gang in gangs:
            self._note(gang.job)
        return {
            gang.job: self.before(gang.job) == (gang.kind, self.place(gang.job)) for gang in gangs
        }

    def work(self, job: int, ready_s: float, end_s: float) -> None:
        """Let a job work from one time to the end of its lease."""
        work_s = end_s - ready_s if self.pause_s[job] else inf
        self.duty[:, job] = ready_s, work_s, inf
        self.end(job, end_s)

    def end(self, job: int, end_s: float) -> None:
        """Let the lease of a job end at a time, and its GPUs come back after a checkpoint."""
        pause_s = self.pause_s[job]
        self._back[job] = end_s + pause_s, not pause_s
        heappush(self._heap, (*self._back[job], job))

    def end_s(self, job: int) -> float:
        """Return when the lease of a job ends, or has ended."""
        return self._back[job][0] - self.pause_s[job]

    def take_over(self, job: int, held: Held, end_s: float) -> None:
        """Let a job have had GPUs all the time, until the end of its lease."""
        self.hold(job, *held)
        self._touched.clear()
        self._before[job] = self.held[job]
        self._back[job] = end_s, False
        heappush(self._heap, (end_s, False, job))

    def give_back(self, job: int) -> None:
        """End the lease of a job, who may have its GPUs again in the same instant."""
        self._given_back[job] = self.placer.devices.give_back(job)
        self._touch(job)

    def complete(self, job: int) -> None:
        """Take the GPUs of a job that is done."""
        self.placer.devices.give_back(job)
        for book in (self._back, self._before, self._touched):
            book.pop(job, None)
        self._gangs = None

    def forget(self) -> None:
        """Let the instant be over: what was given back in it is as any other."""
        self._given_back.clear()

    def is_at_best(self, job: int) -> bool:
        """Whether no GPUs would be better for a job than its own, were all free."""
        known = self._at_best.get(job)
        if known is None:
            worth = self._worth(job, self.held[job][0], self.place(job))
            known = self._at_best[job] = worth <= self.jobs.gang_class[job].best
        return known

    def better(self, job: int) -> tuple[int, Placement] | None:
        """Return type and place of free GPUs on which a job is faster than on its own; or None."""
        alike, (own, _), where = self.jobs.gang_class[job], self.held[job], self.place(job)
        gang, best = (alike.model, alike.gpus, NETWORK), None
        least = self._worth(job, own, where)
        for kind in sorted(range(len(self.pools)), key=own.__ne__):
            pool, placing = self.pools[kind], self.placer.placings[kind]
            if alike.step_times[kind] == inf:
                continue
            if kind == own:
                found = placing.better(pool.free_with(where), *gang, where)
            else:
                found = placing.fastest(pool.free, *gang)
            if found and (worth := self._worth(job, kind, found)) < least:
                best, least = (kind, found), worth
        return best

    def _worth(self, job: int, kind: int, where: Placement) -> tuple[float, int]:
        """Time of a step of a job in a place, and its tier: less is better."""
        alike = self.jobs.gang_class[job]
        slowdown, tier = self.placer.placings[kind].worth(alike.model, where)
        return significant(alike.step_times[kind] * slowdown), tier

    def _touch(self, job: int) -> None:
        self._at_best.pop(job, None)
        self._touched.pop(job, None)
        self._touched[job] = None

    def decision(self, *, offered: bool) -> Decision:
        """Return who has GPUs from now on, who starts or stops, and who moves in its machines."""
        held, before = self.held, self._before
        changed = [job for job in self._touched if before.get(job) != held.get(job)]
        self._touched.clear()
        had = {job: before.pop(job) for job in changed if job in before}
        new = [job for job in changed if job in held]
        before |= {job: held[job] for job in new}
        inside = {job for job in new if job in had and self._same_machines(had[job], held[job])}
        if changed or self._gangs is None:
            job = np.fromiter(before, dtype=np.intp, count=len(before))
            kind = np.array([kind for kind, _ in before.values()], dtype=np.intp)
            scale: Ints = self.jobs.table.scale[job]
            self._gangs = Gangs(job, job, kind, scale, devices=[*before.values()])
        starts, moved = np.zeros((2, len(before)), dtype=bool)
        if new:
            starts[-len(new) :] = [job not in inside for job in new]
            moved[-len(new) :] = [job in inside for job in new]
        return Decision(
            self._gangs,
            starts,
            np.array(sorted(had.keys() - inside), dtype=np.intp) if had else NOBODY,
            duty_cycle=DutyCycle(*self.duty.take(self._gangs.job, axis=1)),
            resolved=offered,
            moved=moved if inside else None,
        )

    def _same_machines(self, one: Held, other: Held) -> bool:
        return one[0] == other[0] and self._place(one) == self._place(other)
