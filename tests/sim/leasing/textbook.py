"""Leases by a simulator that is written as the papers tell it: loops and dictionaries, no arrays.

Every lease is an event of its own, nothing is skipped, and offers begin anew after each acceptance.
Gangs have one GPU, or more than a machine has, so that there is one way only to pack them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean, stdev

from tests.sim.leasing.packing import MACHINE, NETWORK, RACK, Place, spot

TICK_S = 2.0**-20
SKEWED = ("VGG11", "AlexNet", "MobileNetV3")
QUEUES = (3250.0, 7200.0, 18000.0)


@dataclass
class Terms:
    """What is laid down: racks x machines x GPUs, the order, the rule, timers and times."""

    shape: tuple[int, int, int]
    order: str
    rule: str
    overheads: tuple[float, float, float]
    lease_s: float
    checkpoint_s: dict[str, float]  # by model, for each GPU
    restore_s: float
    overhead_s: dict[str, float]  # by model, at every start
    timers_s: tuple[float, float] = (0.0, 0.0)
    history_s: float | None = None
    moves: bool = False
    waits: dict[tuple[int, int], list[tuple[float, float]]] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        return math.prod(self.shape)

    def timers_of(self, gpus: int) -> tuple[float, float]:
        """Dally's Algorithm 2: the mean of the waits and two standard deviations."""
        times = []
        for tier, initial_s in zip((MACHINE, RACK), self.timers_s, strict=True):
            waits = [wait_s for _, wait_s in self.waits.get((tier, gpus), [])]
            typical = fmean(waits) + 2 * (stdev(waits) if len(waits) > 1 else 0.0) if waits else 0.0
            times.append(typical if waits else initial_s)
        machine_s, rack_s = times
        if gpus > self.shape[2]:
            machine_s = 0.0
        else:
            rack_s = max(machine_s, rack_s)
        return machine_s, 0.0 if gpus > self.shape[1] * self.shape[2] else rack_s

    def note(self, tier: int, gpus: int, now: float, waited_s: float) -> None:
        if self.history_s is None or tier == NETWORK:
            return
        kept = [(at, wait) for at, wait in self.waits.get((tier, gpus), [])]
        kept.append((now, waited_s))
        self.waits[tier, gpus] = [each for each in kept if each[0] >= now - self.history_s]


@dataclass
class Job:
    """A job, and what has become of it."""

    number: int
    gpus: int
    model: str
    arrival_s: float
    ideal_s: float
    computed_s: float = 0.0
    until_lease_s: float = 0.0  # computed when the present lease began
    run_s: float = 0.0
    released_s: float = 0.0
    place: Place | None = None
    tier: int = -1
    ready_s: float = math.inf
    end_s: float = math.inf
    back_s: float = math.inf  # when the GPUs come back after the lease
    start_s: float = math.nan
    completion_s: float = math.nan
    preemptions: int = 0
    tier_s: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def slow(self, terms: Terms, tier: int) -> float:
        """Time of a step over its compute time; one GPU has nobody to talk to."""
        return 1 + terms.overheads[tier] * (self.gpus > 1)

    def done_s(self, terms: Terms) -> float:
        """When the job is done if its lease lasts so long."""
        slow = self.slow(terms, self.tier)
        done = round((self.ready_s + (self.ideal_s - self.until_lease_s) * slow) / TICK_S) * TICK_S
        return done if done <= self.end_s else math.inf

    def work(self, terms: Terms, since: float, now: float) -> None:
        passed = max(0.0, min(now, self.end_s) - max(since, self.ready_s))
        self.run_s += passed
        self.computed_s += passed / self.slow(terms, self.tier)
        self.tier_s[self.tier] += now - since


