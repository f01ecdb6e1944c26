"""Which tiers a waiting job accepts, and after how long a wait."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from apportion.checks import number
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.decider import Part
from apportion.names import model_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from apportion.mechanism.leases.jobs import WaitingJobs
    from apportion.types import Floats


DALLY_SKEWS: Mapping[str, float] = MappingProxyType(
    {
        "VGG11": 0.77,
        "AlexNet": 0.62,
        "MobileNetV3": 0.41,
        "ResNet18": 0.20,
        "ResNet50": 0.09,
        "BERT-large": 0.03,
    }
)
"""Largest tensor over all parameters, of the models of Dally's Table I."""


class Rule(Protocol):
    """Tells for how long each waiting job rejects each tier.

    A rule that tells job types apart also has ``check(job_type)``, which refuses those that it does
    not know.
    """

    rule: ClassVar[str]
    """The rule in a few words."""

    steady: ClassVar[bool] = False
    """Whether for how long a job rejects a tier hangs on its size, its model and its delay timers
    alone: then it is not asked again while these stay. To be said anew with `patience_s`."""

    def patience_s(self, waiting: WaitingJobs) -> Floats:
        """Return the waits after which tiers are accepted, seconds, shape (waiting, tiers).

        0 for at once, infinite for never. A gang that is larger than a machine (rack) never finds
        one with enough GPUs, so what is said of those does not matter.
        """
        ...


@dataclass(frozen=True, repr=False)
class DelayScheduling(Part):
    """A machine at once, a rack after the machine timer, several racks after the rack timer.

    Source: Dally (Sharma et al., 2024), Algorithm 1.
    """

    rule: ClassVar[str] = "machine; rack after the machine timer; network after the rack timer"
    steady: ClassVar[bool] = True

    def patience_s(self, waiting: WaitingJobs) -> Floats:
        """Return the delay timers."""
        sizes = [(each.gpus, each.machine_gpus, each.rack_gpus) for each in waiting.gang_classes]
        return np.array([(0.0, *waiting.timers.of(*size)) for size in sizes]).reshape(-1, 3)


@dataclass(frozen=True, repr=False)
class FullyConsolidated(Part):
    """The tightest tier that holds the gang, however long that takes."""

    rule: ClassVar[str] = "the tightest tier that the gang fits, or wait"
    steady: ClassVar[bool] = True

    def patience_s(self, waiting: WaitingJobs) -> Floats:
        """Return 0 for the tightest tier, else infinity."""
        return _consolidated(waiting)


@dataclass(frozen=True, repr=False)
class NoWait(Part):
    """The tightest tier that is free."""

    rule: ClassVar[str] = "the tightest tier that is free"
    steady: ClassVar[bool] = True

    def patience_s(self, waiting: WaitingJobs) -> Floats:
        """Return 0 for every tier."""
        return np.zeros((waiting.job.size, 3))


@dataclass(frozen=True, repr=False)
class SkewBased(Part):
    """Models of high skew consolidate fully, others take the tightest tier that is free.

    Source: Tiresias (Gu et al., NSDI 2019), section 3.2: models in which one tensor holds much of
    the parameters suffer most from being spread.

    Parameters
    ----------
    threshold
        Skew above which a model consolidates. Any value from 0.20 to 0.41 sorts the models of
        `DALLY_SKEWS` as Dally's Table I does.
    skews
        Skew by job type, the part that the largest tensor has of all parameters, from 0 to 1.

    Raises
    ------
    InputError
        If the threshold or a skew is not from 0 to 1.
    """

    rule: ClassVar[str] = "high skew: the tightest tier that the gang fits; else what is free"
    steady: ClassVar[bool] = True

    threshold: float = 0.3
    skews: Mapping[str, float] = field(default_factory=lambda: dict(DALLY_SKEWS))

    def __post_init__(self) -> None:
        """Check options; called by dataclasses."""
        super().__post_init__()
        skews = {f"The skew of {written(model)}": each for model, each in self.skews.items()}
        for what, skew in {"threshold": self.threshold, **skews}.items():
            number(what, skew, most=1.0, words="a part of all parameters")

    @property
    def job_types(self) -> Collection[str]:
        """Job types whose skew is known."""
        return self.skews.keys()

    def knowing(self, skews: Mapping[str, float]) -> SkewBased:
        """Return the rule with those skews beside that it does not know, as a network has them."""
        new = {name: each for name, each in skews.items() if not spelled(name, self.skews)}
        return replace(self, skews={**self.skews, **new})

    def check(self, job_type: str) -> None:
        """Refuse a job type whose skew is not known.

        Raises
        ------
        InputError
            It names the job type and the known ones.
        """
        if not spelled(job_type, self.skews):
            error = unknown_name("job type in skews", job_type, self.skews)
            raise InputError(
                f"{error} The skew of a model, from 0 to 1, is given with the scheduler, e.g. "
                f"get_scheduler('tiresias', skews={{{written(job_type)}: 0.2}})."
            )

    def patience_s(self, waiting: WaitingJobs) -> Floats:
        """Return the patience of full consolidation, or 0."""
        names = [spelled(each.model, self.skews) for each in waiting.gang_classes]
        high = np.array([self.skews[name] > self.threshold for name in names])
        return np.where(high[:, None], _consolidated(waiting), 0.0)


@dataclass(frozen=True, repr=False)
class NetworkAgnostic(Part):
    """A gang that fits a machine waits for one; a larger one takes GPUs anywhere at once.

    Source: Gandiva (Xiao et al., OSDI 2018), as simulated by Dally's authors.
    """

    rule: ClassVar[str] = "a machine, or anywhere if no machine holds the gang"
    steady: ClassVar[bool] = True

    def patience_s(self, waiting: WaitingJobs) -> Floats:
        """Return 0 for the machine, or for the network."""
        patience_s = np.zeros((waiting.job.size, 3))
        patience_s[:, 1] = np.inf
        patience_s[~waiting.larger_than_machine, 2] = np.inf
        return patience_s


def _consolidated(waiting: WaitingJobs) -> Floats:
    """Return 0 for the tightest tier that holds each gang, else infinity."""
    patience_s = np.zeros((waiting.job.size, 3))
    patience_s[~waiting.larger_than_machine, 1] = np.inf
    patience_s[~waiting.larger_than_rack, 2] = np.inf
    return patience_s


AT_ONCE = (FullyConsolidated, NoWait, SkewBased, NetworkAgnostic)
"""Rules by which a job accepts each tier at once or never, so that delay timers do nothing."""


def spelled(job_type: str, known: Collection[str]) -> str:
    """Return a job type as it is known, empty if it is not."""
    with suppress(InputError):
        return job_type if job_type in known else model_of(job_type, known)
    return ""
