"""What is known of GPUs that serve requests: who is in which state, who waits, what is due.

`Ledger` counts the seconds spent in each state; `Agenda` has what ends by itself, and when:
requests, protections, loans that are called back.
"""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from apportion.annotations import explained
from apportion.checks import choice, seconds, whole
from apportion.errors import InputError, written
from apportion.mechanism.inference.settings import BINDINGS, FREE_GPU, ProtectTimes
from apportion.mechanism.inference.slots import (
    GpuState,
    ServedRequest,
    ServiceSlots,
    WaitingRequest,
    WaitingRequests,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray


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

    def _is_valid(self, due: Due, count: int) -> bool:
        return self._valid.get((due.gpu, due.number)) == count


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


class GpuLives:
    """The books of `apportion.mechanism.inference.InferenceGpus`, which has its parameters."""

    @explained
    def __init__(
        self,
        nodes: Sequence[int],
        cold_start_s: Mapping[str, float],
        protect: ProtectTimes | None = None,
        services_per_gpu: int = 1,
        binding: Literal["late", "early", "loaded"] = "late",
        free_gpu: Literal["fewest_loans", "random"] = "fewest_loans",
        seed: int = 0,
    ) -> None:
        if not len(nodes) or not cold_start_s:
            raise InputError("Inference needs at least one GPU and one service.")
        per_gpu = whole("services_per_gpu", services_per_gpu, 1)
        self._cold_s: dict[Hashable, float] = {
            name: seconds(f"The cold start of {written(name)}", value)
            for name, value in cold_start_s.items()
        }
        self._protect = protect or ProtectTimes()
        self._binding = choice("binding", binding, BINDINGS)
        drawn = choice("free_gpu", free_gpu, FREE_GPU) == "random"
        self._slots = ServiceSlots(nodes, per_gpu, np.random.default_rng(seed) if drawn else None)
        self.now_s = 0.0
        self.served: list[ServedRequest] = []
        self._ledger = StateLedger(len(nodes))
        self._agenda = Agenda()
        self._known: set[Hashable] = set()
        self._queue = WaitingRequests(self._cold_s)
        self._yielding: dict[int, WaitingRequest | None] = {}
        self._loads: dict[tuple[int, int], tuple[float, float]] = {}  # slot: since when, till when

    @property
    def states(self) -> tuple[GpuState, ...]:
        """State of each GPU."""
        return tuple(self._ledger.states)

    @property
    def changes(self) -> tuple[StateChange, ...]:
        """Every change of state, in order."""
        return tuple(self._ledger.changes)

    @property
    def waiting(self) -> int:
        """Requests without a GPU, those included for whom one is being called back."""
        return self._queue.count + sum(bound is not None for bound in self._yielding.values())

    @property
    def reclaims_due(self) -> int:
        """How many loaned GPUs waiting requests still need, as far as there are any."""
        due = self._queue.uncovered(self._loading())
        due -= 0 if self._binding == "early" else len(self._yielding)
        return min(due, len(self.reclaimable)) if due > 0 else 0

    def _loading(self) -> dict[Hashable, int]:
        """Slots in which each service is being loaded for whoever waits for it then."""
        found: dict[Hashable, int] = {}
        for gpu, number in self._loads:
            slot = self._slots.of_gpu[gpu][number]
            if slot.state == GpuState.RUNNING:
                found[slot.service] = found.get(slot.service, 0) + 1
        return found

    @property
    def reclaimable(self) -> list[int]:
        """Loaned GPUs that are not being called back yet."""
        states = enumerate(self._ledger.states)
        return [g for g, its in states if its == GpuState.LOANED and g not in self._yielding]

    @property
    def lendable(self) -> list[int]:
        """GPUs that training may have: free ones first, then those that are only warm."""
        return [
            gpu
            for state in (GpuState.FREE, GpuState.WARM)
            for gpu, its in enumerate(self._ledger.states)
            if its == state
        ]

    @property
    def next_event_s(self) -> float:
        """When something ends by itself; infinite if nothing will."""
        return self._agenda.next_s

    def spent_s(self) -> NDArray[np.float64]:
        """Seconds that each GPU has spent in each state until now, shape (states, GPUs)."""
        return self._ledger.spent_s(self.now_s)
