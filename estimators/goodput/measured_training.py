"""Training as measured with several batches: progress, metric and gradient noise by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.annotations import explained
from apportion.checks import whole
from apportion.errors import InputError
from apportion.estimators.goodput.noise import gain, noise_scale

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["MeasuredTraining"]

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

    def noise(self, batch: float, epoch: int) -> float:
        """Gradient noise scale in an epoch, samples, linear in the batch between measured ones.

        Raises
        ------
        InputError
            For a batch outside of those measured, or an epoch after the last.
        """
        whole(f"The epoch of {self.name!r}", epoch, 0, self.epochs - 1)
        return float(self.noises(batch)[epoch])

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
        """Gradient noise scale in every epoch, samples, shape (epochs,); see `noise`.

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
