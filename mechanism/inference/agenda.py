"""What ends by itself, and when: requests, protections, loans that are called back."""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Agenda", "Due", "Ending"]


class Ending(IntEnum):
    """What ends; of what ends at one time, the first here ends first."""

    REQUEST = 0
    PROTECTION = 1
    LOAN = 2


class Due(NamedTuple):
    """An end to come: slots are numbered within a GPU, -1 stands for all of it."""

    time_s: float
    what: Ending
    gpu: int
    number: int


class Agenda:
    """At most one end for each slot and each GPU; a new one takes the place of the old."""

    def __init__(self) -> None:
        self._heap: list[tuple[Due, int]] = []
        self._valid: dict[tuple[int, int], int] = {}
        self._count = 0

    def set(self, due: Due) -> None:
        """Note when something ends."""
        self._count += 1
        self._valid[due.gpu, due.number] = self._count
        heapq.heappush(self._heap, (due, self._count))

    def clear(self, gpu: int, number: int = -1) -> None:
        """Forget an end."""
        self._valid.pop((gpu, number), None)

    @property
    def next_s(self) -> float:
        """When something ends next; infinite if nothing will."""
        while self._heap:
            due, count = self._heap[0]
            if self._is_valid(due, count):
                return due.time_s
            heapq.heappop(self._heap)
        return float("inf")

    def pop(self) -> Due:
        """Take out what ends next; ask `next_s` before."""
        due, _ = heapq.heappop(self._heap)
        self.clear(due.gpu, due.number)
        return due

    def state(self) -> list[Any]:
        """Return all ends to come, in the order in which they were noted, for JSON."""
        found = [(count, due) for due, count in self._heap if self._is_valid(due, count)]
        return [list(due) for _, due in sorted(found)]

    def restore(self, state: Iterable[Any]) -> None:
        """Take up a state of `state` in an agenda without ends."""
        for time_s, what, gpu, number in state:
            self.set(Due(time_s, Ending(what), gpu, number))

    def _is_valid(self, due: Due, count: int) -> bool:
        return self._valid.get((due.gpu, due.number)) == count
