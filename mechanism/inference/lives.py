"""What is known of GPUs that serve requests: who is in which state, and what is due.

`StateLedger` counts the seconds spent in each state; `Agenda` has what ends by itself, and when:
requests, protections, loans that are called back.
"""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.mechanism.inference.slots import GpuState

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray


class Ending(IntEnum):
    """What ends; of what ends at one time, the first here ends first."""

    REQUEST = 0
    PROTECTION = 1
    LOAN = 2


class Due(NamedTuple):
    """An end to come."""

    time_s: float
    what: Ending
    gpu: int


class Agenda:
    """At most one end for each GPU; a new one takes the place of the old."""

    def __init__(self) -> None:
        self._heap: list[tuple[Due, int]] = []
        self._valid: dict[int, int] = {}
        self._count = 0

    def set(self, due: Due) -> None:
        """Note when something ends."""
        self._count += 1
        self._valid[due.gpu] = self._count
        heapq.heappush(self._heap, (due, self._count))

    def clear(self, gpu: int) -> None:
        """Forget an end."""
        self._valid.pop(gpu, None)

    @property
    def next_s(self) -> float:
        """When something ends next; infinite if nothing will."""
        while self._heap:
            due, count = self._heap[0]
            if self._valid.get(due.gpu) == count:
                return due.time_s
            heapq.heappop(self._heap)
        return float("inf")

    def pop(self) -> Due:
        """Take out what ends next; ask `next_s` before."""
        due, _ = heapq.heappop(self._heap)
        self.clear(due.gpu)
        return due


class StateChange(NamedTuple):
    """A GPU that goes from one state to another, and what is loaded then, if anything."""

    time_s: float
    gpu: int
    before: GpuState
    after: GpuState
    service: Hashable = None


class StateLedger:
    """States of GPUs, all of them free at first.

    Parameters
    ----------
    gpus
        How many.

    Attributes
    ----------
    states
        State of each GPU; not to be changed from outside.
    changes
        Every change, in order.
    """

    def __init__(self, gpus: int) -> None:
        self.states = [GpuState.FREE] * gpus
        self.changes: list[StateChange] = []
        self._since_s = [0.0] * gpus
        self._spent_s = np.zeros((len(GpuState), gpus))

    def note(self, now_s: float, gpu: int, state: GpuState, service: Hashable = None) -> None:
        """Note the state that a GPU is in from now on, and what is loaded."""
        before = self.states[gpu]
        if state == before:
            return
        self.changes.append(StateChange(now_s, gpu, before, state, service))
        self._spent_s[before, gpu] += now_s - self._since_s[gpu]
        self._since_s[gpu] = now_s
        self.states[gpu] = state

    def spent_s(self, now_s: float) -> NDArray[np.float64]:
        """Seconds that each GPU has spent in each state, shape (states, GPUs)."""
        spent = self._spent_s.copy()
        for gpu, state in enumerate(self.states):
            spent[state, gpu] += now_s - self._since_s[gpu]
        return spent
