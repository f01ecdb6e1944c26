"""What one iteration of a job sends over a link, and when: the communication profile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.checks import label, listed, number, seconds
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from apportion.types import Floats


ROUNDING = 1e-9
"""Part of a period that sums of seconds may be off by."""

_NEGLIGIBLE = 1e-5
"""Part of a period by which a pace may be too short."""


class CommunicationPhase(NamedTuple):
    """A stretch of an iteration with one demand.

    Attributes
    ----------
    start_s
        From the start of the iteration, seconds.
    duration_s
        Seconds.
    gbps
        What the job would send if it had the link for itself, Gb/s.
    """

    start_s: float
    duration_s: float
    gbps: float


@dataclass(frozen=True, init=False)
class CommunicationProfile:
    """What one iteration of a job sends over a link; every iteration is the same.

    A profile is a circle whose perimeter is the period: a phase may go over the end of the period
    and then goes on at its start. Outside of its phases the job is silent (Rajasekaran et al.,
    CASSINI, NSDI 2024, section 3).

    Parameters
    ----------
    name
        Of the job or model, as errors and pictures show it.
    period_s
        Seconds of an iteration that has the network for itself.
    phases
        `CommunicationPhase` or (start, duration, Gb/s), in any order; none for a job that sends
        nothing. Phases without length or demand are left out.

    Raises
    ------
    InputError
        If the period is not above 0, a phase starts outside of the period or is longer than it,
        or two phases overlap; it names the profile and the phases.

    Examples
    --------
    >>> CommunicationProfile("vgg", 0.1, [(0.05, 0.05, 50.0)]).mean_gbps
    25.0
    """

    name: str
    period_s: float
    phases: tuple[CommunicationPhase, ...]

    def __init__(
        self, name: str, period_s: float, phases: Iterable[tuple[float, float, float]] = ()
    ) -> None:
        name = label("name of a communication profile", name)
        where = f"of the communication profile {name!r}"
        period_s = seconds(f"The period {where}", period_s, strict=True)
        given = [_phase(each, where) for each in listed(f"The phases {where}", phases)]
        kept = sorted(each for each in given if each.duration_s > 0 and each.gbps > 0)
        _check_phases(kept, period_s, where)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "period_s", period_s)
        object.__setattr__(self, "phases", tuple(kept))

    @classmethod
    def in_turn(cls, name: str, phases: Iterable[tuple[float, float]]) -> CommunicationProfile:
        """Return the profile of phases that follow each other; their lengths make the period.

        Parameters
        ----------
        name
            As above.
        phases
            (seconds, Gb/s) of each, 0 Gb/s where the job is silent.
        """
        where = f"of the communication profile {name!r}"
        now, placed = 0.0, []
        for each in listed(f"The phases {where}", phases):
            duration_s, gbps = _numbers(each, 2, where, "(seconds, Gb/s)")
            phase = _phase((now, duration_s, gbps), where)
            placed.append(phase)
            now += phase.duration_s
        return cls(name, now, tuple(placed))

    @property
    def mean_gbps(self) -> float:
        """Demand on average over the period, Gb/s."""
        return self.gigabits / self.period_s

    @property
    def peak_gbps(self) -> float:
        """Largest demand, Gb/s."""
        return max((phase.gbps for phase in self.phases), default=0.0)

    @property
    def gigabits(self) -> float:
        """Gigabits that an iteration sends."""
        return sum(phase.duration_s * phase.gbps for phase in self.phases)

    @property
    def duty(self) -> float:
        """Part of the period in which the job sends."""
        return min(1.0, sum(phase.duration_s for phase in self.phases) / self.period_s)

    def demand(self, times_s: ArrayLike) -> Floats:
        """Return the demand at some times, Gb/s, of the shape of the times."""
        since = np.asarray(times_s, dtype=float)
        total = np.zeros(since.shape)
        for phase in self.phases:
            inside = np.mod(since - phase.start_s, self.period_s) < phase.duration_s
            total += phase.gbps * inside
        return total

    def shifted(self, shift_s: float) -> CommunicationProfile:
        """Return the profile of a job that starts so many seconds later."""
        number(f"The shift of {self.name!r}", shift_s, least=-np.inf)
        starts = [float(np.mod(each.start_s + shift_s, self.period_s)) for each in self.phases]
        moved = [
            # A start that rounds up to the period is one at 0.
            each._replace(start_s=start if start < self.period_s else 0.0)
            for start, each in zip(starts, self.phases, strict=True)
        ]
        return replace(self, phases=tuple(moved))

    def paced(self, period_s: float) -> CommunicationProfile:
        """Return the profile of a job that waits at the end of every iteration, up to a period.

        Raises
        ------
        InputError
            If the period is shorter than its own by more than rounding.
        """
        least = self.period_s * (1 - _NEGLIGIBLE)
        if number(f"The pace of {self.name!r}", period_s, least=least) <= self.period_s:
            return self
        phases: list[CommunicationPhase] = []
        for each in self.phases:  # what goes over the end is sent at the start, and then it waits
            over_s = each.start_s + each.duration_s - self.period_s
            if over_s > ROUNDING * self.period_s:
                phases.append(each._replace(start_s=0.0, duration_s=over_s))
                phases.append(each._replace(duration_s=each.duration_s - over_s))
            else:
                phases.append(each)
        return CommunicationProfile(self.name, period_s, phases)

    def named(self, name: str) -> CommunicationProfile:
        """Return the same profile under another name."""
        return replace(self, name=name)


def profiles_of(profiles: Any) -> list[CommunicationProfile]:
    """Check the profiles of the jobs on a link.

    Raises
    ------
    InputError
        If there are none, or something is no `CommunicationProfile`.
    """
    given = listed("profiles", profiles, "a list of CommunicationProfile")
    for each in given:
        if not isinstance(each, CommunicationProfile):
            raise InputError(f"profiles has {written(each)}; it must be a CommunicationProfile.")
    if not given:
        raise InputError("profiles is empty; a link needs at least one job.")
    return given


def _phase(given: Any, where: str) -> CommunicationPhase:
    """Read a phase and check its numbers."""
    start_s, duration_s, gbps = _numbers(given, 3, where, "(start, duration, Gb/s)")
    return CommunicationPhase(
        seconds(f"The start of a phase {where}", start_s),
        seconds(f"The duration of a phase {where}", duration_s),
        number(f"The Gb/s of a phase {where}", gbps),
    )


def _numbers(given: Any, length: int, where: str, form: str) -> list[Any]:
    parts = listed(f"A phase {where}", given, form)
    if len(parts) != length:
        raise InputError(f"A phase {where} is {written(given)}; it must be {form}.")
    return parts


def _check_phases(phases: list[CommunicationPhase], period_s: float, where: str) -> None:
    """Refuse phases that the period does not hold, and two at one time."""
    rounding = ROUNDING * period_s
    for phase in phases:
        if phase.start_s >= period_s or phase.duration_s > period_s + rounding:
            raise InputError(
                f"A phase {where} starts at {phase.start_s:g} s and takes {phase.duration_s:g} s; "
                f"it must start within the period of {period_s:g} s and be no longer than it."
            )
    following = [*phases[1:], *(each._replace(start_s=each.start_s + period_s) for each in phases)]
    for before, after in zip(phases, following, strict=False):
        if before.start_s + before.duration_s > after.start_s + rounding:
            raise InputError(
                f"Phases {where} overlap: one starts at {before.start_s:g} s and takes "
                f"{before.duration_s:g} s, the next starts at {after.start_s:g} s (period "
                f"{period_s:g} s)."
            )
