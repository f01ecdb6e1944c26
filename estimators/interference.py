"""How fast jobs that were hardly measured run beside others on the same GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from apportion.errors import InputError, written
from apportion.estimators.imputer import MixtureImputer
from apportion.table_checks import float_array
from apportion.threads import one_thread

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.estimators.imputer import Imputer
    from apportion.types import Bools, Floats


_ROUNDING = 1e-9
"""Below 0 by less, what an imputer returns is 0."""
_LEAST = 1e-6
"""Normalised throughput of a pair that can share, at the least."""


class InterferenceEstimator:
    """Predict normalised pair throughputs of new jobs from a few measurements.

    The normalised throughput of a job beside a partner is its steps/s there relative to its steps/s
    alone on the same accelerator. It is known among reference job types; a new job was measured
    beside a few of them. First, the row of every new job over (reference, accelerator), in both
    roles, is completed against the rows of the references. Second, the same imputer extends the
    completed rows to pairs of two new jobs. Whether two jobs can share at all (0 or not) is
    completed alongside, as if on further accelerators, and decided by one half.

    Parameters
    ----------
    imputer
        Completes a matrix in which NaN is missing: any object with ``fit_transform``; results must
        be >= 0. By default `MixtureImputer`: on Gavel's measurements, with 16 references and a
        fifth of the cells, its mean absolute error is 0.054, that of low-rank completion
        0.104 or more.

    Notes
    -----
    After `fit`: ``known_``, what was given and measured, shape (jobs, jobs, accelerators), the
    references first.

    Pairs that cannot share for want of memory are hard to tell from interference: in the setting
    above, about 40 % of Gavel's are found, and 0.3 % of the others taken for such. Where memory
    footprints are known, give zeros among the measurements.
    """

    known_: Floats
    references_: int

    def __init__(self, imputer: Imputer | None = None) -> None:
        self.imputer = imputer

    @one_thread
    def fit(
        self, references: ArrayLike, measured: ArrayLike, measured_other: ArrayLike | None = None
    ) -> Self:
        """Take in the references and the first measurements.

        Parameters
        ----------
        references
            Normalised throughput of each reference beside each other one, shape (references,
            references, accelerators). Missing entries (NaN) are filled with the mean of the pair
            over the other accelerators, or else of what is known of the job or of all.
        measured
            Normalised throughput of each new job beside each reference, NaN where not measured;
            shape (new jobs, references, accelerators).
        measured_other
            The reference's own number in the same runs, same shape; a run of two jobs yields both.

        Raises
        ------
        InputError
            For what is no imputer, shapes that do not match, and values that are not >= 0.
        """
        if self.imputer is not None and not hasattr(self.imputer, "fit_transform"):
            raise InputError(
                f"imputer is {written(self.imputer)}; it must have `fit_transform`, as "
                f"MixtureImputer() has."
            )
        given = _checked_cells("references", references)
        new = _checked_cells("measured", measured)
        other = np.full_like(new, np.nan)
        if measured_other is not None:
            other = _checked_cells("measured_other", measured_other)
        count, _, accelerators = given.shape
        _check_shape("references", given, (count, count, accelerators))
        _check_shape("measured", new, (len(new), count, accelerators))
        _check_shape("measured_other", other, new.shape)
        if not count or np.isnan(given).all():
            raise InputError("At least one reference job type must be known, with one number.")
        total = count + len(new)
        self.references_ = count
        self.known_ = np.full((total, total, accelerators), np.nan)
        self.known_[:count, :count] = _filled(given)
        # A pair that cannot share has 0 for both of its members.
        self.known_[count:, :count] = np.where(other == 0, 0.0, new)
        self.known_[:count, count:] = np.where(new == 0, 0.0, other).transpose(1, 0, 2)
        return self

    @one_thread
    def predict(self) -> Floats:
        """Normalised throughput of every pair, the shape of ``known_``; known cells as they are.

        Raises
        ------
        InputError
            If the imputer returns another shape, missing or negative numbers.
        """
        if not hasattr(self, "known_"):
            raise InputError("The InterferenceEstimator has not been fitted yet: call fit first.")
        known = self.known_
        imputer = MixtureImputer() if self.imputer is None else self.imputer
        estimate, never = _completed(known, self.references_, imputer)
        zero, runs = known == 0, known > 0
        never |= never.transpose(1, 0, 2) | zero | zero.transpose(1, 0, 2)
        never &= ~(runs | runs.transpose(1, 0, 2))
        estimate = np.where(never, 0.0, np.maximum(estimate, _LEAST))
        return np.where(np.isnan(known), estimate, known)


def _completed(known: Floats, references: int, imputer: Imputer) -> tuple[Floats, Bools]:
    """Complete the rows over the references, then the pairs of two new jobs.

    Parameters
    ----------
    known
        Normalised pair throughputs, NaN where not known, the references first; shape (jobs, jobs,
        accelerators).
    references
        How many jobs are references.
    imputer
        Completes a matrix.

    Returns
    -------
    estimate
        Normalised throughput, the shape of `known`.
    never
        Whether the pair is estimated not to share at all, the same for both of its members.
    """
    # Zeros are completed together with the values, as if on further accelerators: both then follow
    # from the same resemblance.
    zeros = np.where(np.isnan(known), np.nan, known == 0)
    known = np.concatenate([known, zeros], axis=2)
    jobs = len(known)
    both = np.stack([known[:, :references], known[:references].transpose(1, 0, 2)], axis=1)
    rows = _imputed(both.reshape(jobs, -1), imputer).reshape(both.shape)
    wide = known.copy()
    wide[:, :references] = rows[:, 0]
    wide[:references] = rows[:, 1].transpose(1, 0, 2)
    as_rows, as_columns = (
        _imputed(matrix.reshape(jobs, -1), imputer).reshape(known.shape)
        for matrix in (wide, wide.transpose(1, 0, 2))
    )
    estimate, apart = np.split((as_rows + as_columns.transpose(1, 0, 2)) / 2, 2, axis=2)
    return estimate, apart + apart.transpose(1, 0, 2) > 1.0


def _imputed(matrix: Floats, imputer: Imputer) -> Floats:
    """Complete a matrix and check what the imputer made of it."""
    if not np.isnan(matrix).any():
        return matrix
    name = type(imputer).__name__
    completed = np.asarray(imputer.fit_transform(matrix.copy()), dtype=np.float64)
    if completed.shape != matrix.shape:
        raise InputError(
            f"The imputer {name} returned shape {completed.shape} for a matrix of shape "
            f"{matrix.shape}."
        )
    wrong = ~(np.isfinite(completed) & (completed >= -_ROUNDING))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"The imputer {name} returned {completed[row, column]} in row {row}, column {column}; "
            f"throughputs are finite and >= 0 (this package's low-rank imputers take low=0, "
            f"scikit-learn's IterativeImputer min_value=0)."
        )
    return np.where(np.isnan(matrix), np.maximum(completed, 0.0), matrix)


def _checked_cells(name: str, values: ArrayLike) -> Floats:
    """Check an array of normalised throughputs: three axes, numbers >= 0 or NaN."""
    array = float_array(name, values)
    if array.ndim != 3:
        raise InputError(
            f"`{name}` has {array.ndim} axes; it must have three: jobs, references, accelerators."
        )
    wrong = np.argwhere(~np.isnan(array) & ~(np.isfinite(array) & (array >= 0)))
    if wrong.size:
        cell = tuple(int(position) for position in wrong[0])
        raise InputError(
            f"`{name}` is {array[cell]} at (job, reference, accelerator) {cell}; it must be a "
            f"finite number >= 0, or NaN where it is not known."
        )
    return array


def _check_shape(name: str, array: Floats, shape: tuple[int, ...]) -> None:
    """Raise if an array has another shape."""
    if array.shape != shape:
        raise InputError(f"`{name}` has shape {array.shape}; expected {shape}.")


def _filled(references: Floats) -> Floats:
    """Fill what is not known of the references: by the pair's mean, else the job's, else all's."""
    filled = references
    for axes in ((2,), (1, 2), (0, 1, 2)):
        known = ~np.isnan(filled)
        count = known.sum(axis=axes, keepdims=True)
        total = np.where(known, filled, 0.0).sum(axis=axes, keepdims=True)
        means = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        filled = np.where(known, filled, means)
    return filled
