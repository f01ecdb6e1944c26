"""Jobs whose throughputs are told job by job, as a workload."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.cluster import TIERS
from apportion.errors import InputError, written
from apportion.sim.network.shapes import gpus_of, tier_of
from apportion.sim.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.pairs import PairThroughputs
    from apportion.sim.network.shapes import Shape

__all__ = ["ToldJobs", "ToldTiers"]


@dataclass(frozen=True, eq=False, repr=False)
class ToldJobs(Workload):
    """A workload whose jobs are as fast as a table of jobs by types says, whatever they train.

    Parameters
    ----------
    speeds
        Steps/s of each job on each accelerator type.
    """

    speeds: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of(
        cls, jobs: pd.DataFrame, speeds: pd.DataFrame, pairs: PairThroughputs | None = None
    ) -> ToldJobs:
        """Make one of a jobs table and the speeds of these jobs."""
        keys = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]])
        first = ~keys.duplicated()
        by_type = speeds[first].set_axis(keys[first], axis=0)
        return cls("one round", jobs, by_type, pairs=pairs, speeds=speeds)

    def _speeds(self) -> pd.DataFrame:
        return self.speeds.loc[self.jobs.index]


@dataclass(frozen=True, eq=False)
class ToldTiers:
    """A network in which gangs are as slow at a tier as their throughputs there say.

    Parameters
    ----------
    slowdown
        Time of a step at each tier over that at the fastest, by job type and GPUs; infinite where
        nothing is told.
    """

    slowdown: Mapping[tuple[str, int], tuple[float, ...]]
    name: str = "told"

    @classmethod
    def of(
        cls, jobs: pd.DataFrame, by_tier: Mapping[str, pd.DataFrame], cluster: Cluster
    ) -> ToldTiers:
        """Make one of steps/s of jobs by tier, of each accelerator type.

        Raises
        ------
        InputError
            For jobs of one type and size that tiers slow down in different ways, and for a job that
            they do on different types: networks know models, not accelerators.
        """
        known: dict[tuple[str, int], tuple[object, tuple[float, ...]]] = {}
        keys = zip(jobs["job_type"].tolist(), jobs["scale_factor"].tolist(), strict=True)
        for place, (job, key) in enumerate(zip(jobs.index.tolist(), keys, strict=True)):
            for accelerator in [each for each in cluster.accelerators if each in by_tier]:
                speed = by_tier[accelerator].to_numpy()[place]
                if not speed.any():
                    continue
                with np.errstate(divide="ignore"):
                    slow = tuple((speed.max() / speed).tolist())
                other, before = known.setdefault(key, (job, slow))
                if not np.allclose(before, slow):
                    raise InputError(
                        f"Tiers slow job {written(job)} down by {_written(slow)} on "
                        f"{accelerator!r}, and job {written(other)}, of the same job type and "
                        f"GPUs, by {_written(before)} elsewhere; a network knows job types and no "
                        f"accelerators. Give job types of their own, or network= and throughputs "
                        f"by type."
                    )
        return cls({key: slow for key, (_, slow) in known.items()})

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Return how much longer than at the fastest tier a step takes.

        Raises
        ------
        InputError
            For a tier at which the throughput is 0, or not told.
        """
        tier = tier_of(shape)
        slow = self.slowdown.get((job_type, gpus_of(shape)))
        if slow is None:
            return 0.0
        if np.isinf(slow[tier]):
            raise InputError(
                f"Jobs of type {job_type!r} with {gpus_of(shape)} GPUs can lie at the tier "
                f"{TIERS[tier]!r} of this cluster, and their throughput there is 0 or not told; a "
                f"round needs it. (Which tiers a job accepts is up to its rule and timers.)"
            )
        return slow[tier] - 1.0


def _written(slow: tuple[float, ...]) -> str:
    return ", ".join(f"{each:.4g}" for each in slow)
