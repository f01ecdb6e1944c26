"""When leases end, and when their GPUs come back: a heap of both."""

from __future__ import annotations

import math
from enum import IntEnum
from heapq import heappop, heappush
from typing import Any

import numpy as np

from apportion.mechanisms.settings import TICK_S


def whole_ticks(time_s: float) -> float:
    """Round a finite time to a multiple of `TICK_S`."""
    return round(time_s / TICK_S) * TICK_S


def next_tick(time_s: float) -> float:
    """Return the first multiple of `TICK_S` that is not before a time; infinite ones stay."""
    return math.ceil(time_s / TICK_S) * TICK_S if math.isfinite(time_s) else time_s


class End(IntEnum):
    """What ends, in the order in which those of one instant are dealt with."""

    RETURN = 0
    """A checkpoint: the GPUs come back."""
    EXPIRY = 1
    """A lease."""


class Ends:
    """A heap in which an end of a job replaces the one that it had.

    Parameters
    ----------
    jobs
        Number of jobs.
    """

    def __init__(self, jobs: int) -> None:
        self._heap: list[tuple[float, End, int, int]] = []
        self._version = [0] * jobs

    def put(self, time_s: float, kind: End, job: int) -> None:
        """Set the next end of a job; one that it had before will not come."""
        self._version[job] += 1
        heappush(self._heap, (time_s, kind, job, self._version[job]))

    def drop(self, job: int) -> None:
        """Take away the end of a job."""
        self._version[job] += 1

    @property
    def next_s(self) -> float:
        """Time of the next end, seconds; infinite if there is none."""
        heap = self._heap
        while heap and heap[0][3] != self._version[heap[0][2]]:
            heappop(heap)
        return heap[0][0] if heap else np.inf

    def due(self, now_s: float, kind: End) -> bool:
        """Whether the next end is of this instant and of a kind."""
        return self.next_s == now_s and self._heap[0][1] is kind

    def pop(self, now_s: float, kind: End) -> list[int]:
        """Return the jobs whose end of a kind is due, and take their ends away."""
        jobs, heap = list[int](), self._heap
        while heap and heap[0][0] <= now_s and self.due(now_s, kind):
            jobs.append(heappop(heap)[2])
        return jobs

    def state(self) -> list[list[Any]]:
        """Return the ends to come, for JSON."""
        return [
            [time_s, int(kind), job]
            for time_s, kind, job, version in sorted(self._heap)
            if version == self._version[job]
        ]

    def restore(self, state: list[list[Any]]) -> None:
        """Take up a state of `state`, where no end is set yet."""
        for time_s, kind, job in state:
            self.put(time_s, End(kind), job)
