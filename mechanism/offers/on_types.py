"""How fast each job is on placements of every accelerator type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.scheduler import NETWORK, Placement
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.offers.leased_jobs import LeasedJobs
    from apportion.mechanism.placements.by_speed import Placing

    Ints = NDArray[np.int64]


def step_times(speed: Sequence[float]) -> list[float]:
    """Return the compute time of a step on each type over that on the fastest one.

    Infinite where the speed is 0: the job cannot run there.
    """
    most = max(speed)
    return [most / each if each > 0 else np.inf for each in speed]


class OnTypes:
    """Compares placements across accelerator types.

    A step takes its compute time on a type times what the network makes of it on a placement.

    Parameters
    ----------
    placings
        How slow models are on placements, by type.
    jobs
        Models, gangs, speeds and present types of the jobs.
    """

    def __init__(self, placings: Sequence[Placing], jobs: LeasedJobs) -> None:
        self._placings, self._jobs, self._told = placings, jobs, jobs.told

    def slowdowns(self, job: int) -> list[float]:
        """Time of a step of a job at each option, all being free, over the least compute time.

        Option ``type * 3 + tier``; infinite where no such gang can lie or run.
        """
        model, gpus = self._told.job_type[job], int(self._told.scale[job])
        times = step_times(self._told.speed[job].tolist())
        return [
            own * slowdown
            for own, placing in zip(times, self._placings, strict=True)
            for slowdown in placing.slowdowns(model, gpus)
        ]

    def better(self, job: int, free: Ints, widest: int, held: Placement) -> Placement | None:
        """Return free GPUs of a job's type better for it than those it holds, within a tier."""
        model, gpus = self._told.job_type[job], int(self._told.scale[job])
        placing = self._placings[int(self._jobs.kind[job])]
        return placing.better(free, model, gpus, widest, held)

    def is_best_of_type(self, job: int, held: Placement) -> bool:
        """Whether no GPUs of its type would be better than those a job holds, were all free."""
        model, gpus = self._told.job_type[job], int(self._told.scale[job])
        placing = self._placings[int(self._jobs.kind[job])]
        return placing.worth(model, held) <= placing.least_worth(model, gpus)

    def is_at_best(self, job: int, held: Placement) -> bool:
        """Whether no GPUs of any type would be better than those a job holds, were all free."""
        if not self.is_best_of_type(job, held):
            return False
        model, gpus = self._told.job_type[job], int(self._told.scale[job])
        own = int(self._jobs.kind[job])
        if len(self._placings) == 1:
            return True
        times = step_times(self._told.speed[job].tolist())
        slowdowns = (placing.least_worth(model, gpus) for placing in self._placings)
        return self._worth(model, times[own], own, held) <= min(
            (significant(time * slowdown), tier)
            for time, (slowdown, tier) in zip(times, slowdowns, strict=True)
        )

    def better_anywhere(
        self, job: int, free: Sequence[Ints], held: Placement
    ) -> tuple[int, Placement] | None:
        """Return the best free GPUs of any type, and the type, if better than those it holds.

        Parameters
        ----------
        job
            Number of a job that holds GPUs.
        free
            Free GPUs of the machines of each type, its own included.
        held
            Where its GPUs are.
        """
        model, gpus = self._told.job_type[job], int(self._told.scale[job])
        own, best = int(self._jobs.kind[job]), None
        if found := self.better(job, free[own], NETWORK, held):
            best, held = (own, found), found
        if len(self._placings) == 1:
            return best
        times = step_times(self._told.speed[job].tolist())
        least = self._worth(model, times[own], own, held)
        for kind, placing in enumerate(self._placings):
            if kind == own or not np.isfinite(times[kind]):
                continue
            found = placing.fastest(free[kind], model, gpus, NETWORK)
            if found is not None:
                worth = self._worth(model, times[kind], kind, found)
                if worth < least:
                    best, least = (kind, found), worth
        return best

    def _worth(
        self, model: str, step_time: float, kind: int, placement: Placement
    ) -> tuple[float, int]:
        """Time of a step on a placement of a type, and its tier: less is better."""
        slowdown, tier = self._placings[kind].worth(model, placement)
        return significant(step_time * slowdown), tier
