"""First come, first served, and who may pass: batch schedulers with and without backfilling.

How many GPUs of a type will be free when, as far as is known now.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from apportion.annotations import check_fields
from apportion.checks import whole
from apportion.errors import InputError
from apportion.mechanism.decider import Decider
from apportion.mechanism.job_table import EntityUse
from apportion.mechanism.queue import InQueue
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.mechanism.about import About
    from apportion.mechanism.batch.multifactor import MultifactorPriority
    from apportion.mechanism.job_table import JobTable

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["BatchScheduler", "FreeGpus"]

"""Part of a length of time by which two are one but for rounding."""


class FreeGpus:
    """Free GPUs of one type from now on: a count that changes when jobs end, or begin as planned.

    Parameters
    ----------
    now_s
        The time, seconds.
    gpus
        How many are free now.
    """

    def __init__(self, now_s: float, gpus: int) -> None:
        self._times, self._free = [now_s], [gpus]

    def at(self, at_s: float) -> int:
        """Return how many are free at a time from now on."""
        return self._free[bisect_right(self._times, at_s) - 1]

    def returned(self, at_s: float, gpus: int) -> None:
        """Let GPUs be free from a time on."""
        for place in range(self._split(at_s), len(self._times)):
            self._free[place] += gpus

    def take(self, from_s: float, length_s: float, gpus: int) -> None:
        """Let GPUs be held from a time on, for so long."""
        first, last = self._split(from_s), self._split(from_s + length_s)
        for place in range(first, last):
            self._free[place] -= gpus

    def earliest_s(self, gpus: int, length_s: float) -> float:
        """Return from when on so many are free for so long; infinite for never."""
        start = 0
        while True:
            while start < len(self._free) and self._free[start] < gpus:
                start += 1
            if start == len(self._free):
                return float("inf")
            # A job that ends when the next one begins is not in its way, rounding apart.
            end_s = self._times[start] + length_s * (1 - _SAME_TIME)
            last = bisect_left(self._times, end_s)
            short = next((i for i in range(start, last) if self._free[i] < gpus), None)
            if short is None:
                return self._times[start]
            start = short

    def _split(self, at_s: float) -> int:
        """Return the place of the stretch that begins at a time, made if there is none."""
        at_s = max(at_s, self._times[0])
        if at_s == float("inf"):
            return len(self._times)
        place = bisect_left(self._times, at_s)
        if place == len(self._times) or self._times[place] != at_s:
            insort(self._times, at_s)
            self._free.insert(place, self._free[bisect_right(self._times, at_s) - 2])
        return place


_SAME_TIME = 1e-9
"""Part of a length of time by which two are one but for rounding."""


@dataclass(frozen=True)
class BatchScheduler(Decider):
    """Jobs come in an order, by default that of arrival, and keep their GPUs until they are done.

    A job starts on the fastest type on which its gang is free, unless `chooses` says otherwise. Who
    may pass the first job that has to wait, the head, is said by `backfill`; how long a job takes
    is what its user says (``time_limit_s``), or, without that, what it takes.

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

    def make(self, about: About) -> InBatch:
        """Return what serves the jobs of a run."""
        return InBatch(self, about)

    def knows_durations(self, jobs: pd.DataFrame) -> bool:
        """Whether it plans by what jobs take, as not every user has said a limit."""
        said = jobs.get("time_limit_s")
        return self.backfill != "none" and (said is None or bool(said.isna().any()))


class InBatch(InQueue):
    """Serves the jobs of a run in its order; see `InQueue`."""

    kept = (*InQueue.kept, "_use")

    def __init__(self, decider: BatchScheduler, about: About) -> None:
        super().__init__(decider, about)
        jobs = about.jobs
        limit_s = jobs.facts.get("time_limit_s", np.full(jobs.jobs, np.nan))
        self._limit_s: Floats = np.asarray(limit_s, dtype=float)
        ways = {"none": _strictly, "easy": _easy, "conservative": _conservative}
        self._serves, self.depth = ways[decider.backfill], decider.depth
        self.chooses, self.whole = decider.chooses, decider.gpus_per_reservation
        self._order, self._use = decider.order, None
        if self._order is not None:
            self._use = jobs.entity_use = EntityUse(jobs, self._order.half_life_s)

    def _wanted(self, now_s: float) -> dict[int, int]:
        """Return the types of those that run, and of those that start now."""
        left = {job: kind for job, (kind, _) in self._devices.held.items()}
        running = {job: left[job] for job in self._jobs.active.tolist() if job in left}
        return running | dict(self._serves(_Queue(self, self._jobs, running, now_s)))

    def waiting(self, running: dict[int, int], now_s: float) -> Ints:
        """Return the active jobs that do not run, who comes first in front."""
        active = self._jobs.active
        waits = ~np.isin(active, np.array(list(running), dtype=np.intp))
        if self._order is None or self._use is None:
            return active[waits]
        priority = self._order.of(self._jobs, self._use, now_s)[waits]
        return active[waits][np.argsort(-priority, kind="stable")]

    def types(self, job: int) -> list[int]:
        """Return the types on which a job can run, the fastest first."""
        speed = self._jobs.speed[job]
        return [each for each in np.argsort(-speed, kind="stable").tolist() if speed[each] > 0]

    def seconds(self, job: int, kind: int) -> float:
        """Return what a job is taken to need from now on, on a type on which it can run."""
        jobs, limit_s = self._jobs, float(self._limit_s[job])
        if not math.isnan(limit_s):
            return max(limit_s - float(jobs.held_s[job].sum()), 0.0)
        return float(jobs.remaining[job] / jobs.speed[job, kind])


