"""Gangs in several machines slow each other down where they share one: a model of the network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from apportion.names import model_of
from apportion.sim.network.link_sharing import ETHERNET_10G, SharedCost
from apportion.sim.network.shapes import machines_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.mechanism.about import About
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
        from apportion.sim.contention.speeds import ContendedSpeeds, RigidSteps

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
