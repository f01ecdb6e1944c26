"""What a rule of elastic jobs is: what it is shown, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from apportion.mechanism.decider import Decider, Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.types import Bools, Floats, Ints


class ElasticJobs(NamedTuple):
    """What a rule decides by: the jobs that wait or run, and the options that each may have now.

    Attributes
    ----------
    speed
        Believed progress per second, 0 for an option that is closed, shape (jobs, options).
    kind, gpus
        Type and GPUs of each option, shape (options,).
    capacity
        GPUs of each type, shape (types,).
    current
        Place of the option that each job has, -1 for none, shape (jobs,).
    steps_remaining, arrival_s, attained_gpu_s
        Of each job: progress to come, when it arrived, and GPU-seconds that it has held.
    rigid
        Whether it has one number of GPUs.
    weight, fair_speed, reallocation_factor
        Of each job: its weight, its speed with a fair share of the GPUs, and the part of a speed
        that is left of it if it moves.
    deadline_s, elapsed_s
        Of each job: seconds after its arrival within which it should complete, NaN for none, and
        seconds since it arrived.
    facts
        Further columns of the jobs table, those of one's own included, as `JobTable.facts`.
    """

    speed: Floats
    kind: Ints
    gpus: Ints
    capacity: Ints
    current: Ints
    steps_remaining: Floats
    arrival_s: Floats
    attained_gpu_s: Floats
    rigid: Bools
    weight: Floats
    fair_speed: Floats
    reallocation_factor: Floats
    deadline_s: Floats
    elapsed_s: Floats
    facts: Mapping[str, Floats] = MappingProxyType({})


@dataclass(frozen=True, repr=False)
class ElasticRule(Part, Decider, ABC):
    """Gives every elastic job an option or none; the base of rules of one's own.

    It is a value: all that it decides by is its own fields and what it is shown.
    """

    name: ClassVar[str]
    """Name in the registry."""
    source: ClassVar[str] = ""
    """Paper and section."""
    works_by: ClassVar[tuple[str, ...]] = ("configurations",)
    works_how: ClassVar[str] = "is a rule of elastic jobs"
    rule: ClassVar[str] = ""
    """What it does, in a line."""

    @property
    def description(self) -> str:
        """What it does, in a line."""
        return self.rule or super().description

    @abstractmethod
    def choose(self, jobs: ElasticJobs) -> Ints:
        """Return the place of the option of every job, -1 for none, shape (jobs,)."""


def seconds_left(jobs: ElasticJobs) -> Floats:
    """Return what the progress to come takes with each option, shape (jobs, options)."""
    seconds = np.full(jobs.speed.shape, np.inf)
    left = np.broadcast_to(jobs.steps_remaining[:, None], jobs.speed.shape)
    np.divide(left, jobs.speed, out=seconds, where=jobs.speed > 0)
    return seconds