class _Queue:
    """What there is to decide about at a moment: who waits, and what is free when."""

    def __init__(self, run: InBatch, jobs: JobTable, running: dict[int, int], now_s: float) -> None:
        self.now_s, self.types, self.seconds, self.depth = now_s, run.types, run.seconds, run.depth
        self._scale, self._running, self.chooses = jobs.scale, running, run.chooses
        self.whole = run.whole
        self.free = jobs.capacity.astype(int).tolist()
        for job, kind in running.items():
            self.free[kind] -= int(jobs.scale[job])
        self._waiting = run.waiting(running, now_s)

    def waiting(self) -> Iterator[tuple[int, int]]:
        """Go through waiting jobs, in order, with their GPUs, while any GPU is free."""
        gpus = self._scale[self._waiting].tolist()
        for each in zip(self._waiting.tolist(), gpus, strict=True):
            if not any(self.free):
                return
            yield each

    def later(self) -> list[FreeGpus]:
        """Return what will be free when those have ended that run, by type."""
        known = [FreeGpus(self.now_s, gpus) for gpus in self.free]
        for job, kind in self._running.items():
            known[kind].returned(self.now_s + self.seconds(job, kind), int(self._scale[job]))
        return known

    def shadow(self, job: int, gpus: int, started: dict[int, int]) -> tuple[int, float, int]:
        """Return where and in how many seconds a job can start, and the GPUs left over then."""
        later = self.later()
        for other, kind in started.items():
            ends_s = self.now_s + self.seconds(other, kind)
            later[kind].returned(ends_s, int(self._scale[other]))
        starts = [(later[kind].earliest_s(gpus, np.inf), kind) for kind in self.types(job)]
        at_s, kind = min(starts, key=lambda each: each[0], default=(np.inf, -1))
        if at_s == np.inf:
            return -1, np.inf, 0
        spare = later[kind].at(at_s) - gpus
        return kind, (at_s - self.now_s) * (1 + _SAME_TIME), spare


def _strictly(queue: _Queue) -> Iterator[tuple[int, int]]:
    """Start jobs in order, until one has to wait."""
    for job, gpus in queue.waiting():
        kind = next((each for each in queue.types(job) if gpus <= queue.free[each]), None)
        if kind is None:
            return
        queue.free[kind] -= gpus
        yield job, kind


def _easy(queue: _Queue) -> Iterator[tuple[int, int]]:
    """Start jobs in order; once one has to wait, those that do not delay it."""
    started: dict[int, int] = {}
    shadow: tuple[int, float] | None = None
    spare = 0
    for job, gpus in queue.waiting():
        if shadow is not None and gpus > max(queue.free):
            continue
        for kind in queue.types(job):
            if gpus > queue.free[kind]:
                continue
            in_time = shadow is None or kind != shadow[0] or queue.seconds(job, kind) <= shadow[1]
            if in_time or gpus <= spare:
                spare -= 0 if in_time else gpus
                queue.free[kind] -= gpus
                started[job] = kind
                yield job, kind
                break
        else:
            if shadow is None:
                kind, in_s, spare = queue.shadow(job, gpus, started)
                shadow = kind, in_s


def _conservative(queue: _Queue) -> Iterator[tuple[int, int]]:
    """Give every job in turn the earliest start that is left, or end, and start whose is now.

    A job that has outlived its limit may end at any moment: whoever is to follow it waits.
    """
    later = queue.later()
    for job, gpus in islice(queue.waiting(), queue.depth):
        lengths_s = {kind: queue.seconds(job, kind) for kind in queue.types(job)}
        starts = [
            (later[kind].earliest_s(gpus, length_s), kind) for kind, length_s in lengths_s.items()
        ]
        if queue.chooses == "first_end":
            starts.sort(key=lambda each: significant(each[0] + lengths_s[each[1]] - queue.now_s))
        else:
            starts.sort(key=lambda each: each[0])
        at_s, kind = starts[0] if starts else (np.inf, -1)
        if at_s == np.inf:
            continue
        starts_now = at_s <= queue.now_s and gpus <= queue.free[kind]
        reserved = gpus if starts_now else gpus + -gpus % queue.whole
        later[kind].take(at_s, lengths_s[kind], reserved)
        if starts_now:
            queue.free[kind] -= gpus
            yield job, kind
