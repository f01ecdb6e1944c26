"""First come, first served, and who may pass: as a scheduler, and alone, for when jobs start."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from apportion.annotations import check_fields
from apportion.checks import whole
from apportion.errors import InputError
from apportion.mechanism.batch.serving import Line, serves_by
from apportion.mechanism.decider import Decider
from apportion.mechanism.job_table import EntityUse
from apportion.mechanism.queue import InQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from apportion.mechanism.batch.multifactor import MultifactorPriority
    from apportion.mechanism.decider import About
    from apportion.types import Floats, Ints


@dataclass(frozen=True)
class BatchScheduler(Decider):
    """Jobs come in an order, by default that of arrival, and keep their GPUs until they are done.

    A job starts on the fastest type on which its gang is free, unless `chooses` says otherwise. Who
    may pass the first job that has to wait, the head, is said by `backfill`; how long a job takes
    is what its user says (``time_limit_s``), or, without that, what it takes, its start included.
    Who has outlived its limit is expected to end a second later.

    Parameters
    ----------
    name, source
        In the registry.
    backfill
        ``"none"``: nobody passes. ``"easy"``: whoever does not delay the head, which starts when
        enough GPUs of one of its types have become free (the shadow time): jobs on other types,
        jobs that end by then, and jobs on GPUs that the head will not need (Lifka, 1995).
        ``"conservative"``: whoever delays nobody in front of it, as every job in the queue has a
        reservation, made in order, at the earliest time that is left.
    chooses
        On which type a job has its reservation: ``"first_start"``, that on which it can start
        first, or ``"first_end"``, that on which it is expected to be done first: rather than start
        on a slow type a job waits for a fast one. Under ``"conservative"`` only.
    depth
        So many waiting jobs have a reservation, at most, under ``"conservative"``; those behind
        them wait.
    gpus_per_reservation
        A reservation of who has to wait takes multiples of this under ``"conservative"``: GPUs of
        a machine, where whole machines are reserved, as by Slurm. Until it ends nobody else may
        be on them. Exact for one machine of each type; with several it is a count, not a place.
    keeps
        Whether no reservation moves back under ``"conservative"``: those made are kept, and move
        up in order when jobs end early. Else all are made anew whenever a job arrives or is done,
        as by Slurm, and who is behind may be put off. Jobs that outlive their limits put off those
        that count on their GPUs either way.
    order
        Says the priorities of jobs, which are worked out anew whenever a job arrives or is done;
        ``None``: who was submitted first comes first.
    """

    works_by: ClassVar[tuple[str, ...]] = ("queue",)
    works_how: ClassVar[str] = "is a batch scheduler, which works by a queue"

    name: str
    source: str = ""
    backfill: Literal["none", "easy", "conservative"] = "none"
    chooses: Literal["first_start", "first_end"] = "first_start"
    depth: int = 100
    gpus_per_reservation: int = 1
    keeps: bool = False
    order: MultifactorPriority | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        whole("depth", self.depth, 1)
        whole("gpus_per_reservation", self.gpus_per_reservation, 1)
        if self.chooses == "first_end" and self.backfill != "conservative":
            raise InputError(
                f"chooses='first_end' needs reservations, which backfill={self.backfill!r} does "
                f"not make for every job; valid: backfill='conservative'."
            )
        if self.keeps and self.gpus_per_reservation > 1:
            raise InputError(
                f"keeps=True keeps reservations of single GPUs; valid with gpus_per_reservation="
                f"{self.gpus_per_reservation}: keeps=False, which makes them anew."
            )

    def make(self, about: About) -> InBatch:
        """Return what serves the jobs of a run."""
        return InBatch(self, about)

    def knows_durations(self, jobs: pd.DataFrame) -> bool:
        """Whether it plans by what jobs take, as not every user has said a limit."""
        said = jobs.get("time_limit_s")
        return self.backfill != "none" and (said is None or bool(said.isna().any()))


class InBatch(InQueue):
    """Serves the jobs of a run in its order; see `InQueue`."""

    def __init__(self, decider: BatchScheduler, about: About) -> None:
        super().__init__(decider, about)
        jobs = about.jobs
        limit_s = jobs.facts.get("time_limit_s", np.full(jobs.jobs, np.nan))
        self._limit_s: Floats = np.asarray(limit_s, dtype=float)
        self.capacity: list[int] = jobs.capacity.astype(int).tolist()
        self._serves = serves_by(decider.backfill, keeps=decider.keeps)
        self.chooses, self.depth = str(decider.chooses), decider.depth
        self.whole = decider.gpus_per_reservation
        self.reservations: dict[int, tuple[int, float]] = {}
        self._ready_s: dict[int, float] = {}
        self._start_s: dict[int, float] = {}
        self._order, self._use = decider.order, None
        if self._order is not None:
            self._use = jobs.entity_use = EntityUse(jobs, self._order.half_life_s)

    def _wanted(self, now_s: float) -> dict[int, int]:
        """Return the types of those that run, and of those that start now."""
        left = {job: kind for job, (kind, _) in self._devices.held.items()}
        running = {job: left[job] for job in self._jobs.active.tolist() if job in left}
        self._start_s = self._still_to_start(running, now_s)
        waiting = self.waiting(running, now_s).tolist()
        served = dict(self._serves(Line(self, now_s, running, waiting)))
        self._ready_s |= {job: now_s + self._start_s[job] for job in served if self._start_s}
        return running | served

    def _still_to_start(self, running: Mapping[int, int], now_s: float) -> dict[int, float]:
        """Return what starts still cost the active jobs, seconds; nothing where they are free."""
        self._ready_s = {job: ready_s for job, ready_s in self._ready_s.items() if job in running}
        active = self._jobs.active
        lost_s = self._jobs.lost_s(active, self._lost_s)
        if not lost_s.any() and not self._ready_s:
            return {}
        left_s = {job: max(self._ready_s.get(job, now_s) - now_s, 0.0) for job in running}
        return dict(zip(active.tolist(), lost_s.tolist(), strict=True)) | left_s

    def waiting(self, running: dict[int, int], now_s: float) -> Ints:
        """Return the active jobs that do not run, who comes first in front."""
        active = self._jobs.active
        waits = ~np.isin(active, np.array(list(running), dtype=np.intp))
        if self._order is None or self._use is None:
            return active[waits]
        priority = self._order.of(self._jobs, self._use, now_s)[waits]
        # Of equal priority in the order of submission, in which jobs are numbered.
        return active[waits][np.argsort(-priority, kind="stable")]

    @property
    def scale(self) -> Ints:
        """GPUs of the gang of each job; jobs may come."""
        return self._jobs.scale

    def types(self, job: int) -> list[int]:
        """Return the types on which a job can run, the fastest first."""
        return self._jobs.fastest_first(job)

    def seconds(self, job: int, kind: int) -> float:
        """Return what a job is taken to need from now on, on a type on which it can run."""
        jobs, limit_s = self._jobs, float(self._limit_s[job])
        if not math.isnan(limit_s):
            return max(limit_s - float(jobs.held_s[job].sum()), 0.0)
        return float(jobs.remaining[job] / jobs.speed[job, kind]) + self._start_s.get(job, 0.0)


@dataclass(frozen=True)
class QueuedJobs:
    """Jobs by number, in the order in which they are served: that of arrival.

    Attributes
    ----------
    arrival_s
        When each comes, seconds.
    gpus
        Of its gang.
    left_s
        For how long each still has to run, on any of its types.
    limit_s
        For how long it runs at most as its user says, from now on; NaN without that.
    types
        Places of the types on which it can run, the preferred first.
    array, at_once
        The arrays of jobs of which only so many run at once, and how many.
    """

    arrival_s: Sequence[float]
    gpus: Sequence[int]
    left_s: Sequence[float]
    limit_s: Sequence[float]
    types: Sequence[list[int]]
    array: Mapping[int, str] = field(default_factory=dict)
    at_once: Mapping[str, int] = field(default_factory=dict)


class _Alone:
    """What `Line` asks of a queue, told by lists."""

    def __init__(self, decider: BatchScheduler, jobs: QueuedJobs, capacity: Sequence[int]) -> None:
        self.chooses, self.depth = str(decider.chooses), decider.depth
        self.whole, self.capacity = decider.gpus_per_reservation, [*capacity]
        self.reservations: dict[int, tuple[int, float]] = {}
        self.scale, self.now_s = jobs.gpus, 0.0
        self._types = jobs.types
        said = zip(jobs.limit_s, jobs.left_s, strict=True)
        self.taken_s = [left if math.isnan(limit) else limit for limit, left in said]
        self.ends_s: dict[int, float] = {}

    def types(self, job: int) -> list[int]:
        """Return the types on which a job can run, the preferred first."""
        return self._types[job]

    def start(self, job: int, now_s: float) -> None:
        """Let a job run: until when it is taken to."""
        self.ends_s[job] = now_s + self.taken_s[job]

    def seconds(self, job: int, kind: int) -> float:
        """Return what a job is taken to need from now on."""
        ends_s = self.ends_s.get(job)
        return self.taken_s[job] if ends_s is None else max(ends_s - self.now_s, 0.0)


def starts_alone(
    decider: BatchScheduler,
    jobs: QueuedJobs,
    capacity: Sequence[int],
    now_s: float,
    running: Mapping[int, int],
    asked: int,
) -> list[float]:
    """Return when each of the first jobs starts: as `simulate` has it, without its record.

    For schedulers that are a `BatchScheduler` without an order of their own, whose jobs start
    without cost, where no network and no placement makes a gang slower or wait. Times are equal to
    the last digit if they are whole seconds; otherwise they differ by rounding errors.

    Parameters
    ----------
    decider
        Serves the queue.
    jobs
        Who runs and waits, and who comes later.
    capacity
        GPUs of each type.
    now_s
        When the run begins, seconds.
    running
        The types of the jobs that run.
    asked
        How many of the jobs are asked about; the others are in their way. It is over when all
        of them have started.

    Returns
    -------
    list of float
        The first `asked` starts, seconds; `now_s` for those that run, infinite for never.
    """
    serves = serves_by(decider.backfill, keeps=decider.keeps)
    queue = _Alone(decider, jobs, capacity)
    starts = [math.inf] * len(jobs.gpus)
    ends: list[tuple[float, int]] = []
    on: dict[int, int] = {}
    waiting = list[int]()
    room, held = {**jobs.at_once}, {array: deque[int]() for array in jobs.at_once}

    def queue_up(array: str) -> None:
        """Let tasks of an array wait for GPUs, as many as may run; the others are passed by all."""
        while held[array] and room[array] > 0:
            room[array] -= 1
            insort(waiting, held[array].popleft())

    def start(job: int, kind: int) -> None:
        starts[job], on[job] = now_s, kind
        queue.start(job, now_s)
        heappush(ends, (now_s + jobs.left_s[job], job))

    for job, kind in running.items():
        start(job, kind)
        if job in jobs.array:
            room[jobs.array[job]] -= 1
    comes, count = 0, len(jobs.gpus)
    left = asked - len(running)
    while True:
        while comes < count and jobs.arrival_s[comes] <= now_s:
            if comes in jobs.array and comes not in running:
                held[jobs.array[comes]].append(comes)
                queue_up(jobs.array[comes])
            elif comes not in running:
                waiting.append(comes)
            comes += 1
        queue.now_s = now_s
        served = dict(serves(Line(queue, now_s, on, waiting))) if waiting else {}
        for job, kind in served.items():
            start(job, kind)
            left -= job < asked
        if served:
            waiting[:] = [job for job in waiting if job not in served]
        if not left:
            return starts[:asked]
        next_s = jobs.arrival_s[comes] if comes < count else math.inf
        now_s = min(ends[0][0] if ends else math.inf, next_s)
        if now_s == math.inf:
            return starts[:asked]
        while ends and ends[0][0] <= now_s:
            job = heappop(ends)[1]
            del on[job]
            if job in jobs.array:
                room[jobs.array[job]] += 1
                queue_up(jobs.array[job])
