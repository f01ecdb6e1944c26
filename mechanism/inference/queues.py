"""Requests that have a GPU, and those that wait for one, by service and by when they came."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

__all__ = ["ServedRequest", "WaitingRequest", "WaitingRequests"]


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

    def state(self) -> list[Any]:
        """Return who waits, for JSON."""
        return [list(each) for queue in self.of_service.values() for each in queue]

    def restore(self, state: Iterable[Any]) -> None:
        """Take up a state of `state` where nobody waits."""
        for each in state:
            self.add(WaitingRequest(*each))
