"""How long a job holds out for a machine, and how long for a rack: set by hand, or auto-tuned."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from apportion.checks import seconds
from apportion.mechanism.decider import Part
from apportion.mechanism.scheduler import MACHINE, NETWORK, RACK
from apportion.mechanisms.settings import TICK_S
from apportion.mechanisms.timers import check_timers, timer_seconds

if TYPE_CHECKING:
    from apportion.types import Floats

_HOUR_S = 3600.0
_MANUAL_S = (12 * _HOUR_S, 24 * _HOUR_S)


class Waits:
    """Waits of the recent past, oldest first, in whole ticks: their sums are exact."""

    def __init__(self) -> None:
        self._waits = deque[tuple[float, int]]()
        self._sum = self._squares = 0

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self._waits)

    @property
    def seconds(self) -> Floats:
        """How long each was, shape (waits,)."""
        return np.array([ticks for _, ticks in self._waits], dtype=float) * TICK_S

    def mean(self) -> float:
        """Return the mean, seconds."""
        return self._sum / self.size * TICK_S

    def variance(self, *, less: int = 0) -> float:
        """Return the sum of the squared deviations from the mean over ``size - less``."""
        squares = self.size * self._squares - self._sum * self._sum
        return squares / (self.size * (self.size - less)) * TICK_S**2

    def add(self, now_s: float, wait_s: float, history_s: float) -> None:
        """Add a wait that is over now, and forget those that were over before the history."""
        self._waits.append((now_s, round(wait_s / TICK_S)))
        self._count(self._waits[-1][1], 1)
        while self._waits[0][0] < now_s - history_s:
            self._count(self._waits.popleft()[1], -1)

    def _count(self, ticks: int, times: int) -> None:
        self._sum += times * ticks
        self._squares += times * ticks * ticks


class Timers(Part):
    """Settles the delay timers; the base of such, which by itself remembers no waits."""

    tuned: ClassVar[bool] = False
    """Whether the timers follow the waits."""
    history_s: float = 0.0
    """Age at which waits are forgotten, seconds."""

    def records(self, waited_s: float, lease_s: float) -> bool:
        """Whether a wait is kept."""
        return False

    def timer_s(self, tier: int, waits: Waits, lease_s: float) -> float:
        """Return the timer of a tier (machine or rack) after such waits, seconds."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class ManualTimers(Timers):
    """Delay timers that never change, both counted from the start of the wait.

    Source: Dally (Sharma et al., 2024), which uses 12 h and 24 h.

    Parameters
    ----------
    machine_s
        Seconds that a job waits for a machine before it accepts a rack; infinite for ever.
    rack_s
        Seconds that it waits before it accepts GPUs of several racks; infinite for ever.

    Raises
    ------
    InputError
        For a negative timer.
    """

    machine_s: float = _MANUAL_S[0]
    rack_s: float = _MANUAL_S[1]

    def __post_init__(self) -> None:
        super().__post_init__()
        seconds("machine_s", self.machine_s, infinite=True)
        seconds("rack_s", self.rack_s, infinite=True)

    def timer_s(self, tier: int, waits: Waits, lease_s: float) -> float:
        """Return the timer of a tier, seconds."""
        return self.machine_s if tier == MACHINE else self.rack_s


