"""Networks in which gangs slow each other down: in shared machines, or phase by phase on links."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

from apportion.checks import number, seconds, whole
from apportion.mechanisms.settings import SHORTEST_S
from apportion.names import model_of
from apportion.sim.network.cassini import CassiniNetwork
from apportion.sim.network.link_sharing import ETHERNET_10G, SharedCost
from apportion.sim.network.shapes import machines_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.mechanism.decider import About
    from apportion.mechanism.time_shifts import CommunicationProfile
    from apportion.sim.engine.speeds import Speeds
    from apportion.sim.network.profile import ModelProfile
    from apportion.sim.network.shapes import Shape


@dataclass(frozen=True)
class ContentionNetwork:
    """An all-reduce takes ``a + k b M + (k - 1) eta M`` seconds where k gangs share a machine.

    Gangs within one machine send nothing. The model is a fluid one: it knows no iterations, and so
    not when each gang sends.

    Parameters
    ----------
    profiles
        Models by name: bytes of their gradients, seconds of their compute.
    law
        a, b and eta.
    expected
        What k is. If not, all gangs with GPUs in the machine with most of them: as if all of them
        always sent at once. If so, 1 and the parts of their time in which the others send, which
        follow from each other: as if they sent at random.
    """

    shares_links: ClassVar[bool] = True

    profiles: Mapping[str, ModelProfile] = field(repr=False)
    law: SharedCost = ETHERNET_10G
    expected: bool = False

    @property
    def name(self) -> str:
        """``contention``, or ``contention_expected``."""
        return "contention_expected" if self.expected else "contention"

    def size(self, job_type: str) -> float:
        """Return the bytes that a job type all-reduces in an iteration.

        Raises
        ------
        InputError
            For a model that is not known.
        """
        return self.profiles[model_of(job_type, self.profiles)].all_reduce_bytes

    def speeds(self, alone: Speeds, about: About) -> Speeds:
        """Return how fast gangs are that share links; `alone` is without any transfer."""
        from apportion.sim.links.contended_speeds import ContendedSpeeds, RigidSteps

        if about.steps is None:
            steps = RigidSteps(alone, about.job_types, self)
        else:
            steps = about.steps(alone, self)
        return ContendedSpeeds(steps, self, about.layout)

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Return what a gang that shares with nobody sends, over the compute of its profile.

        Raises
        ------
        InputError
            For a model that is not known.
        """
        profile = self.profiles[model_of(job_type, self.profiles)]
        if machines_of(shape) < 2:
            return 0.0
        alone_s = self.law.startup_s + self.law.s_per_byte * profile.all_reduce_bytes
        return alone_s / profile.compute_s


@dataclass(frozen=True)
class PhaseNetwork(CassiniNetwork):
    """An iteration takes as long as `apportion.sim.links.run_phases` says.

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
        from apportion.sim.links.phase_speeds import PhaseSpeeds

        return PhaseSpeeds(alone, about.job_types, self, about.cluster, about.layout)
