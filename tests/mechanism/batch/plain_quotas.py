"""Quotas, borrowing, eviction and fair sharing in plain Python, event by event, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

import apportion as ap

SPEEDS = {"fast": 2.0, "slow": 1.0}
Quotas = dict[str, dict[str, int]]


@dataclass
class Job:
    """A job of a plain schedule; steps are seconds on a type of speed 1."""

    number: int
    arrival: float
    gpus: int
    left: float
    queue: str
    priority: int = 0
    kind: str = ""
    admitted: float = -1.0
    end: float = -1.0
    evicted: int = 0

    @property
    def turn(self) -> tuple[int, int]:
        return -self.priority, self.number


@dataclass
class Rules:
    """What is told of the queues."""

    quotas: Quotas
    borrowing: Quotas
    lending: Quotas
    cohorts: dict[str, str] | None
    strict: dict[str, bool]
    within: str = "Never"
    reclaim: str = "Never"
    next_flavor: bool = False
    borrow: str = "Never"
    threshold: float | None = None
    fair: tuple[str, ...] = ()
    weights: dict[str, float] = field(default_factory=dict)

    def together(self, one: str, other: str) -> bool:
        if self.cohorts is None or one == other:
            return True
        return one in self.cohorts and self.cohorts[one] == self.cohorts.get(other)

    def holds(self, jobs: list[Job], kind: str, queue: str) -> bool:
        """Tell whether who runs on a type keeps the limits of a queue, and those of its cohort."""
        used = {each: used_by(jobs, each, kind) for each in self.quotas}
        if kind not in self.quotas[queue]:
            return used[queue] == 0
        if used[queue] > self.quotas[queue][kind] + self.borrowing.get(queue, {}).get(kind, 10**6):
            return False
        taken = every = 0
        for each, quota in self.quotas.items():
            if self.together(each, queue):
                nominal = quota.get(kind, 0)
                kept = max(nominal - self.lending.get(each, {}).get(kind, 10**6), 0)
                taken += max(used[each], kept)  # what is not lent is gone, used or not
                every += nominal
        return taken <= every

    def share(self, jobs: list[Job], queue: str) -> tuple[int, Fraction]:
        """GPUs above quotas over what the cohort lends, over the weight; behind all if it is 0."""
        above = lent = 0
        for kind in SPEEDS:
            above += max(used_by(jobs, queue, kind) - self.quotas[queue].get(kind, 0), 0)
            for each, quota in self.quotas.items():
                if self.together(each, queue):
                    most = self.lending.get(each, {}).get(kind, 10**6)
                    lent += min(quota.get(kind, 0), most)
        ratio = Fraction(above, lent) if lent else Fraction(0)
        weight = Fraction(self.weights.get(queue, 1.0))
        return (0, ratio / weight) if weight else (int(ratio > 0), ratio)

    def scheduler(self) -> Any:
        return ap.get_scheduler(
            "kueue",
            quotas=self.quotas,
            borrowing_limits=self.borrowing,
            lending_limits=self.lending,
            cohorts=self.cohorts,
            strategy={name: "StrictFIFO" for name, strict in self.strict.items() if strict},
            borrow_within_cohort=self.borrow,
            max_priority_threshold=self.threshold,
            fair_sharing=self.fair,
            fair_weights=self.weights,
            within_cluster_queue=self.within,
            reclaim_within_cohort=self.reclaim,
            when_can_borrow="TryNextFlavor" if self.next_flavor else "Borrow",
        )


def used_by(jobs: list[Job], queue: str, kind: str) -> int:
    return sum(job.gpus for job in jobs if job.queue == queue and job.kind == kind)


class Play:
    """A run, event by event; states of the limits are looked at after each."""

    def __init__(self, jobs: list[Job], rules: Rules) -> None:
        self.jobs, self.rules, self.now = jobs, rules, 0.0

    def played(self) -> list[tuple[float, int]]:
        while any(job.end < 0 for job in self.jobs):
            ends = [self.now + j.left / SPEEDS[j.kind] for j in self.jobs if j.kind]
            comes = [j.arrival for j in self.jobs if j.arrival > self.now]
            # At the start nobody has come before.
            later = [*ends, *comes] if self.now or any(j.kind for j in self.jobs) else comes
            then = min(later)
            for job in self.jobs:
                if job.kind:
                    job.left -= (then - self.now) * SPEEDS[job.kind]
                    if job.left == 0:
                        job.kind, job.end = "", then
            self.now = then
            self.decide()
        return [(job.end, job.evicted) for job in self.jobs]

    def decide(self) -> None:
        old = {job.number: (job.kind, job.admitted) for job in self.jobs if job.kind}
        tried: set[int] = set()
        lost: set[int] = set()
        while True:
            entries = []
            heads = self.heads(tried)
            for job in heads:
                way = self.way(job, may_evict=job.number not in lost)
                if way is None:
                    tried.add(job.number)
                else:
                    kind, victims = way
                    above = used_by(self.jobs, job.queue, kind) + job.gpus
                    entries.append((above > self.rules.quotas[job.queue][kind], job, kind, victims))
            if not heads:
                break
            while entries:
                entry = min(entries, key=self.turn)
                entries.remove(entry)
                _, job, kind, victims = entry
                if all(each.kind == kind for each in victims):
                    stay = [each for each in self.jobs if each not in victims]
                    job.kind = kind
                    if not self.rules.holds(stay, kind, job.queue):
                        job.kind = ""
                        continue
                    job.admitted = self.now
                    for each in victims:
                        each.kind = ""
                        lost.add(each.number)
                    if victims:
                        tried.clear()
        for number, (kind, admitted) in old.items():
            if self.jobs[number].kind == kind:
                self.jobs[number].admitted = admitted
            else:
                self.jobs[number].evicted += 1

    def turn(self, entry: tuple[bool, Job, str, list[Job]]) -> tuple[Any, ...]:
        borrows, job, kind, _ = entry
        if not self.rules.fair:
            return borrows, job.turn
        job.kind = kind
        found = (
            self.above(self.jobs, job.queue, kind),
            self.rules.share(self.jobs, job.queue),
            job.turn,
        )
        job.kind = ""
        return found

    def heads(self, tried: set[int]) -> list[Job]:
        found = []
        for queue in self.rules.quotas:
            waits = [
                j for j in self.jobs if j.queue == queue and not j.kind and j.end < 0 <= j.left
            ]
            waits = sorted((j for j in waits if j.arrival <= self.now), key=lambda j: j.turn)
            if self.rules.strict.get(queue) and any(job.number in tried for job in waits):
                continue
            found += [job for job in waits if job.number not in tried][:1]
        return found

    def way(self, job: Job, *, may_evict: bool) -> tuple[str, list[Job]] | None:
        fits = []
        for kind in SPEEDS:
            if self.would_hold(job, kind, self.jobs):
                used = used_by(self.jobs, job.queue, kind)
                fits.append((used + job.gpus > self.rules.quotas[job.queue][kind], kind))
        if fits:
            within = [kind for above, kind in fits if not above and self.rules.next_flavor]
            return [*within, fits[0][1]][0], []
        for kind in SPEEDS if may_evict else ():
            victims = self.victims(job, kind)
            if victims:
                return kind, victims
        return None

    def would_hold(self, job: Job, kind: str, stay: list[Job], *, borrows: bool = True) -> bool:
        job.kind = kind
        others = [each for each in stay if each is not job]
        fits = self.rules.holds([*others, job], kind, job.queue)
        fits &= borrows or not self.above([*others, job], job.queue, kind)
        job.kind = ""
        return fits

    def above(self, jobs: list[Job], queue: str, kind: str) -> bool:
        return used_by(jobs, queue, kind) > self.rules.quotas[queue].get(kind, 0)

    def victims(self, job: Job, kind: str) -> list[Job]:
        rules = self.rules
        nominal = rules.quotas[job.queue].get(kind, -1)
        own, others = [], []
        for each in self.jobs:
            less = each.priority < job.priority
            newer = each.priority == job.priority and each.number > job.number
            if each.kind != kind:
                continue
            if each.queue == job.queue:
                if (less and rules.within != "Never") or (
                    newer and rules.within == "LowerOrNewerEqualPriority"
                ):
                    own.append(each)
            elif (
                rules.together(each.queue, job.queue)
                and self.above(self.jobs, each.queue, kind)
                and (rules.reclaim == "Any" or (less and rules.reclaim == "LowerPriority"))
            ):
                others.append(each)
        for group in (own, others):
            group.sort(key=lambda j: (j.priority, -j.admitted, -j.number))
        if rules.fair:
            if job.gpus > nominal and rules.reclaim == "Never":
                return []
            return self.fairly(job, kind, own, others)
        if job.gpus > nominal and rules.borrow == "Never":
            return []
        used = used_by(self.jobs, job.queue, kind)
        if used + job.gpus <= nominal:
            return self.least(job, kind, [*others, *own], borrows=True)
        if rules.borrow == "LowerPriority":
            top = 10**6 if rules.threshold is None else rules.threshold
            low = [each for each in others if each.priority < job.priority and each.priority <= top]
            return self.least(job, kind, [*low, *own], borrows=True) or self.least(
                job, kind, [*others, *own], borrows=False
            )
        if others and used < nominal:
            found = self.least(job, kind, [*others, *own], borrows=False)
            if found:
                return found
        return self.least(job, kind, own, borrows=True)

    def fairly(self, job: Job, kind: str, own: list[Job], others: list[Job]) -> list[Job]:
        """Go by the pages on fair sharing, with every share worked out from the jobs that stay."""
        rules = self.rules
        gone: list[Job] = []

        def stay(*without: Job) -> list[Job]:
            return [each for each in self.jobs if each not in gone and each not in without]

        def next_queue(left: list[Job]) -> str:
            best, best_rank = "", None
            for queue in {each.queue for each in left}:
                first = next(each for each in left if each.queue == queue)
                borrows = any(self.above(stay(), queue, each) for each in SPEEDS)
                if borrows or queue == job.queue:
                    least_needed = (first.priority, -first.admitted, -first.number)
                    share = rules.share(stay(), queue)
                    rank = (-share[0], -share[1], queue == job.queue, least_needed)
                    if best_rank is None or rank < best_rank:
                        best, best_rank = queue, rank
            return best

        def enough() -> bool:
            job.kind = ""
            fits = self.would_hold(job, kind, stay())
            job.kind = kind
            return fits

        job.kind = kind
        freely = not self.above(self.jobs, job.queue, kind)
        fits, left, later = False, [*others, *own], list[Job]()
        while not fits and (queue := next_queue(left)):
            for each in [each for each in left if each.queue == queue]:
                left.remove(each)
                mine, theirs = rules.share(stay(), job.queue), rules.share(stay(), queue)
                final = mine <= rules.share(stay(each), queue)
                by_rule = final if rules.fair[0].endswith("FinalShare") else mine < theirs
                if queue == job.queue or freely or by_rule:
                    gone.append(each)
                    fits = enough()
                    break
                later.append(each)
        while not fits and len(rules.fair) == 2 and (queue := next_queue(later)):
            each = next(each for each in later if each.queue == queue)
            if rules.share(stay(), job.queue) < rules.share(stay(), queue):
                gone.append(each)
                fits = enough()
            later = [each for each in later if each.queue != queue]
        for back in gone[::-1] if fits else ():
            gone.remove(back)
            if not enough():
                gone.append(back)
        job.kind = ""
        return gone if fits else []

    def least(self, job: Job, kind: str, candidates: list[Job], *, borrows: bool) -> list[Job]:
        gone: list[Job] = []

        def fits(without: list[Job]) -> bool:
            stay = [each for each in self.jobs if each not in without]
            return self.would_hold(job, kind, stay, borrows=borrows)

        for each in candidates:
            stay = [one for one in self.jobs if one not in gone]
            if each.queue == job.queue or self.above(stay, each.queue, kind):
                gone.append(each)
                if fits(gone):
                    for back in gone[::-1]:
                        fewer = [one for one in gone if one is not back]
                        gone = fewer if fits(fewer) else gone
                    return gone
        return []


def drawn(seed: int) -> tuple[list[Job], Rules]:
    rng = np.random.default_rng(seed)
    names = ["ana", "ben", "carla"]
    quotas: Quotas = {q: {k: int(rng.integers(1, 5)) for k in SPEEDS} for q in names}
    if seed % 3 == 0:
        del quotas["carla"]["fast"]

    def limits() -> Quotas:
        told: Quotas = {}
        for queue in names:
            for kind in quotas[queue]:
                if rng.random() < 0.4:
                    told.setdefault(queue, {})[kind] = int(rng.integers(0, 4))
        return told

    rules = Rules(
        *(quotas, limits(), limits()),
        cohorts=[None, {"ana": "x", "ben": "x"}, {"ana": "x", "ben": "x", "carla": "x"}][seed % 3],
        strict={name: bool(rng.integers(2)) for name in names},
        within=str(rng.choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])),
        reclaim=str(rng.choice(["Never", "LowerPriority", "Any"])),
        next_flavor=bool(rng.integers(2)),
    )
    final, initial = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
    way = int(rng.integers(6))
    if way < 3:
        rules.fair = [(final,), (initial,), (final, initial)][way]
        rules.weights = {name: float(rng.choice([0.0, 0.5, 1.0, 2.0])) for name in names[:2]}
    elif way < 5 and rules.reclaim != "Never":
        rules.borrow = "LowerPriority"
        rules.threshold = [None, 0.0][way - 3]
    jobs = []
    for number, arrival in enumerate(np.sort(rng.choice(40, 12, replace=False)).tolist()):
        queue = str(rng.choice(names))
        most = max(quotas[queue].values())  # so that no job can never be admitted
        gpus = int(rng.integers(1, most + 1))
        steps = 2.0 * int(rng.integers(1, 20))
        jobs.append(Job(number, float(arrival) + 1, gpus, steps, queue, int(rng.integers(3))))
    return jobs, rules


def by_hand(
    *jobs: tuple[str, int, int, int, int], gpus: int, scheduler: str = "kueue", **options: Any
) -> list[float]:
    """Return when jobs end: (queue, GPUs, seconds, arrival, priority) each, on one type."""
    table = pd.DataFrame(jobs, columns=["entity", "scale_factor", "total_steps", "at", "priority"])
    table = table.assign(job_type="any", arrival_s=table["at"].astype(float)).drop(columns="at")
    rows = [("any", size) for size in sorted(set(table["scale_factor"]))]
    index = pd.MultiIndex.from_tuples(rows, names=["job_type", "scale_factor"])
    load = ap.Workload("by hand", table, pd.DataFrame({"v100": 1.0}, index=index))
    run = ap.simulate(ap.get_scheduler(scheduler, **options), load, {"v100": gpus})
    return [float(end) for end in run.jobs.loc[table.index, "completion_s"].round(6)]
