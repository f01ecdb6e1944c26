"""Goodput: training progress per second, from step times and the noise of gradients."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.estimators.goodput.application import MeasuredApplication, MeasuredTraining
from apportion.estimators.goodput.best_batch import BatchLimits, BestBatches, best_batches
from apportion.estimators.goodput.fit import StepTimeFit, bootstrapped, fit_step_times
from apportion.estimators.goodput.goodput import Goodput
from apportion.estimators.goodput.measured_steps import (
    AnySteps,
    MeasuredSteps,
    ModelledSteps,
    StepSeconds,
)
from apportion.estimators.goodput.observations import StepObservations
from apportion.estimators.goodput.step_times import (
    LEARNING_RATE_RULES,
    StepTimes,
    efficiency,
    gain,
    learning_rate_factor,
    noise_scale,
)
from apportion.estimators.goodput.table import (
    GangConfiguration,
    GoodputTable,
    GpuSpeeds,
    fitness,
    goodput_table,
)

__all__ = [
    "LEARNING_RATE_RULES",
    "AnySteps",
    "BatchLimits",
    "BestBatches",
    "GangConfiguration",
    "Goodput",
    "GoodputTable",
    "GpuSpeeds",
    "MeasuredApplication",
    "MeasuredSteps",
    "MeasuredTraining",
    "ModelledSteps",
    "StepObservations",
    "StepSeconds",
    "StepTimeFit",
    "StepTimes",
    "best_batches",
    "bootstrapped",
    "efficiency",
    "fit_step_times",
    "fitness",
    "gain",
    "goodput_table",
    "learning_rate_factor",
    "noise_scale",
]

open_doors(globals())
