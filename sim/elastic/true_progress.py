"""What is true of elastic jobs: the epoch that each is in, and its progress per second."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.errors import InputError
from apportion.estimators.goodput import fit_step_times, gain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.estimators.goodput import MeasuredApplication, StepTimes
    from apportion.mechanism.job_table import JobTable

    Floats = NDArray[np.float64]

logger = logging.getLogger(__name__)

_ROUNDING = 1e-9
"""Part of all the progress by which the end of an epoch may be missed and has come."""


class Step(NamedTuple):
    """Seconds of a gradient alone, and of one with its synchronisation."""

    gradient_s: float
    step_s: float


class TrueProgress:
    """Measured profiles, and, for placements that they do not reach, a model fitted to them."""

    def __init__(self) -> None:
        self._steps: dict[tuple[MeasuredApplication, tuple[int, ...], int], Step] = {}
        self._noises: dict[tuple[MeasuredApplication, float], Floats] = {}
        self._fitted: dict[MeasuredApplication, StepTimes] = {}

    def step(
        self, application: MeasuredApplication, placement: Sequence[int], local_batch: int
    ) -> Step:
        """Return the seconds of a step on so many GPUs on each machine."""
        key = (application, tuple(placement), local_batch)
        if key not in self._steps:
            self._steps[key] = self._looked_up(application, key[1], local_batch)
        return self._steps[key]

    def per_s(
        self,
        application: MeasuredApplication,
        placement: Sequence[int],
        local_batch: int,
        accumulation: int,
        epoch: int,
    ) -> float:
        """Return the true goodput: progress per second in steps of the initial batch."""
        step = self.step(application, placement, local_batch)
        batch = sum(placement) * local_batch * (accumulation + 1)
        first = application.training.initial_batch
        worth = float(gain(batch, first, self.noise(application, batch, epoch)))
        return worth / (step.step_s + accumulation * step.gradient_s)

    def noise(self, application: MeasuredApplication, batch: float, epoch: int) -> float:
        """Return the gradient noise scale; beyond the largest batch measured, that of this one.

        What fills the last GPU may make a batch a little larger than any that was trained with.
        """
        batches = application.training.batches
        key = (application, float(min(max(batch, batches[0]), batches[-1])))
        if key not in self._noises:
            self._noises[key] = application.training.noises(key[1])
        return float(self._noises[key][epoch])

    def _looked_up(
        self, application: MeasuredApplication, placement: tuple[int, ...], local_batch: int
    ) -> Step:
        try:
            found = application.steps.at(placement, local_batch)
        except InputError as error:
            if application.by_gpus is not None:
                raise
            if application not in self._fitted:
                logger.warning("%s A model fitted to the profile is used there.", error)
                fit = fit_step_times(application.observations())
                self._fitted[application] = fit.times
            times = self._fitted[application]
            step_s = float(times.step_s(sum(placement), len(placement), local_batch))
            return Step(float(times.gradient_s(local_batch)), step_s)
        return Step(found.step_s - found.synchronisation_s, found.step_s)


def epoch_of(jobs: JobTable, job: int, application: MeasuredApplication) -> int:
    """Return the epoch that a job is in; at the very end of one, the next."""
    done = float(jobs.total[job] - jobs.remaining[job])
    ends = application.training.progress
    epoch = int(np.searchsorted(ends, done + _ROUNDING * ends[-1], side="right"))
    return min(epoch, application.training.epochs - 1)
