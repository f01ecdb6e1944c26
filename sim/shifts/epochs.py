"""When shifts are chosen anew."""

from __future__ import annotations

import math

from apportion.resumable import Resumable

ROUNDING = 1e-9
"""Part of an epoch that sums of seconds may be off by."""


class Epochs(Resumable):
    """Epochs of one length from the first time that is told.

    Parameters
    ----------
    length_s
        Seconds; 0 if every time is the start of one.

    """

    kept = ("_first_s", "_number", "_due")

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._first_s: float | None = None
        self._number = -1
        self._due = True

    @property
    def due(self) -> bool:
        """Whether an epoch begins now whose shifts have not been chosen."""
        return self._due or not self._length_s

    def chosen(self) -> None:
        """Take note that the shifts of the epoch have been chosen."""
        self._due = False

    @property
    def next_s(self) -> float:
        """When the next epoch begins, seconds; never if every time is a start."""
        if self._first_s is None or not self._length_s:
            return math.inf
        return self._first_s + (self._number + 1) * self._length_s

    def at(self, now_s: float) -> bool:
        """Take note of the time; return whether shifts are due.

        They are at the very start of an epoch: those that come later in it wait for the next.
        """
        if self._first_s is None:
            self._first_s = now_s
        if self._length_s:
            off_s = ROUNDING * self._length_s + 4 * math.ulp(now_s)
            number = math.floor((now_s - self._first_s + off_s) / self._length_s)
            begins = now_s - self._first_s - number * self._length_s <= off_s
            self._due = begins and (self._due or number > self._number)
            self._number = max(number, self._number)
        return self.due