def patience_s(job: Job, terms: Terms) -> tuple[float, ...]:
    """Waits after which a machine, a rack and several racks are accepted."""
    tightest = MACHINE if job.gpus <= terms.shape[2] else RACK
    if job.gpus > terms.shape[1] * terms.shape[2]:
        tightest = NETWORK
    consolidated = tuple(0.0 if tier <= tightest else math.inf for tier in range(3))
    if terms.rule == "delay":
        return (0.0, *terms.timers_of(job.gpus))
    if terms.rule == "skew" and job.model not in SKEWED:
        return (0.0, 0.0, 0.0)
    if terms.rule in ("consolidated", "skew"):
        return consolidated
    if terms.rule == "agnostic":
        return (0.0, math.inf, math.inf if tightest == MACHINE else 0.0)
    return (0.0, 0.0, 0.0)


def key(job: Job, active: int, now: float, terms: Terms) -> float:
    """Whose turn it is: the lowest first."""
    service = job.run_s * job.gpus
    if terms.order == "slowed":
        return job.computed_s / job.run_s if job.run_s else 0.0
    if terms.order == "service":
        return service
    if terms.order == "queues":
        return sum(service >= limit * (1 - 1e-9) for limit in QUEUES) * 1e9 + job.arrival_s
    if terms.order == "unfair":
        tightest = next(
            tier
            for tier in range(3)
            if job.gpus <= (terms.shape[2], terms.shape[1] * terms.shape[2], terms.gpus)[tier]
        )
        slow = job.slow(terms, tightest)
        isolated = job.ideal_s * slow / min(1.0, terms.gpus / active / job.gpus)
        return -(now - job.arrival_s + (job.ideal_s - job.computed_s) * slow) / isolated
    return job.arrival_s if terms.order == "arrival" else 0.0


