"""Gangs that share links as the phase-level engine follows them: a model of the network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from apportion.checks import number, seconds, whole
from apportion.mechanisms.settings import SHORTEST_S
from apportion.sim.network.cassini import CassiniNetwork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.mechanism.about import About
    from apportion.mechanism.time_shifts import CommunicationProfile
    from apportion.sim.engine.speeds import Speeds


@dataclass(frozen=True)
class PhaseNetwork(CassiniNetwork):
    """An iteration takes as long as `apportion.sim.phases.run_phases` says.

    Gangs that meet on links run there, phase by phase, until their iterations are steady. Shifts
    are chosen in epochs: a gang that starts or moves within an epoch starts at random, and is
    shifted when the next one begins; shifts of the others stay until then. Where the affinity
    graph has a loop, and everywhere if jobs are not shifted, gangs start at random, and the mean
    over several starts counts. Profiles, links and Gb/s are those of `CassiniNetwork`.

    Parameters
    ----------
    epoch_s
        Seconds from one choice of shifts to the next, from the first decision on; 0 for a choice
        whenever a gang starts, moves or is done. The paper's is ten minutes.
    jitter
        Every computation takes 1 - jitter to 1 + jitter of its time.
    readjust
        Part of an iteration by which a phase may drift off its shift before its job waits, where
        the links can carry everything at its time; ``None`` never waits. The paper's is 0.05.
    starts
        Random starts over which a mean is taken; 0 if gangs that meet without shifts start
        together, each with the beginning of an iteration.

    Raises
    ------
    InputError
        If a number is out of range, or something is no profile.
    """

    epoch_s: float = 600.0
    jitter: float = 0.0
    readjust: float | None = 0.05
    starts: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if seconds("epoch_s", self.epoch_s):
            number("epoch_s, if it is not 0,", self.epoch_s, least=SHORTEST_S)
        number("jitter", self.jitter, most=0.9)
        if self.readjust is not None:
            number("readjust", self.readjust, strict=True, most=0.5)
        whole("starts", self.starts, 0)

    @property
    def name(self) -> str:
        """``phases``, or ``phases_unshifted``."""
        return "phases" if self.shifted else "phases_unshifted"

    def for_elastic(
        self, profiles: Mapping[str, CommunicationProfile], *, beside_requests: bool
    ) -> Self:
        """Return the same network for elastic jobs; without epochs beside requests."""
        epoch_s = 0.0 if beside_requests else self.epoch_s
        return replace(self, profiles=profiles, epoch_s=epoch_s)

    def speeds(self, alone: Speeds, about: About) -> Speeds:
        """Return how fast gangs are by the engine of phases."""
        from apportion.sim.phases.phase_speeds import PhaseSpeeds

        return PhaseSpeeds(alone, about.job_types, self, about.cluster, about.layout)
