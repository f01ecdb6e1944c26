"""What is loaded on GPUs that serve requests, which one a request is given, and who waits."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    import numpy as np


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
    """Room for one service on a GPU: FREE, RUNNING, PROTECTED or WARM by itself."""

    __slots__ = ("count", "gpu", "number", "service", "since_s", "state")

    def __init__(self, gpu: int, number: int) -> None:
        self.gpu, self.number = gpu, number
        self.state = GpuState.FREE
        self.service: Hashable = None
        self.count = 0
        self.since_s = 0.0


class ServiceSlots:
    """All slots, found by what is in them.

    Parameters
    ----------
    nodes
        Node of each GPU.
    per_gpu
        Services that a GPU may have loaded at a time.
    rng
        Draws the slot of a request for which no GPU is protected; by default none is drawn.
    """

    def __init__(
        self, nodes: Sequence[int], per_gpu: int, rng: np.random.Generator | None = None
    ) -> None:
        self.rng = rng
        self.nodes = tuple(nodes)
        self.of_gpu = [
            [Slot(gpu, number) for number in range(per_gpu)] for gpu in range(len(nodes))
        ]
        self.loans_on = dict.fromkeys(sorted(set(nodes)), 0)
        self.free_on: dict[int, set[int]] = {node: set() for node in self.loans_on}
        for gpu, node in enumerate(self.nodes):
            self.free_on[node].add(gpu)
        self._idle: dict[Hashable, set[Slot]] = {}
        self._warm: set[Slot] = set()
        self._partly: set[int] = set()

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
        self._book(slot.gpu)

    def lend(self, gpu: int) -> None:
        """Take a GPU out of use: what is loaded on it is dropped."""
        for slot in self.of_gpu[gpu]:
            self.fill(slot, GpuState.FREE, None)
        self.free_on[self.nodes[gpu]].discard(gpu)
        self.loans_on[self.nodes[gpu]] += 1

    def take_back(self, gpu: int) -> None:
        """Put a GPU back into use, with nothing loaded."""
        self.free_on[self.nodes[gpu]].add(gpu)
        self.loans_on[self.nodes[gpu]] -= 1

    def choose(self, service: Hashable, *, loaded: bool = False) -> Slot | None:
        """Return the slot that a request is given, None if there is none.

        In this order: (1) one where the service is loaded, protected or warm: the most requests in
        a row first; (2) an empty one, of a GPU that serves others already, else of a free GPU on
        the node with the fewest loans; (3) one where another service is warm, the longest first.
        Ties go to the lower number. Where slots are drawn: (1) one that is protected for the
        service, likewise; (2) any slot that is empty or warm, all of these alike. A GPU that is
        protected for another service is never taken, and no service is loaded twice on one GPU.
        With `loaded` only (1) counts.
        """
        if self.rng is not None:
            found = self._protected(service)
            return found if found or loaded else self._any(service, self.rng)
        found = self._loaded(service)
        return found if found or loaded else self._empty(service) or self._other(service)

    def _loaded(self, service: Hashable) -> Slot | None:
        slots = self._idle.get(service)
        return min(slots, key=_most_in_a_row) if slots else None

    def _protected(self, service: Hashable) -> Slot | None:
        idle = self._idle.get(service, ())
        slots = [slot for slot in idle if slot.state == GpuState.PROTECTED]
        return min(slots, key=_most_in_a_row, default=None)

    def _any(self, service: Hashable, rng: np.random.Generator) -> Slot | None:
        gpus = {gpu for free in self.free_on.values() for gpu in free} | self._partly
        found = [
            next(slot for slot in self.of_gpu[gpu] if slot.service is None)
            for gpu in sorted(gpus)
            if not self._has(gpu, service)
        ]
        warm = sorted(self._warm, key=lambda slot: (slot.gpu, slot.number))
        found += [
            slot for slot in warm if slot.service == service or not self._has(slot.gpu, service)
        ]
        return found[int(rng.integers(len(found)))] if found else None

    def _empty(self, service: Hashable) -> Slot | None:
        for gpu in sorted(self._partly):
            if not self._has(gpu, service):
                return next(slot for slot in self.of_gpu[gpu] if slot.service is None)
        nodes = [node for node, gpus in self.free_on.items() if gpus]
        if not nodes:
            return None
        node = min(nodes, key=lambda each: (self.loans_on[each], each))
        return self.of_gpu[min(self.free_on[node])][0]

    def _other(self, service: Hashable) -> Slot | None:
        slots: Iterable[Slot] = (slot for slot in self._warm if not self._has(slot.gpu, service))
        return min(slots, key=lambda slot: (slot.since_s, slot.gpu, slot.number), default=None)

    def _has(self, gpu: int, service: Hashable) -> bool:
        return any(slot.service == service for slot in self.of_gpu[gpu])

    def _book(self, gpu: int) -> None:
        """Note whether a GPU has nothing loaded, or room for more."""
        slots = self.of_gpu[gpu]
        empty = sum(slot.service is None for slot in slots)
        free = self.free_on[self.nodes[gpu]]
        (free.add if empty == len(slots) else free.discard)(gpu)
        (self._partly.add if 0 < empty < len(slots) else self._partly.discard)(gpu)


def _most_in_a_row(slot: Slot) -> tuple[int, bool, int, int]:
    return -slot.count, slot.state != GpuState.PROTECTED, slot.gpu, slot.number


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

    def heads(self, loading: Mapping[Hashable, int]) -> list[tuple[WaitingRequest, bool]]:
        """Oldest request of each service, and whether a GPU is loading for it, the oldest first.

        Where GPUs are, the oldest that none is loading for follows, by its own age.
        """
        if not loading:
            return [(head, False) for head in self.oldest()]
        found = []
        for service, queue in self.of_service.items():
            found += [(queue[0], True)] if queue and loading.get(service) else []
            place = loading.get(service, 0)
            found += [(queue[place], False)] if len(queue) > place else []
        return sorted(found)

    def uncovered(self, loading: Mapping[Hashable, int]) -> int:
        """Count the requests that wait and that no GPU is loading for."""
        if not loading:
            return self.count
        return sum(max(len(q) - loading.get(name, 0), 0) for name, q in self.of_service.items())

    def take(self, service: Hashable) -> WaitingRequest:
        """Take the oldest request of a service out."""
        self.count -= 1
        return self.of_service[service].popleft()