class Textbook:
    """Runs jobs under leases until all are done."""

    def __init__(self, terms: Terms, jobs: list[Job]) -> None:
        self.terms, self.jobs, self.now = terms, jobs, 0.0
        racks, machines, gpus = terms.shape
        self.free: Place = {(r, m): gpus for r in range(racks) for m in range(machines)}
        self.coming, self.waiting, self.holding = list(jobs), list[Job](), list[Job]()

    def run(self) -> None:
        terms = self.terms
        while self.coming or self.waiting or self.holding:
            times = [job.arrival_s for job in self.coming]
            times += [min(job.done_s(terms), job.back_s) for job in self.holding]
            times += [job.end_s for job in self.holding if math.isinf(job.back_s)]
            patience = [
                at
                for job in self.waiting
                for at in (job.released_s + wait for wait in patience_s(job, terms))
                if at > self.now
            ]
            since, self.now = self.now, min(times + patience)
            done = [job for job in self.holding if job.done_s(terms) == self.now]
            back = {job.number: job for job in self.holding if job.back_s == self.now}
            at_once = {number for number, job in back.items() if job.end_s == job.back_s}
            comes = any(job.arrival_s <= self.now for job in self.coming) or self.now in patience
            if done or comes or len(at_once) < len(back):  # without a checkpoint it comes last
                back = {number: job for number, job in back.items() if number not in at_once}
            for job in self.holding:
                job.work(terms, since, self.now)
            for job in done:
                back.pop(job.number, None)
                job.completion_s = self.now
                self.give_back(job)
            while self.coming and self.coming[0].arrival_s <= self.now:
                new = self.coming.pop(0)
                new.released_s = self.now
                self.waiting.append(new)
            before = {number: (job.tier, self.give_back(job)) for number, job in back.items()}
            for job in back.values():
                job.released_s = self.now
                job.preemptions += 1
                self.waiting.append(job)
            fresh = self.offer(before)
            while terms.moves and self.move(fresh):
                fresh |= self.offer({})
            for job in sorted(self.holding, key=lambda job: job.number):
                if job.end_s == self.now and math.isinf(job.back_s):
                    self.expire(job)

    def expire(self, job: Job) -> None:
        """End a lease that may be renewed: is the job the first to want what it has?"""
        assert job.place is not None
        tier, place, released_s = job.tier, job.place, job.released_s
        self.give_back(job)
        job.released_s = self.now
        self.waiting.append(job)
        first = self.first(held={job.number: tier})
        found = spot(self.free, job.gpus, max(self.accepted(job), default=tier))
        kept = first is job and (found is None or found[0] >= tier)
        self.waiting.remove(job)
        self.hold(job, tier, place)
        if kept:
            job.until_lease_s, job.ready_s = job.computed_s, self.now
            job.end_s = self.now + self.terms.lease_s
        else:
            job.released_s = released_s
            job.back_s = self.now + job.gpus * self.terms.checkpoint_s[job.model]

    def move(self, fresh: set[int]) -> bool:
        """Move jobs that run to tighter tiers; who came in this instant loses nothing."""
        moved = False
        for job in sorted(self.holding, key=lambda job: job.number):
            if job.end_s <= self.now or not any(self.free.values()):
                continue
            tier, place = job.tier, self.give_back(job)
            found = spot(self.free, job.gpus, NETWORK)
            assert found is not None
            if found[0] >= tier:
                self.hold(job, tier, place)
                continue
            self.hold(job, *found)
            moved, job.until_lease_s = True, job.computed_s
            job.ready_s = max(job.ready_s, self.now)
            if job.number not in fresh:
                job.preemptions += 1
                again_s = job.gpus * self.terms.restore_s + self.terms.overhead_s[job.model]
                job.ready_s = min(self.now + again_s, job.end_s)
            fresh.add(job.number)
        return moved

    def hold(self, job: Job, tier: int, place: Place) -> None:
        job.tier, job.place = tier, place
        for at, gpus in place.items():
            self.free[at] -= gpus
        self.holding.append(job)

    def give_back(self, job: Job) -> Place:
        self.holding.remove(job)
        assert job.place is not None
        place, job.place = job.place, None
        for at, gpus in place.items():
            self.free[at] += gpus
        return place

    def accepted(self, job: Job) -> list[int]:
        """Tiers that a waiting job accepts now and that have room for it."""
        racks = {r: sum(n for (at, _), n in self.free.items() if at == r) for r, _ in self.free}
        room = max(self.free.values()), max(racks.values()), sum(racks.values())
        return [
            tier
            for tier, wait_s in enumerate(patience_s(job, self.terms))
            if job.released_s + wait_s <= self.now and job.gpus <= room[tier]
        ]

    def first(self, held: dict[int, int] | None = None) -> Job | None:
        """The first in order who accepts anything; what a job holds it accepts in any case."""
        active = len(self.waiting) + len(self.holding)
        takers = [job for job in self.waiting if self.accepted(job) or job.number in (held or {})]

        def rank(job: Job) -> tuple[float, ...]:
            turn = float(f"{key(job, active, self.now, self.terms):.8g}")
            return turn, job.released_s, job.arrival_s, job.number

        return min(takers, key=rank, default=None)

    def offer(self, before: dict[int, tuple[int, Place]]) -> set[int]:
        """Offer what is free, in order, from the start again after each acceptance.

        Return who has come anew to GPUs.
        """
        fresh = set()
        while job := self.first():
            if not self.lease(job, self.accepted(job), before.get(job.number)):
                fresh.add(job.number)
        return fresh

    def lease(self, job: Job, tiers: list[int], before: tuple[int, Place] | None) -> bool:
        """Give a job GPUs for a lease; tell whether it goes on with those that it had."""
        found = spot(self.free, job.gpus, tiers[-1])
        assert found is not None
        lost_s = self.terms.overhead_s[job.model]
        lost_s += 0.0 if math.isnan(job.start_s) else job.gpus * self.terms.restore_s
        kept = before is not None and all(self.free[at] >= n for at, n in before[1].items())
        kept = kept and before is not None and before[0] <= min(found[0], tiers[-1])
        if kept and before is not None:
            found, lost_s = before, 0.0
            job.preemptions -= 1
        waited_s = self.now - job.released_s
        self.terms.note(max(tiers[0], found[0]), job.gpus, self.now, waited_s)
        self.waiting.remove(job)
        self.hold(job, *found)
        job.start_s = self.now if math.isnan(job.start_s) else job.start_s
        job.until_lease_s = job.computed_s
        job.ready_s, job.end_s = self.now + lost_s, self.now + self.terms.lease_s
        pause_s = job.gpus * self.terms.checkpoint_s[job.model]
        job.back_s = job.end_s + pause_s
        return kept
