"""An application whose speeds are known by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from apportion.estimators.goodput import (
    BatchLimits,
    MeasuredApplication,
    MeasuredTraining,
    ModelledSteps,
    StepTimes,
)

TIMES = StepTimes(0.1, 0.01, alpha_n=0.05, beta_n=0.002, alpha_r=0.02, beta_r=0.001)
SECONDS = {1: 0.74, 2: 0.44, 4: 0.282}
"""Seconds of a step of 64 samples, by hand: 0.1 + 0.01 * 64 / K, and 0.02 + 0.001 (K - 2)."""
PROGRESS = 1000.0


def application(name: str = "net", noise: float = 1e9) -> MeasuredApplication:
    limits = BatchLimits(64, 64, 8, 64, accumulates=False)
    ends = PROGRESS * np.array([0.25, 0.5, 1.0])
    table = pd.DataFrame({"progress": ends, "grad_sqr": 1.0, "grad_var": noise / 64})
    return MeasuredApplication(
        name, ModelledSteps(name, TIMES, 64), MeasuredTraining(name, {64: table}), limits
    )
