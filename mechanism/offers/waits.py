"""The waits of the recent past, with sums that cost the same however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.types import Floats

_UNIT = 1074
"""Floats are whole multiples of ``2 ** -_UNIT``: sums of those are exact in whatever order."""


class Waits:
    """Waits that come and go in the order of time; numpy reads them as an array, oldest first.

    Parameters
    ----------
    seconds
        Waits, all noted at time 0.
    """

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self._rows = np.empty((2, 16))
        self._first = self._end = 0
        self._sum = self._squares = 0  # in units, and in squares of units
        for wait_s in seconds:
            self.add(0.0, wait_s)

    @property
    def size(self) -> int:
        """How many there are."""
        return self._end - self._first

    @property
    def times_s(self) -> Floats:
        """When each was over, seconds, shape (waits,)."""
        return self._rows[0, self._first : self._end]

    @property
    def seconds(self) -> Floats:
        """How long each was, shape (waits,)."""
        return self._rows[1, self._first : self._end]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """Return how long each was."""
        return np.array(self.seconds, dtype=dtype)

    def mean(self) -> float:
        """Return the mean, seconds: the exact one, rounded once."""
        return self._sum / (self.size << _UNIT)

    def variance(self, *, less: int = 0) -> float:
        """Return the exact sum of the squared deviations from the mean over ``size - less``."""
        size = self.size
        squares = size * self._squares - self._sum * self._sum
        return squares / (size * (size - less) << 2 * _UNIT)

    def add(self, time_s: float, wait_s: float) -> None:
        """Note a wait that is over now."""
        if self._end == self._rows.shape[1]:
            used = self._rows[:, self._first :]
            self._rows = np.empty((2, 2 * used.shape[1] + 16))
            self._rows[:, : used.shape[1]] = used
            self._first, self._end = 0, used.shape[1]
        self._rows[:, self._end] = time_s, wait_s
        self._end += 1
        self._count(wait_s, 1)

    def forget(self, before_s: float) -> None:
        """Forget the waits that were over before a time."""
        old = int(np.searchsorted(self.times_s, before_s))
        for wait_s in self.seconds[:old].tolist():
            self._count(wait_s, -1)
        self._first += old

    def _count(self, wait_s: float, times: int) -> None:
        whole, parts = wait_s.as_integer_ratio()
        shift = _UNIT + 1 - parts.bit_length()
        self._sum += times * whole << shift
        self._squares += times * whole * whole << 2 * shift
