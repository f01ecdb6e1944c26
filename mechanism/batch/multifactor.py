"""Who comes first by several weighted factors, as Slurm's multifactor priority has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from apportion.annotations import check_fields
from apportion.checks import number, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.mechanism.job_table import EntityUse, JobTable
    from apportion.types import Floats


_WEEK_S = 7 * 86_400.0
_ROUNDING = 1e-6
"""How far below a whole number a sum may lie that is this number but for rounding."""


@dataclass(frozen=True)
class MultifactorPriority:
    """A weighted sum of factors between 0 and 1, in whole numbers; the highest comes first.

    The priority of a job::

        floor(age_weight * min(1, time since arrival / max_age_s)
              + fair_share_weight * 2 ** -(U / S / dampening)
              + job_size_weight * GPUs / GPUs of the cluster
              + partition_weight * priority of its partition / largest
              + qos_weight * priority of its QOS / largest)

    U is the part of all GPU-seconds that the job's entity has had, of which half are forgotten
    after each `half_life_s`, and S the part of all shares that it has: the classic fair share,
    without levels of accounts above each other. Jobs of equal priority come as they were submitted.

    Where Slurm has more, this is left out: priority tiers, nice, site and association factors,
    fair tree, and TRES factors, of which that of GPUs would be the size of the job. The weights are
    those of the example in its manual, lengths of time and dampening its defaults; the
    weights that it starts with are all 0, which is first come, first served.

    Parameters
    ----------
    age_weight, fair_share_weight, job_size_weight, partition_weight, qos_weight
        Weights of the factors; what is below 1 in sum tells nothing.
    max_age_s
        From which age on a job is no older, seconds (PriorityMaxAge).
    half_life_s
        After which half of what was used is forgotten, seconds; infinite for never
        (PriorityDecayHalfLife).
    dampening
        The larger, the less use matters (FairShareDampeningFactor).
    favor_small
        The factor of the size is 1 less that of above (PriorityFavorSmall).
    shares
        Of entities, by name; 1 for those that are not told. Entities without jobs count as well.
    partitions, qos
        Priorities of partitions and of qualities of service, by what the columns ``partition`` and
        ``qos`` say; not told is 1 for a partition and 0 for a QOS. A column of numbers holds
        the priorities themselves.
    """

    age_weight: float = 1_000.0
    fair_share_weight: float = 10_000.0
    job_size_weight: float = 1_000.0
    partition_weight: float = 1_000.0
    qos_weight: float = 0.0
    max_age_s: float = _WEEK_S
    half_life_s: float = _WEEK_S
    dampening: float = 1.0
    favor_small: bool = False
    shares: Mapping[str, float] = field(default_factory=dict, hash=False)
    partitions: Mapping[str, float] = field(default_factory=dict, hash=False)
    qos: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("age", "fair_share", "job_size", "partition", "qos"):
            number(f"{name}_weight", getattr(self, f"{name}_weight"))
        seconds("max_age_s", self.max_age_s, strict=True)
        seconds("half_life_s", self.half_life_s, strict=True, infinite=True)
        number("dampening", self.dampening, strict=True)
        for option in ("shares", "partitions", "qos"):
            for each, value in getattr(self, option).items():
                number(f"{option} of {each!r}", value)

    def of(self, jobs: JobTable, use: EntityUse, now_s: float) -> Floats:
        """Return the priorities of the active jobs, whole numbers, shape (active jobs,).

        Parameters
        ----------
        jobs
            What is known of them.
        use
            What entities have had, by the half-life of this.
        now_s
            The time, seconds.
        """
        active = jobs.active
        size = jobs.scale[active] / jobs.capacity.sum()
        factors = (
            (self.age_weight, np.minimum((now_s - jobs.arrival_s[active]) / self.max_age_s, 1.0)),
            (self.fair_share_weight, self._fair_share(jobs, use, now_s)[use.entity[active]]),
            (self.job_size_weight, 1.0 - size if self.favor_small else size),
            (self.partition_weight, _over_largest(jobs, "partition", self.partitions, 1.0)),
            (self.qos_weight, _over_largest(jobs, "qos", self.qos, 0.0)),
        )
        total = sum((weight * factor for weight, factor in factors), np.zeros(active.size))
        whole: Floats = np.floor(total + _ROUNDING)
        return whole

    def _fair_share(self, jobs: JobTable, use: EntityUse, now_s: float) -> Floats:
        used_s = use.by_entity(now_s)
        names = jobs.entities
        shares = np.array([self.shares.get(each, 1.0) for each in names] or np.ones(used_s.size))
        idle = sum(value for each, value in self.shares.items() if each not in names)
        used = used_s / max(used_s.sum(), np.finfo(float).tiny)
        # U / S; who has no share has the factor 0, whatever was used.
        ratio = np.full(used.size, np.inf)
        np.divide(used * (shares.sum() + idle), shares, out=ratio, where=shares > 0)
        factor: Floats = np.exp2(-ratio / self.dampening)
        return factor


def _over_largest(
    jobs: JobTable, column: str, told: Mapping[str, float], default: float
) -> Floats | float:
    """Return the priorities that a column stands for, over the largest of all; 0 without any."""
    places = jobs.facts.get(column)
    if places is None:
        return 0.0
    names = jobs.texts.get(column)
    every = places
    if names is not None:
        every = np.array([told.get(name, default) for name in names])
    largest = max([*told.values(), float(every.max(initial=0.0))])
    values = places if names is None else every[places.astype(np.intp)]
    return np.asarray(values[jobs.active] / largest) if largest > 0 else 0.0
