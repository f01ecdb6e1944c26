"""Messages that pass dimensions of a network of which some serve the last that came first."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.sim.network.collectives import Cost
    from apportion.sim.network.profile import Exchange


class _Dimensions:
    """Dimensions that serve one message at a time, and pass it on to the next one.

    A message is its number, in the order of issue, and the seconds that it takes in each dimension.
    """

    def __init__(self, last_first: Sequence[bool]) -> None:
        self._last_first = last_first
        self._waiting: list[list[tuple[int, list[float]]]] = [[] for _ in last_first]
        self._busy = [False] * len(last_first)
        self._ends: list[tuple[float, int, int, list[float]]] = []  # when, dimension, message
        self.over_s: dict[int, float] = {}

    def issue(self, now_s: float, message: int, seconds: list[float]) -> None:
        """Let a message queue for the innermost dimension."""
        self._come(now_s, 0, (message, seconds))

    def run(self, until_s: float) -> None:
        """Serve all that ends before a time."""
        while self._ends and self._ends[0][0] < until_s:
            self._step()

    def wait_for(self, message: int) -> float:
        """Serve until a message is through, and return when that is."""
        while message not in self.over_s:
            self._step()
        return self.over_s[message]

    def _step(self) -> None:
        now_s, dimension, message, seconds = heappop(self._ends)
        self._busy[dimension] = False
        self._come(now_s, dimension + 1, (message, seconds))
        self._serve(now_s, dimension)

    def _come(self, now_s: float, dimension: int, message: tuple[int, list[float]]) -> None:
        if dimension == len(self._busy):
            self.over_s[message[0]] = now_s
            return
        self._waiting[dimension].append(message)
        self._serve(now_s, dimension)

    def _serve(self, now_s: float, dimension: int) -> None:
        waiting = self._waiting[dimension]
        if self._busy[dimension] or not waiting:
            return
        chosen = max(waiting) if self._last_first[dimension] else min(waiting)
        waiting.remove(chosen)
        self._busy[dimension] = True
        message, seconds = chosen
        heappush(self._ends, (now_s + seconds[dimension], dimension, message, seconds))


def end_in_orders_s(
    parts: Iterable[tuple[float, Exchange, bool]],
    costs: Mapping[str, Sequence[Cost]],
    last_first: Sequence[bool],
) -> float:
    """Return when an iteration ends, as `apportion.sim.network.profile.timeline` has it.

    Parameters
    ----------
    parts
        Compute seconds, what is sent after them, and whether that is waited for.
    costs
        Of each collective, one for each dimension.
    last_first
        Whether the message that was issued last is the next one in a dimension, else the first.
    """
    dimensions, now_s, sent = _Dimensions(last_first), 0.0, 0
    for seconds, exchange, waited_for in parts:
        now_s += seconds
        if not exchange.size_bytes:
            continue
        dimensions.run(now_s)
        each_s = [cost.seconds(exchange.size_bytes) for cost in costs[exchange.collective]]
        dimensions.issue(now_s, sent, each_s)
        now_s = dimensions.wait_for(sent) if waited_for else now_s
        sent += 1
    return max([now_s, *map(dimensions.wait_for, range(sent))])
