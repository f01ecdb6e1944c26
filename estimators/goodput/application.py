"""An application as measured: the truth that a model of goodput is fitted to.

Progress, metric and gradient noise by epoch, for several batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.annotations import explained
from apportion.checks import mapping, whole
from apportion.errors import InputError, written
from apportion.estimators.goodput.step_times import gain, noise_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apportion.estimators.goodput.goodput import BatchLimits
    from apportion.estimators.goodput.measured_steps import AnySteps
    from apportion.estimators.goodput.step_times import StepObservations
    from apportion.types import Floats, Int64s

_COLUMNS = ("progress", "grad_sqr", "grad_var")


class MeasuredTraining:
    """Progress and gradients of an application, by batch and epoch.

    Progress counts in steps of the initial batch, the smallest that was measured: an epoch takes
    the same progress with every batch, but fewer steps with a large one.

    Parameters
    ----------
    name
        Of the application, for errors.
    epochs_of
        One table per batch, with one row per epoch: columns progress (until the end of the epoch),
        grad_sqr and grad_var.
    epochs
        Epochs until the job is done; those of the shortest table by default.

    Raises
    ------
    InputError
        For no tables, or fewer rows than epochs.
    """

    @explained
    def __init__(
        self, name: str, epochs_of: Mapping[int, pd.DataFrame], epochs: int | None = None
    ) -> None:
        if not epochs_of:
            raise InputError(f"The profile of {name!r} has no training with any batch.")
        shortest = min(len(table) for table in epochs_of.values())
        self.name = name
        self.epochs = shortest if epochs is None else whole("epochs", epochs, 1)
        if self.epochs > shortest:
            raise InputError(
                f"The profile of {name!r} has {shortest} epochs; {self.epochs} are asked for."
            )
        self.batches = np.array(sorted(epochs_of), dtype=np.int64)
        tables = [epochs_of[int(batch)].head(self.epochs) for batch in self.batches]
        self._progress, self._sqr, self._var = (
            np.array([table[column].to_numpy(dtype=np.float64) for table in tables])
            for column in _COLUMNS
        )

    def table(self, batch: int) -> pd.DataFrame:
        """Return the table of one of the measured batches, a row per epoch."""
        place = self.batches.tolist().index(batch)
        values = (self._progress[place], self._sqr[place], self._var[place])
        return pd.DataFrame(dict(zip(_COLUMNS, values, strict=True)))

    @property
    def initial_batch(self) -> int:
        """The smallest batch, in whose steps progress counts."""
        return int(self.batches[0])

    @property
    def progress(self) -> Floats:
        """Progress at the end of each epoch, the least over the batches, shape (epochs,)."""
        return np.asarray(self._progress.min(axis=0))

    def steps(self, batch: float) -> float:
        r"""Return steps of all epochs with one batch, :math:`\sum_e \Delta progress_e / gain_e`.

        Raises
        ------
        InputError
            For a batch outside of those measured.
        """
        gains = gain(batch, self.initial_batch, self.noises(batch))
        return float(np.sum(np.diff(self.progress, prepend=0.0) / gains))

    def noises(self, batch: float) -> Floats:
        """Gradient noise scale in every epoch, samples, linear in the batch between measured ones.

        Raises
        ------
        InputError
            For a batch outside of those measured.
        """
        if not self.batches[0] <= batch <= self.batches[-1]:
            raise InputError(
                f"{self.name!r} was trained with batches from {self.batches[0]} to "
                f"{self.batches[-1]} samples, not with {batch:g}."
            )
        sqr, var = (
            np.array([np.interp(batch, self.batches, column) for column in table.T])
            for table in (self._sqr, self._var)
        )
        return noise_scale(self.initial_batch, sqr, var)


@dataclass(frozen=True, eq=False)
class MeasuredApplication:
    """Measured steps and training of one application on one accelerator type, or on several.

    Parameters
    ----------
    name
        Of the application.
    steps
        Seconds of a step by placement and batch, measured or by a model; or speeds as told; or a
        kind of one's own, see `AnySteps`.
    training
        Progress and gradient noise by batch and epoch.
    limits
        Batches that it may train with.
    on_types
        The same application as it was measured on further accelerator types, by type: of these
        count steps and limits, which differ where memory does.

    Raises
    ------
    InputError
        For steps without ``at``; if what was measured on a type is told for further types itself,
        or trains otherwise: with another initial or largest batch.
    """

    name: str
    steps: AnySteps
    training: MeasuredTraining
    limits: BatchLimits
    on_types: Mapping[str, MeasuredApplication] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.steps, type) or not callable(getattr(self.steps, "at", None)):
            raise InputError(
                f"The steps of {self.name!r} are {written(self.steps)}; they must have "
                f"at(placement, local_batch), as MeasuredSteps has it."
            )
        for accelerator, each in mapping("on_types", self.on_types).items():
            if not isinstance(each, MeasuredApplication):
                raise InputError(
                    f"The profile of {self.name!r} on {written(accelerator)} is {written(each)}; "
                    f"it must be a MeasuredApplication."
                )
            if each.on_types:
                raise InputError(
                    f"The profile of {self.name!r} on {written(accelerator)} tells of other types "
                    f"itself: {', '.join(map(written, each.on_types))}. Name them side by side."
                )
            same = (self.limits.initial, self.limits.largest)
            if (each.limits.initial, each.limits.largest) != same:
                raise InputError(
                    f"{self.name!r} trains with {each.limits.initial} to {each.limits.largest} "
                    f"samples on {written(accelerator)}, and with {same[0]} to {same[1]} "
                    f"elsewhere; both must be the same, since progress counts in initial batches."
                )

    @property
    def told_types(self) -> tuple[str, ...]:
        """Types by which speeds are told, if they are: then there is no other profile."""
        return () if self.by_gpus is None else tuple(self.on_types)

    @property
    def by_gpus(self) -> Callable[[Int64s], Floats] | None:
        """Steps/s by number of GPUs, if they are told so, see `AnySteps`."""
        found: Callable[[Int64s], Floats] | None = getattr(self.steps, "by_gpus", None)
        return found

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

    def observations(self) -> StepObservations:
        """Return all measured steps, to fit a model to.

        Raises
        ------
        InputError
            For an application of which speeds are told, without batches, or steps of one's own
            kind without ``observations``.
        """
        steps: Any = self.steps
        if not hasattr(steps, "observations"):
            raise InputError(
                f"Of {self.name!r} speeds are told, and no steps to fit a model to: "
                f"{type(steps).__name__} has no observations()."
            )
        seen: StepObservations = steps.observations()
        return seen
