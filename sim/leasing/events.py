"""What happens next: a heap of arrivals, completions, returns of GPUs and ends of leases."""

from __future__ import annotations

import math
from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.offers.exact import TICK_S

if TYPE_CHECKING:
    from collections.abc import Container

__all__ = ["Event", "Events", "next_tick", "whole_ticks"]


def whole_ticks(time_s: float) -> float:
    """Round a finite time to a multiple of `TICK_S`."""
    return round(time_s / TICK_S) * TICK_S


def next_tick(time_s: float) -> float:
    """Return the first multiple of `TICK_S` that is not before a time; infinite ones stay."""
    return math.ceil(time_s / TICK_S) * TICK_S if math.isfinite(time_s) else time_s


class Event(IntEnum):
    """Kinds of events, in the order in which those of one instant are dealt with.

    Offers are made after all but the ends of leases, which may depend on who then still waits.
    """

    COMPLETION = 0
    ARRIVAL = 1
    RETURN = 2
    EXPIRY = 3


class Events:
    """A heap in which an event of a job replaces the one that it had.

    Parameters
    ----------
    jobs
        Number of jobs.
    """

    def __init__(self, jobs: int) -> None:
        self._heap: list[tuple[float, Event, int, int]] = []
        self._version = [0] * jobs

    def put(self, time_s: float, kind: Event, job: int) -> None:
        """Set the next event of a job; one that it had before will not happen."""
        self._version[job] += 1
        heappush(self._heap, (time_s, kind, job, self._version[job]))

    def drop(self, job: int) -> None:
        """Take away the event of a job."""
        self._version[job] += 1

    @property
    def next_s(self) -> float:
        """Time of the next event, seconds; infinite if there is none."""
        heap = self._heap
        while heap and heap[0][3] != self._version[heap[0][2]]:
            heappop(heap)
        return heap[0][0] if heap else np.inf

    def pop(self, now_s: float, kinds: Container[Event]) -> tuple[Event, int] | None:
        """Return kind and job of the next event, if it is of this instant and of these kinds."""
        if self.next_s != now_s or self._heap[0][1] not in kinds:
            return None
        _, kind, job, _ = heappop(self._heap)
        return kind, job
