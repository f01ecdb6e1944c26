"""Seconds of training steps by a model, in place of measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import whole
from apportion.errors import InputError, written
from apportion.estimators.goodput.measured_steps import StepSeconds
from apportion.estimators.goodput.observations import StepObservations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.estimators.goodput.step_times import StepTimes

__all__ = ["ModelledSteps"]

_GANGS = ((1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (4, 2), (8, 2), (16, 4), (32, 8))


@dataclass(frozen=True, eq=False)
class ModelledSteps:
    """Seconds of a step by placement and batch per GPU, where `StepTimes` are the truth.

    Parameters
    ----------
    name
        Of the application, for errors.
    times
        What is true of its steps.
    local_most
        Largest batch per GPU.

    Raises
    ------
    InputError
        For a batch that is not a whole number >= 1.
    """

    name: str
    times: StepTimes
    local_most: int

    def __post_init__(self) -> None:
        whole("The largest batch per GPU", self.local_most, 1)

    def at(self, placement: Sequence[int], local_batch: float) -> StepSeconds:
        """Seconds of a step on so many GPUs on each node.

        Raises
        ------
        InputError
            For a placement without GPUs.
        """
        gang = [int(gpus) for gpus in placement if gpus]
        if not gang or min(gang) < 0:
            raise InputError(f"A placement is {written(placement)}; it must have a GPU.")
        step_s = float(self.times.step_s(sum(gang), len(gang), local_batch))
        wait_s = step_s - float(self.times.gradient_s(local_batch))
        return StepSeconds(step_s, max(wait_s, 0.0), measured=False)

    def observations(self) -> StepObservations:
        """Return steps on some gangs with some batches, to fit `StepTimes` to."""
        local = np.unique(np.geomspace(1, self.local_most, 5).round())
        gangs = np.repeat(np.array(_GANGS), local.size, axis=0)
        batches = np.tile(local, len(_GANGS))
        return StepObservations(
            gpus=gangs[:, 0],
            nodes=gangs[:, 1],
            local_batch=batches,
            gradient_s=self.times.gradient_s(batches),
            step_s=self.times.step_s(gangs[:, 0], gangs[:, 1], batches),
        )
