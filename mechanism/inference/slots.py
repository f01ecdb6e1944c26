"""What is loaded on GPUs that serve requests, which one a request is given, and who waits."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence


class GpuState(IntEnum):
    """What a GPU is doing; it is in exactly one state at all times."""

    FREE = 0
    """Nothing is loaded."""
    RUNNING = 1
    """It serves a request, or loads a service for one."""
    PROTECTED = 2
    """It is kept for further requests of the service that it has just run."""
    WARM = 3
    """A service is still loaded, and whoever needs the GPU may have it."""
    LOANED = 4
    """A training job has it."""


class Slot:
    """What a GPU has loaded: FREE, RUNNING, PROTECTED or WARM."""

    __slots__ = ("count", "gpu", "service", "since_s", "state")

    def __init__(self, gpu: int) -> None:
        self.gpu = gpu
        self.state = GpuState.FREE
        self.service: Hashable = None
        self.count = 0
        self.since_s = 0.0


class ServiceSlots:
    """The slots of all GPUs, found by what is in them.

    Parameters
    ----------
    nodes
        Node of each GPU.
    """

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = tuple(nodes)
        self.of_gpu = [Slot(gpu) for gpu in range(len(nodes))]
        self.loans_on = dict.fromkeys(sorted(set(nodes)), 0)
        self.free_on: dict[int, set[int]] = {node: set() for node in self.loans_on}
        for gpu, node in enumerate(self.nodes):
            self.free_on[node].add(gpu)
        self._idle: dict[Hashable, set[Slot]] = {}
        self._warm: set[Slot] = set()

    def fill(self, slot: Slot, state: GpuState, service: Hashable) -> None:
        """Change what is in a slot."""
        if slot.state in (GpuState.PROTECTED, GpuState.WARM):
            self._idle[slot.service].discard(slot)
            self._warm.discard(slot)
        slot.state, slot.service = state, service
        if state in (GpuState.PROTECTED, GpuState.WARM):
            self._idle.setdefault(service, set()).add(slot)
        if state == GpuState.WARM:
            self._warm.add(slot)
        free = self.free_on[self.nodes[slot.gpu]]
        (free.add if service is None else free.discard)(slot.gpu)

    def lend(self, gpu: int) -> None:
        """Take a GPU out of use: what is loaded on it is dropped."""
        self.fill(self.of_gpu[gpu], GpuState.FREE, None)
        self.free_on[self.nodes[gpu]].discard(gpu)
        self.loans_on[self.nodes[gpu]] += 1

    def take_back(self, gpu: int) -> None:
        """Put a GPU back into use, with nothing loaded."""
        self.free_on[self.nodes[gpu]].add(gpu)
        self.loans_on[self.nodes[gpu]] -= 1

    def choose(self, service: Hashable) -> Slot | None:
        """Return the slot that a request is given, None if there is none.

        In this order: (1) one where the service is loaded, protected or warm: the most requests in
        a row first; (2) that of a free GPU, on the node with the fewest loans; (3) one where
        another service is warm, the longest first. Ties go to the lower number. A GPU that is
        protected for another service is never taken.
        """
        loaded = self._idle.get(service)
        if loaded:
            return min(loaded, key=_most_in_a_row)
        nodes = [node for node, gpus in self.free_on.items() if gpus]
        if nodes:
            node = min(nodes, key=lambda each: (self.loans_on[each], each))
            return self.of_gpu[min(self.free_on[node])]
        return min(self._warm, key=lambda slot: (slot.since_s, slot.gpu), default=None)


def _most_in_a_row(slot: Slot) -> tuple[int, bool, int]:
    return -slot.count, slot.state != GpuState.PROTECTED, slot.gpu


class ServedRequest(NamedTuple):
    """A request that has a GPU: when it came, got it, was loaded, and ends."""

    request: Hashable
    service: Hashable
    gpu: int
    arrival_s: float
    start_s: float
    cold_start_s: float
    end_s: float


class WaitingRequest(NamedTuple):
    """A request without a GPU; `number` counts all requests in the order in which they came."""

    number: int
    request: Hashable
    service: Hashable
    arrival_s: float
    duration_s: float


class WaitingRequests:
    """First come, first served within a service; services by their oldest request."""

    def __init__(self, services: Iterable[Hashable]) -> None:
        self.of_service: dict[Hashable, deque[WaitingRequest]] = {
            name: deque() for name in services
        }
        self.count = 0

    def add(self, new: WaitingRequest) -> None:
        """Let a request wait behind all others of its service."""
        self.of_service[new.service].append(new)
        self.count += 1

    def oldest(self) -> list[WaitingRequest]:
        """Oldest request of each service that has any, the oldest of all first."""
        return sorted(queue[0] for queue in self.of_service.values() if queue)

    def take(self, service: Hashable) -> WaitingRequest:
        """Take the oldest request of a service out."""
        self.count -= 1
        return self.of_service[service].popleft()
