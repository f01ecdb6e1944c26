"""The delay timers in force, by number of GPUs, and the waits of the recent past behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import check_memory
from apportion.cluster import TIERS
from apportion.mechanism.scheduler import MACHINE, NETWORK, RACK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.mechanism.offers.timers import Timers
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
        times_s, seconds = self._rows
        while self._first < self._end and times_s.item(self._first) < before_s:
            self._count(seconds.item(self._first), -1)
            self._first += 1

    def _count(self, wait_s: float, times: int) -> None:
        whole, parts = wait_s.as_integer_ratio()
        shift = _UNIT + 1 - parts.bit_length()
        self._sum += times * whole << shift
        self._squares += times * whole * whole << 2 * shift


class TimerBook:
    """Keeps the lists of waits of the auto-tuner and the timers that follow from them.

    Parameters
    ----------
    timers
        How timers are settled.
    lease_s
        Length of a lease, seconds.
    gpus_per_machine, gpus_per_rack
        A gang that is larger than a machine has no machine timer; one larger than a rack has none
        at all: both are 0. These are the largest; types of a gang may have smaller ones.
    gpus
        GPUs of the cluster: the largest gang.

    Attributes
    ----------
    waits_until_s
        Wait after which a gang accepts each tier, by number of GPUs, seconds, shape (gpus + 1,
        tiers): nothing for a machine, and the timers, on the largest machines and racks.
    machine_s, rack_s
        The timers in `waits_until_s`, shape (gpus + 1,).
    of_size
        Machine and rack timer by number of GPUs.
    tuned
        Whether timers follow the waits.
    """

    def __init__(
        self,
        timers: Timers,
        lease_s: float,
        *,
        gpus_per_machine: int,
        gpus_per_rack: int,
        gpus: int,
    ) -> None:
        self._timers, self._lease_s, self.tuned = timers, lease_s, timers.tuned
        self._machine, self._rack = gpus_per_machine, gpus_per_rack
        self._windows: dict[tuple[int, int], Waits] = {}
        self._timer_s: dict[tuple[int, int], float] = {}
        check_memory("GPUs of one type", gpus, 200)
        self.waits_until_s: Floats = np.zeros((gpus + 1, len(TIERS)))
        self.machine_s, self.rack_s = self.waits_until_s[:, RACK], self.waits_until_s[:, NETWORK]
        self.of_size = [(0.0, 0.0)] * (gpus + 1)
        for scale_factor in range(1, gpus + 1):
            self._settle(scale_factor)

    def waits_s(self, tier: int, scale_factor: int) -> Floats:
        """Return the waits that gangs of a size had before they got a tier, oldest first."""
        window = self._windows.get((tier, scale_factor))
        return np.empty(0) if window is None else window.seconds

    def record(self, tier: int, scale_factor: int, now_s: float, waited_s: float) -> bool:
        """Write down that a gang got a machine or a rack after a wait, and forget old waits.

        Return whether timers of gangs of that size may have changed by it.
        """
        if tier > RACK or not self._timers.records(waited_s, self._lease_s):
            return False
        key = tier, scale_factor
        known = self._windows.get(key)
        window = known or self._windows.setdefault(key, Waits())
        window.add(now_s, waited_s)
        window.forget(now_s - self._timers.history_s)
        before_s = self._timer_s.pop(key)
        self._settle(scale_factor)
        return known is None or self._timer_s[key] != before_s

    def _settle(self, scale_factor: int) -> None:
        """Work out the timers of one size."""
        beyond = (scale_factor > self._machine) + (scale_factor > self._rack)
        largest = self.of_size[scale_factor] = self.timers_s(scale_factor, beyond)
        self.machine_s[scale_factor], self.rack_s[scale_factor] = largest

    def timers_s(self, scale_factor: int, beyond: int) -> tuple[float, float]:
        """Return machine and rack timer of gangs of a size.

        A machine (0), a rack (1) or none (2) of their types holds them, see `ClusterSize.beyond`.
        """
        machine_s = self._after_waits_s(MACHINE, scale_factor)
        rack_s = self._after_waits_s(RACK, scale_factor)
        if beyond:
            known = self.waits_s(RACK, scale_factor).size > 0
            shorter = self._timers.rack_timer_when_oversize == "less_machine_timer" and not known
            if shorter and np.isfinite(machine_s):
                rack_s = max(rack_s - machine_s, 0.0)
            machine_s = 0.0
        elif self._timers.nested:
            rack_s = max(rack_s, machine_s)
        return machine_s, 0.0 if beyond > 1 else rack_s

    def _after_waits_s(self, tier: int, scale_factor: int) -> float:
        """Return the timer of a tier that follows from its waits alone, seconds."""
        known = self._timer_s.get((tier, scale_factor))
        if known is None:
            waits = self._windows.get((tier, scale_factor)) or Waits()
            known = self._timers.timer_s(tier, waits, self._lease_s)
            self._timer_s[tier, scale_factor] = known
        return known
