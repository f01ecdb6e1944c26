"""How many GPUs of a type will be free when, as far as is known now."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

__all__ = ["FreeGpus"]

_SAME_TIME = 1e-9
"""Part of a length of time by which two are one but for rounding."""


class FreeGpus:
    """Free GPUs of one type from now on: a count that changes when jobs end, or begin as planned.

    Parameters
    ----------
    now_s
        The time, seconds.
    gpus
        How many are free now.
    """

    def __init__(self, now_s: float, gpus: int) -> None:
        self._times, self._free = [now_s], [gpus]

    def at(self, at_s: float) -> int:
        """Return how many are free at a time from now on."""
        return self._free[bisect_right(self._times, at_s) - 1]

    def returned(self, at_s: float, gpus: int) -> None:
        """Let GPUs be free from a time on."""
        for place in range(self._split(at_s), len(self._times)):
            self._free[place] += gpus

    def take(self, from_s: float, length_s: float, gpus: int) -> None:
        """Let GPUs be held from a time on, for so long."""
        first, last = self._split(from_s), self._split(from_s + length_s)
        for place in range(first, last):
            self._free[place] -= gpus

    def earliest_s(self, gpus: int, length_s: float) -> float:
        """Return from when on so many are free for so long; infinite for never."""
        start = 0
        while True:
            while start < len(self._free) and self._free[start] < gpus:
                start += 1
            if start == len(self._free):
                return float("inf")
            # A job that ends when the next one begins is not in its way, rounding apart.
            end_s = self._times[start] + length_s * (1 - _SAME_TIME)
            last = bisect_left(self._times, end_s)
            short = next((i for i in range(start, last) if self._free[i] < gpus), None)
            if short is None:
                return self._times[start]
            start = short

    def _split(self, at_s: float) -> int:
        """Return the place of the stretch that begins at a time, made if there is none."""
        at_s = max(at_s, self._times[0])
        if at_s == float("inf"):
            return len(self._times)
        place = bisect_left(self._times, at_s)
        if place == len(self._times) or self._times[place] != at_s:
            insort(self._times, at_s)
            self._free.insert(place, self._free[bisect_right(self._times, at_s) - 2])
        return place
