"""Measured steps of a job, from which its step times are fitted."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from apportion.annotations import explained
from apportion.errors import InputError
from apportion.estimators.goodput.goodput import checked_gangs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class StepObservations:
    """Seconds that steps took, one entry per measurement.

    Parameters
    ----------
    gpus, nodes
        On which the step ran.
    local_batch
        Samples per GPU and gradient.
    gradient_s
        Seconds of a gradient without synchronisation, as accumulation steps take.
    step_s
        Seconds of a gradient with its synchronisation.

    Raises
    ------
    InputError
        For no measurements, lists of different lengths, and values that are not > 0.
    """

    gpus: ArrayLike
    nodes: ArrayLike
    local_batch: ArrayLike
    gradient_s: ArrayLike
    step_s: ArrayLike

    @explained
    def __post_init__(self) -> None:
        names = [field.name for field in fields(self)]
        values = [np.asarray(getattr(self, name), dtype=np.float64) for name in names]
        if len({each.shape for each in values}) > 1 or values[0].ndim != 1 or not values[0].size:
            shapes = ", ".join(f"{n} {v.shape}" for n, v in zip(names, values, strict=True))
            raise InputError(
                f"Measured steps are lists of one length, at least one long; they are {shapes}."
            )
        for name, each in zip(names, values, strict=True):
            wrong = ~((each > 0) & np.isfinite(each))
            if wrong.any():
                raise InputError(
                    f"{name} of measured step {int(np.argmax(wrong))} is {each[wrong][0]:g}; it "
                    f"must be a number > 0."
                )
            object.__setattr__(self, name, each)
        checked_gangs(self.gpus, self.nodes)
