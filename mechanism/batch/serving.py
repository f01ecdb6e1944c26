"""Who starts now: first come, first served, and who may pass, with and without backfilling.

How many GPUs of a type will be free when, as far as is known now.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import numpy as np

from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from apportion.types import Ints

_SAME_TIME = 1e-9
"""Part of a length of time by which two are one but for rounding."""


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


class ServedQueue(Protocol):
    """A queue that is served: jobs by number, and what each is taken to need."""

    chooses: str
    depth: int
    whole: int
    capacity: list[int]

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
        """Return what will be free when those have ended that run, and that start now, by type."""
        ends: list[list[tuple[float, int]]] = [[] for _ in self.free]
        for jobs in (self._running, started):
            for job, kind in jobs.items():
                ends[kind].append((self.now_s + self.seconds(job, kind), int(self._scale[job])))
        return [
            FreeGpus(self.now_s, gpus, some) for gpus, some in zip(self.free, ends, strict=True)
        ]

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
    """Give every job in turn the earliest start that is left, or end, and start whose is now.

    A job that has outlived its limit may end at any moment: whoever is to follow it waits.
    """
    later = queue.later({})
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


SERVES: Mapping[str, Callable[[Line], Iterator[tuple[int, int]]]] = {
    "none": _strictly,
    "easy": _easy,
    "conservative": _conservative,
}
"""Who starts now, and on which type, by `BatchScheduler.backfill`."""
