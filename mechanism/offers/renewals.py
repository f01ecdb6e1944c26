"""Leases that follow each other without a change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Renewals", "remembered"]


class Renewals(NamedTuple):
    """A job gets the same GPUs again at `first_s` and then every `cycle_s`, in seconds."""

    first_s: float
    cycle_s: float

    def before(self, now_s: float) -> int:
        """Return how many renewals lie before a time."""
        return max(math.ceil((now_s - self.first_s) / self.cycle_s), 0)

    def start_s(self, number: int) -> float:
        """Return the time of a renewal; the first one is number 0."""
        return self.first_s + number * self.cycle_s

    def remembered(self, now_s: float, history_s: float) -> list[float]:
        """Return the times of renewals before now of which delay timers must be told.

        Those between the first and the last stretch of the timers' history are left out: by then
        no longer wait is remembered, and one more wait of nothing changes nothing.
        """
        count = self.before(now_s)
        if not count:
            return []
        edge = math.ceil(history_s / self.cycle_s) + 1
        numbers = [*range(min(count, edge)), *range(max(edge, count - edge), count)]
        return [self.start_s(number) for number in numbers]


def remembered(
    asleep: Mapping[int, Renewals], now_s: float, history_s: float
) -> list[tuple[float, int]]:
    """Return time and job of renewals of which delay timers must be told, in order."""
    return sorted(
        (renewed_s, job)
        for job, renewals in asleep.items()
        for renewed_s in renewals.remembered(now_s, history_s)
    )
