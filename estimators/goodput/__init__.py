"""Goodput: training progress per second, from step times and the noise of gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.estimators.goodput.application import MeasuredApplication as MeasuredApplication
    from apportion.estimators.goodput.application import MeasuredTraining as MeasuredTraining
    from apportion.estimators.goodput.fit import StepTimeFit as StepTimeFit
    from apportion.estimators.goodput.fit import fit_step_times as fit_step_times
    from apportion.estimators.goodput.goodput import BatchLimits as BatchLimits
    from apportion.estimators.goodput.goodput import BestBatches as BestBatches
    from apportion.estimators.goodput.goodput import Goodput as Goodput
    from apportion.estimators.goodput.goodput import best_batches as best_batches
    from apportion.estimators.goodput.measured_steps import AnySteps as AnySteps
    from apportion.estimators.goodput.measured_steps import GpuSpeeds as GpuSpeeds
    from apportion.estimators.goodput.measured_steps import MeasuredSteps as MeasuredSteps
    from apportion.estimators.goodput.measured_steps import ModelledSteps as ModelledSteps
    from apportion.estimators.goodput.measured_steps import StepSeconds as StepSeconds
    from apportion.estimators.goodput.step_times import StepObservations as StepObservations
    from apportion.estimators.goodput.step_times import StepTimes as StepTimes
    from apportion.estimators.goodput.step_times import efficiency as efficiency
    from apportion.estimators.goodput.step_times import gain as gain
    from apportion.estimators.goodput.step_times import noise_scale as noise_scale


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
