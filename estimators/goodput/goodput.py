"""Goodput of one job on GPUs of one type: throughput times statistical efficiency."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.annotations import explained
from apportion.checks import choice, is_number
from apportion.errors import InputError, written
from apportion.estimators.goodput.best_batch import SEARCHES, BestBatches, best_batches
from apportion.estimators.goodput.step_times import StepTimes, efficiency

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from apportion.estimators.goodput.best_batch import BatchLimits, BatchSearch
    from apportion.types import Floats


@dataclass(frozen=True)
class Goodput:
    r"""Progress per second of a job, in samples that are worth one of its initial batch.

    .. math:: GOODPUT(K, n, m, s) = \frac{M}{T_{iter}(K, n, m, s)} \cdot
              \frac{\varphi + M_0}{\varphi + M}, \qquad M = K m (s + 1)

    Divided by the initial batch :math:`M_0` it is progress in steps of the initial batch per
    second. (Qiao et al., OSDI 2021, section 3.)

    Parameters
    ----------
    times
        Seconds of a step.
    noise
        Gradient noise scale :math:`\varphi`, samples; may be infinite.
    limits
        Batches that the job may train with.

    Raises
    ------
    InputError
        For step times of several jobs, or noise that is no number >= 0.
    """

    times: StepTimes
    noise: float
    limits: BatchLimits

    @explained
    def __post_init__(self) -> None:
        if np.size(self.times.gradient_s(1)) != 1:
            raise InputError("The goodput of one job needs step times of one job.")
        if not (is_number(self.noise) and self.noise >= 0):
            raise InputError(
                f"A gradient noise scale is {written(self.noise)}; it must be a number >= 0."
            )

    def value(
        self, gpus: ArrayLike, nodes: ArrayLike, local_batch: ArrayLike, accumulation: ArrayLike = 0
    ) -> Floats:
        """Goodput with given batches per GPU and accumulation steps, samples/s.

        Raises
        ------
        InputError
            For a batch per GPU that the memory does not hold, or a batch below the initial one.
        """
        gang, places = checked_gangs(gpus, nodes)
        local, steps = np.asarray(local_batch), np.asarray(accumulation)
        self._check_batches(gang, local, steps)
        samples = gang * local * (steps + 1.0)
        speed = self.times.throughput(gang, places, local, steps)
        return np.asarray(speed * efficiency(samples, self.limits.initial, self.noise))

    def best(self, gpus: ArrayLike, nodes: ArrayLike, search: BatchSearch = "exact") -> BestBatches:
        """Best goodput on so many GPUs of so many nodes, and the batches that reach it.

        Parameters
        ----------
        gpus, nodes
            Whole numbers, nodes <= GPUs, that broadcast.
        search
            See `best_batches`.

        Returns
        -------
        BestBatches
            Each of the broadcast shape; 0 where no batch within the limits fills the GPUs.
        """
        choice("search", search, SEARCHES)
        gang, places = checked_gangs(gpus, nodes)
        noise = np.array([[self.noise]], dtype=np.float64)
        times = StepTimes.stacked([self.times])
        found = best_batches(times, noise, [self.limits], gang.ravel(), places.ravel(), search)
        shaped: list[Any] = [values.reshape(gang.shape) for values in found]
        return BestBatches(*shaped)

    def _check_batches(
        self, gang: NDArray[np.int64], local: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> None:
        limits = self.limits
        wrong = (local < limits.local_least) | (local > np.asarray(limits.local_most)) | (steps < 0)
        if wrong.any():
            batch_there, steps_there = (
                np.broadcast_to(values, wrong.shape)[wrong][0] for values in (local, steps)
            )
            raise InputError(
                f"A batch of {batch_there} samples per GPU with {steps_there} accumulation steps; "
                f"it must be from {limits.local_least} to {limits.local_most} samples, which is "
                f"what the memory of a GPU holds, with >= 0 steps."
            )
        batch = np.asarray(gang * local * (steps + 1))
        if (batch < limits.initial).any():
            raise InputError(
                f"A batch of {int(batch.min())} samples is below the initial one of "
                f"{limits.initial}, beneath which its efficiency is not known."
            )


def checked_gangs(gpus: ArrayLike, nodes: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return GPUs and nodes of gangs as whole numbers of one shape.

    Raises
    ------
    InputError
        For what is not a whole number >= 1, or more nodes than GPUs.
    """
    given = np.broadcast_arrays(np.asarray(gpus, dtype=float), np.asarray(nodes, dtype=float))
    for name, values in zip(("GPUs", "nodes"), given, strict=True):
        wrong = ~((values >= 1) & (values == np.floor(values)) & np.isfinite(values))
        if wrong.any():
            raise InputError(
                f"A gang of {values[wrong][0]:g} {name}; it must be a whole number >= 1."
            )
    if (given[1] > given[0]).any():
        where = np.unravel_index(np.argmax(given[1] > given[0]), given[0].shape)
        raise InputError(
            f"A gang of {given[0][where]:g} GPUs on {given[1][where]:g} nodes; it must have a GPU "
            f"on each."
        )
    return given[0].astype(np.int64), given[1].astype(np.int64)


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
