"""Who starts now: first come, first served, and who may pass, with and without backfilling.

How many GPUs of a type will be free when, as far as is known now.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from apportion.types import Ints

_SAME_TIME = 1e-9
"""Part of a length of time by which two are one but for rounding."""

_OUTLIVED_S = 1.0
"""In how many seconds a job that has outlived its limit is expected to end, as by Slurm."""


class FreeGpus:
    """Free GPUs of one type from now on: a count that changes when jobs end, or begin as planned.

    Parameters
    ----------
    now_s
        The time, seconds.
    gpus
        How many are free now.
    ends
        When jobs end, and how many GPUs each returns.
    """

    def __init__(self, now_s: float, gpus: int, ends: Iterable[tuple[float, int]] = ()) -> None:
        self._times, self._free = [now_s], [gpus]
        for at_s, more in sorted(ends):
            if at_s == np.inf:
                return
            if at_s > self._times[-1]:
                self._times.append(at_s)
                self._free.append(self._free[-1])
            self._free[-1] += more

    def at(self, at_s: float) -> int:
        """Return how many are free at a time from now on."""
        return self._free[bisect_right(self._times, at_s) - 1]

    def take(self, from_s: float, length_s: float, gpus: int) -> float:
        """Let GPUs be held from a time on, for so long; return until when, rounding apart."""
        until_s = from_s + length_s
        place = bisect_left(self._times, from_s + length_s * (1 - _SAME_TIME))
        if place < len(self._times):
            # Who begins when this one ends is to find its GPUs free.
            until_s = min(until_s, self._times[place])
        self.hold(from_s, until_s, gpus)
        return until_s

    def hold(self, from_s: float, until_s: float, gpus: int) -> None:
        """Let GPUs be held between two times; fewer than 0 are given back."""
        first, last = self._split(from_s), self._split(until_s)
        for place in range(first, last):
            self._free[place] -= gpus

    def earliest_s(
        self, gpus: int, length_s: float, from_s: float = 0.0, most_s: float = np.inf
    ) -> float:
        """Return from when on so many are free for so long, between two times.

        Infinite for never.
        """
        start, times, free = self._split(from_s), self._times, self._free
        while start < len(free) and times[start] <= most_s:
            if free[start] < gpus:
                start += 1
                continue
            # A job that ends when the next one begins is not in its way, rounding apart.
            last = bisect_left(times, times[start] + length_s * (1 - _SAME_TIME), start + 1)
            if min(free[start:last]) >= gpus:
                return times[start]
            start = next(place for place in range(start, last) if free[place] < gpus)
        return math.inf

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


class ServedQueue(Protocol):
    """A queue that is served: jobs by number, and what each is taken to need."""

    chooses: str
    depth: int
    whole: int
    capacity: list[int]
    reservations: dict[int, tuple[int, float]]

    @property
    def scale(self) -> Sequence[int] | Ints:
        """GPUs of the gang of each job."""
        ...

    def types(self, job: int) -> list[int]:
        """Return the types on which a job can run, the fastest first."""
        ...

    def seconds(self, job: int, kind: int) -> float:
        """Return what a job is taken to need from now on, on a type on which it can run."""
        ...


class Reservation(NamedTuple):
    """When, where and for how long a job is to run; the least is the one that it prefers.

    Attributes
    ----------
    rank
        What it is chosen by: its start, or how far away its end is.
    place
        Of the type among those on which the job can run.
    at_s
        Its start.
    kind
        The type.
    length_s
        For how long.
    """

    rank: float
    place: int
    at_s: float
    kind: int
    length_s: float


class Line:
    """What there is to decide about at a moment: who waits, and what is free when.

    Parameters
    ----------
    serving
        The queue.
    now_s
        The time, seconds.
    running
        The types of the jobs that run.
    waiting
        The jobs that wait, first served first.
    """

    def __init__(
        self, serving: ServedQueue, now_s: float, running: Mapping[int, int], waiting: list[int]
    ) -> None:
        self.now_s, self.types, self.seconds = now_s, serving.types, serving.seconds
        self.depth, self.chooses, self.whole = serving.depth, serving.chooses, serving.whole
        self.reservations = serving.reservations
        self._needs: dict[int, list[tuple[int, float]]] = {}
        self.outlived = False
        self._scale, self._running, self._waiting = serving.scale, running, waiting
        self.free = [*serving.capacity]
        for job, kind in running.items():
            self.free[kind] -= int(self._scale[job])

    def waiting(self) -> Iterator[tuple[int, int]]:
        """Go through waiting jobs, in order, with their GPUs, while any GPU is free."""
        for job in self._waiting:
            if not any(self.free):
                return
            yield job, int(self._scale[job])

    def later(self, started: Mapping[int, int]) -> list[FreeGpus]:
        """Return what will be free when those have ended that run, and that start now, by type.

        Who has outlived its limit still has its GPUs now, and is expected to end shortly.
        """
        ends: list[list[tuple[float, int]]] = [[] for _ in self.free]
        for jobs in (self._running, started):
            for job, kind in jobs.items():
                left_s = self.seconds(job, kind)
                self.outlived |= left_s <= 0
                end_s = self.now_s + (left_s if left_s > 0 else _OUTLIVED_S)
                ends[kind].append((end_s, int(self._scale[job])))
        return [
            FreeGpus(self.now_s, gpus, some) for gpus, some in zip(self.free, ends, strict=True)
        ]

    def reserved_first(self) -> list[tuple[int, int]]:
        """Return the jobs that may have reservations, with their GPUs: first those that do."""
        line = sorted(self._waiting, key=lambda job: job not in self.reservations)
        return [(job, int(self._scale[job])) for job in line[: self.depth]]

    def reservation(self, job: int, place: int, at_s: float) -> Reservation:
        """Return the reservation of a job at a time, on one of its types."""
        kind, length_s = self._ways(job)[place]
        rank = at_s
        if self.chooses == "first_end":
            rank = significant(at_s + length_s - self.now_s)
        return Reservation(rank, place, at_s, kind, length_s)

    def earliest(
        self, job: int, gpus: int, later: Sequence[FreeGpus], most_s: float = np.inf
    ) -> Reservation | None:
        """Return the reservation that a job prefers of all that are left until a time."""
        found = []
        for place, (kind, length_s) in enumerate(self._ways(job)):
            at_s = later[kind].earliest_s(gpus, length_s, most_s=most_s)
            if at_s < np.inf:
                found.append(self.reservation(job, place, at_s))
        return min(found, default=None)

    def as_kept(self, job: int, gpus: int, later: Sequence[FreeGpus]) -> Reservation:
        """Return the reservation that a job has, or the next on its type."""
        kind, at_s = self.reservations[job]
        place = [each for each, _ in self._ways(job)].index(kind)
        at_s = later[kind].earliest_s(gpus, self._ways(job)[place][1], at_s)
        return self.reservation(job, place, at_s)

    def _ways(self, job: int) -> list[tuple[int, float]]:
        """Return the types of a job, the fastest first, and what it needs on each."""
        if job not in self._needs:
            self._needs[job] = [(kind, self.seconds(job, kind)) for kind in self.types(job)]
        return self._needs[job]

    def shadow(self, job: int, gpus: int, started: dict[int, int]) -> tuple[int, float, int]:
        """Return where and in how many seconds a job can start, and the GPUs left over then."""
        later = self.later(started)
        starts = [(later[kind].earliest_s(gpus, np.inf), kind) for kind in self.types(job)]
        at_s, kind = min(starts, key=lambda each: each[0], default=(np.inf, -1))
        if at_s == np.inf:
            return -1, np.inf, 0
        spare = later[kind].at(at_s) - gpus
        return kind, (at_s - self.now_s) * (1 + _SAME_TIME), spare


def _strictly(queue: Line) -> Iterator[tuple[int, int]]:
    """Start jobs in order, until one has to wait."""
    for job, gpus in queue.waiting():
        kind = next((each for each in queue.types(job) if gpus <= queue.free[each]), None)
        if kind is None:
            return
        queue.free[kind] -= gpus
        yield job, kind


def _easy(queue: Line) -> Iterator[tuple[int, int]]:
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


def _conservative(queue: Line) -> Iterator[tuple[int, int]]:
    """Give every job in turn the earliest start that is left, or end, and start whose is now."""
    later = queue.later({})
    for job, gpus in islice(queue.waiting(), queue.depth):
        best = queue.earliest(job, gpus, later)
        if best is None:
            continue
        starts_now = best.at_s <= queue.now_s and gpus <= queue.free[best.kind]
        reserved = gpus if starts_now else gpus + -gpus % queue.whole
        later[best.kind].take(best.at_s, best.length_s, reserved)
        if starts_now:
            queue.free[best.kind] -= gpus
            yield job, best.kind


def _keeping(queue: Line) -> Iterator[tuple[int, int]]:
    """Do the same, but keep the reservations that were made: none moves back.

    They move up in order, until none can. Only a job that has outlived its limit makes those slip
    that count on its GPUs, and in turn those behind them.
    """
    line, kept = queue.reserved_first(), queue.reservations
    before, later = [(job, gpus) for job, gpus in line if job in kept], queue.later({})
    if len(before) == len(line) and not any(queue.free) and not queue.outlived:
        return
    made: dict[int, tuple[Reservation, float]] = {}

    def make(job: int, gpus: int, it: Reservation) -> None:
        made[job] = it, later[it.kind].take(it.at_s, it.length_s, gpus)

    for job, gpus in before:
        make(job, gpus, queue.as_kept(job, gpus, later))
    # Who moves up fills what a job has left that ended early, and so is free now, or who slipped.
    moves = queue.outlived or any(each.at(queue.now_s) for each in later)
    moves |= any(it.at_s > max(kept[job][1], queue.now_s) for job, (it, _) in made.items())
    while moves:
        moves = False
        for job, gpus in before:
            now, until_s = made[job]
            later[now.kind].hold(now.at_s, until_s, -gpus)
            most_s = np.inf if queue.chooses == "first_end" else now.at_s
            best = queue.earliest(job, gpus, later, most_s)
            moves |= best is not None and best < now
            make(job, gpus, now if best is None else min(now, best))
    for job, gpus in line[len(before) :]:
        best = queue.earliest(job, gpus, later)
        if best is not None:
            make(job, gpus, best)
    kept.clear()
    kept.update({job: (it.kind, it.at_s) for job, (it, _) in made.items()})
    yield from ((job, kind) for job, (kind, at_s) in kept.items() if at_s <= queue.now_s)


_SERVES = {"none": _strictly, "easy": _easy, "conservative": _conservative}


def serves_by(backfill: str, *, keeps: bool) -> Callable[[Line], Iterator[tuple[int, int]]]:
    """Return what says who starts now, and on which type, by fields of `BatchScheduler`."""
    return _keeping if keeps and backfill == "conservative" else _SERVES[backfill]
