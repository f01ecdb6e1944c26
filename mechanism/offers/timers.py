"""How long a job holds out for a machine, and how long for a rack: set by hand, or auto-tuned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from apportion.checks import choice, number, seconds
from apportion.mechanism.decider import Part
from apportion.mechanism.scheduler import MACHINE
from apportion.mechanisms.timers import check_timers, timer_seconds

if TYPE_CHECKING:
    from apportion.mechanism.offers.timer_book import Waits

_HOUR_S = 3600.0
_MANUAL_S = (12 * _HOUR_S, 24 * _HOUR_S)

OversizeRule = Literal["unchanged", "less_machine_timer"]
"""What becomes of the rack timer of a gang that no machine holds."""

_OVERSIZE_RULES = ("unchanged", "less_machine_timer")


class Timers(Protocol):
    """Settles the delay timers from the waits that jobs of the same size had."""

    tuned: ClassVar[bool]
    """Whether the timers follow the waits."""

    @property
    def history_s(self) -> float:
        """Age at which waits are forgotten, seconds."""
        ...

    @property
    def nested(self) -> bool:
        """Whether the rack timer is never shorter than the machine timer."""
        ...

    @property
    def rack_timer_when_oversize(self) -> OversizeRule:
        """What becomes of the rack timer of a gang that no machine holds."""
        ...

    def records(self, waited_s: float, lease_s: float) -> bool:
        """Whether a wait is kept."""
        ...

    def timer_s(self, tier: int, waits: Waits, lease_s: float) -> float:
        """Return the timer of a tier (machine or rack) after such waits, seconds."""
        ...


@dataclass(frozen=True, repr=False)
class ManualTimers(Part):
    """Delay timers that never change, both counted from the start of the wait.

    Source: Dally (Sharma et al., 2024), which uses 12 h and 24 h.

    Parameters
    ----------
    machine_s
        Seconds that a job waits for a machine before it accepts a rack; infinite for ever.
    rack_s
        Seconds that it waits before it accepts GPUs of several racks; infinite for ever.
    nested
        Whether a job that accepts several racks must have come to accept one rack, too: the rack
        timer is at least the machine timer.
    rack_timer_when_oversize
        A gang that no machine holds has no machine timer. Its rack timer stays ``"unchanged"``, or
        is shorter by the machine timer (``"less_machine_timer"``), so that it holds out for a rack
        as long as a smaller gang does after its machine timer. The paper leaves it open. Timers
        that follow from waits are what they are: such gangs have waited for a rack all the time.

    Raises
    ------
    InputError
        For a negative timer, or an unknown rule.
    """

    tuned: ClassVar[bool] = False

    machine_s: float = _MANUAL_S[0]
    rack_s: float = _MANUAL_S[1]
    nested: bool = True
    rack_timer_when_oversize: OversizeRule = "unchanged"

    def __post_init__(self) -> None:
        super().__post_init__()
        seconds("machine_s", self.machine_s, infinite=True)
        seconds("rack_s", self.rack_s, infinite=True)
        _check_rule(self.rack_timer_when_oversize)

    @property
    def history_s(self) -> float:
        """Age at which waits are forgotten, seconds: none is kept."""
        return 0.0

    def records(self, waited_s: float, lease_s: float) -> bool:
        """No wait is kept."""
        return False

    def timer_s(self, tier: int, waits: Waits, lease_s: float) -> float:
        """Return the timer of a tier, seconds."""
        return self.machine_s if tier == MACHINE else self.rack_s


@dataclass(frozen=True, repr=False)
class AutoTunedTimers(Part):
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
    history_gpus
        GPUs of the cluster for which `history_s` is meant: on one of n times as many it is an n-th,
        in which as many waits are to be expected. The paper wants shorter histories on larger
        clusters and gives no figure. ``None``, the default: the same on all.
    initial
        Machine and rack timer, seconds, of sizes of which no wait is known. The paper has none; the
        manual timers are as patient as its authors are without knowledge.
    nested, rack_timer_when_oversize
        As in `ManualTimers`.
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
        For a history that is not above 0, a negative initial timer, or an unknown rule.
    """

    tuned: ClassVar[bool] = True

    history_s: float = 48 * _HOUR_S
    history_gpus: float | None = None
    initial: tuple[float, float] = _MANUAL_S
    nested: bool = True
    rack_timer_when_oversize: OversizeRule = "unchanged"
    population_deviation: bool = False
    bounded: bool = False
    drops_short_waits: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        seconds("history_s", self.history_s, strict=True, infinite=True)
        if self.history_gpus is not None:
            number("history_gpus", self.history_gpus, strict=True)
        for value in self.initial:
            seconds("initial", value, infinite=True)
        _check_rule(self.rack_timer_when_oversize)

    def on_cluster(self, gpus: int) -> AutoTunedTimers:
        """Return the timers with the history that they have on a cluster of so many GPUs."""
        if self.history_gpus is None:
            return self
        history_s = self.history_s * self.history_gpus / gpus
        return replace(self, history_s=history_s, history_gpus=None)

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
    named: dict[str, Timers | None] = {
        "none": None,
        "manual": ManualTimers(),
        "tuned": AutoTunedTimers(),
    }
    return named[timers]


def _check_rule(rule: str) -> None:
    choice("rack_timer_when_oversize", rule, _OVERSIZE_RULES)
