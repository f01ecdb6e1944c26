"""An application as measured: the truth that a model of goodput is fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apportion.checks import whole
from apportion.errors import InputError
from apportion.estimators.goodput.fit import fit_step_times
from apportion.estimators.goodput.goodput import Goodput
from apportion.estimators.goodput.noise import gain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.estimators.goodput.best_batch import BatchLimits
    from apportion.estimators.goodput.measured_steps import MeasuredSteps
    from apportion.estimators.goodput.measured_training import MeasuredTraining
    from apportion.estimators.goodput.modelled_steps import ModelledSteps

__all__ = ["MeasuredApplication"]


@dataclass(frozen=True, eq=False)
class MeasuredApplication:
    """Measured steps and training of one application on one accelerator type.

    Parameters
    ----------
    name
        Of the application.
    steps
        Seconds of a step by placement and batch, measured or by a model.
    training
        Progress and gradient noise by batch and epoch.
    limits
        Batches that it may train with.
    """

    name: str
    steps: MeasuredSteps | ModelledSteps
    training: MeasuredTraining
    limits: BatchLimits

    def split(self, batch: int, gpus: int) -> tuple[int, int]:
        """Return batch per GPU and accumulation steps with which a batch is trained on GPUs.

        As few steps as the memory allows, but one on a single GPU above the initial batch; a batch
        per GPU is rounded up, as long as the largest batch is not passed.

        Raises
        ------
        InputError
            For a batch that is out of range, or too small for so many GPUs.
        """
        limits, count = self.limits, whole("The number of GPUs", gpus, 1)
        most = int(limits.local_most or limits.largest)
        whole(f"The batch of {self.name!r}", batch, limits.initial, limits.largest)
        per_gpu = -(-batch // count)
        steps = -(-per_gpu // most) - 1
        if count == 1 and batch > limits.initial:
            steps = max(steps, 1)
        local = min(-(-per_gpu // (steps + 1)), limits.largest // (count * (steps + 1)))
        if local < limits.local_least:
            raise InputError(
                f"{self.name!r} with a batch of {batch} on {gpus} GPUs has {local} samples per "
                f"GPU; it must have {limits.local_least} or more."
            )
        return local, steps

    def steps_per_s(self, placement: Sequence[int], local_batch: int, accumulation: int) -> float:
        """Return steps per second, each of `accumulation` + 1 gradients and one synchronisation."""
        found = self.steps.at(placement, local_batch)
        gradient_s = found.step_s - found.synchronisation_s
        return 1.0 / (found.step_s + accumulation * gradient_s)

    def progress_per_s(
        self, placement: Sequence[int], local_batch: int, accumulation: int, epoch: int
    ) -> float:
        """Return the true goodput: progress per second in steps of the initial batch.

        Raises
        ------
        InputError
            For a placement or batch that the profile does not reach.
        """
        batch = sum(placement) * local_batch * (accumulation + 1)
        noise = self.training.noise(batch, epoch)
        worth = float(gain(batch, self.training.initial_batch, noise))
        return worth * self.steps_per_s(placement, local_batch, accumulation)

    def fitted(self, epoch: int = 0) -> Goodput:
        """Goodput by a model fitted to all measured steps, with the noise of an epoch."""
        times = fit_step_times(self.steps.observations()).times
        return Goodput(times, self.training.noise(self.limits.initial, epoch), self.limits)