@dataclass(frozen=True, repr=False)
class AutoTunedTimers(Timers):
    """Delay timers that follow the waits of the recent past, by tier and number of GPUs.

    A timer is the mean of the waits after which gangs of that size got a machine (a rack), plus
    two sample standard deviations. Source: Dally (Sharma et al., 2024), Algorithm 2; the three
    switches, off by default, are what the authors' simulator does instead.

    Parameters
    ----------
    history_s
        Age at which waits are forgotten, seconds; looked at whenever another wait is added to the
        same list. The paper leaves it to the user; two days hold waits up to twice the longer one
        of the manual timers.
    initial
        Machine and rack timer, seconds, of sizes of which no wait is known. The paper has none; the
        manual timers are as patient as its authors are without knowledge.
    population_deviation
        Divide the squared deviations by n and not by n - 1.
    bounded
        Whole leases, at least 6 (machine) and 12 (rack), at most 0.8 and 1 times the history; with
        no wait known, those least values (and `initial` has no meaning).
    drops_short_waits
        Leave out waits of less than a lease, as the authors' simulator does. Algorithm 2 records
        every offer that is accepted, also that of a job which gets its GPUs again at the end of a
        lease and has waited for nothing, so that timers shrink where leases are renewed. What it
        changes is printed by ``python -m benchmarks.dally.tuner``.

    Raises
    ------
    InputError
        For a history that is not above 0, or a negative initial timer.
    """

    tuned: ClassVar[bool] = True

    history_s: float = 48 * _HOUR_S
    initial: tuple[float, float] = _MANUAL_S
    population_deviation: bool = False
    bounded: bool = False
    drops_short_waits: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        seconds("history_s", self.history_s, strict=True, infinite=True)
        for value in self.initial:
            seconds("initial", value, infinite=True)

    def records(self, waited_s: float, lease_s: float) -> bool:
        """Whether a wait is kept."""
        return waited_s >= lease_s or not self.drops_short_waits

    def timer_s(self, tier: int, waits: Waits, lease_s: float) -> float:
        """Return the timer of a tier after such waits, seconds."""
        if not self.bounded:
            return self._typical_s(waits) if waits.size else self.initial[tier]
        leases = math.ceil(self._typical_s(waits) / lease_s) if waits.size else 1
        least, most = ((6, 0.8), (12, 1.0))[tier]
        return min(math.ceil(most * self.history_s / lease_s), max(least, leases)) * lease_s

    def _typical_s(self, waits: Waits) -> float:
        """Mean and two standard deviations, which are 0 for a single wait."""
        if waits.size == 1:
            return waits.mean()
        return waits.mean() + 2 * math.sqrt(waits.variance(less=not self.population_deviation))


def get_timers(timers: Any) -> Timers | None:
    """Return delay timers by name, of two numbers of seconds, or a value as it is.

    Parameters
    ----------
    timers
        ``"none"``, which is None, ``"manual"``, ``"tuned"``, seconds such as ``"3600,7200"``, or a
        value.

    Raises
    ------
    InputError
        If it is none of these.
    """
    check_timers(timers)
    if not isinstance(timers, str):
        return timers  # type: ignore[no-any-return]
    if "," in timers:
        return ManualTimers(*timer_seconds(timers))
    return {"none": None, "manual": ManualTimers(), "tuned": AutoTunedTimers()}[timers]


class DelayTimers:
    """Delay timers in force, by size of the gang, and the waits behind them.

    Parameters
    ----------
    settings
        How timers are settled.
    lease_s
        Length of a lease, seconds.
    machine_gpus, rack_gpus
        GPUs of the largest machine and rack.
    """

    def __init__(self, settings: Timers, lease_s: float, machine_gpus: int, rack_gpus: int) -> None:
        self._settings, self._lease_s = settings, lease_s
        self._largest = machine_gpus, rack_gpus
        self._waits: dict[tuple[int, int], Waits] = {}
        self._timer_s: dict[tuple[int, int], float] = {}

    def of(self, gpus: int, machine_gpus: int, rack_gpus: int) -> tuple[float, float]:
        """Return machine and rack timer of gangs of a size.

        A gang that no machine holds has no machine timer, one that no rack holds none at all: then
        they are 0. The rack timer is never shorter than the machine timer.
        """
        if gpus > rack_gpus:
            return 0.0, 0.0
        rack_s = self._of_tier_s(RACK, gpus)
        if gpus > machine_gpus:
            return 0.0, rack_s
        machine_s = self._of_tier_s(MACHINE, gpus)
        return machine_s, max(machine_s, rack_s)

    def of_size(self, gpus: int) -> tuple[float, float]:
        """Return machine and rack timer where machines and racks are largest."""
        return self.of(gpus, *self._largest)

    def waits(self, tier: int, gpus: int) -> Waits:
        """Return the waits that gangs of a size had before they got a tier."""
        return self._waits.get((tier, gpus)) or Waits()

    def record(self, tier: int, gpus: int, now_s: float, wait_s: float) -> bool:
        """Add the wait after which a gang got a tier; return whether timers may have changed."""
        settings, key = self._settings, (tier, gpus)
        if tier == NETWORK or not settings.records(wait_s, self._lease_s):
            return False
        self._waits.setdefault(key, Waits()).add(now_s, wait_s, settings.history_s)
        before_s = self._timer_s.pop(key, None)
        return self._of_tier_s(*key) != before_s

    def _of_tier_s(self, tier: int, gpus: int) -> float:
        key = tier, gpus
        if key not in self._timer_s:
            waits = self.waits(*key)
            self._timer_s[key] = self._settings.timer_s(tier, waits, self._lease_s)
        return self._timer_s[key]
