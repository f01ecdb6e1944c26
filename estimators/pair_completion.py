"""Completion of pair throughputs by an imputer of matrices, and checks of what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError
from apportion.table_checks import float_array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.estimators.imputer import Imputer
    from apportion.types import Bools, Floats


_ROUNDING = 1e-9
"""Below 0 by less, what an imputer returns is 0."""


def complete_rows(known: Floats, references: int, imputer: Imputer) -> Floats:
    """Complete the rows of all jobs over the references, in both roles.

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
    NDArray[np.float64]
        Shape (jobs, 2 x references x accelerators): the job's own numbers, then its partners'.

    Raises
    ------
    InputError
        If the imputer returns another shape, missing or negative numbers.
    """
    both = np.stack([known[:, :references], known[:references].transpose(1, 0, 2)], axis=1)
    return _imputed(both.reshape(len(known), -1), imputer)


def complete_pairs(known: Floats, references: int, imputer: Imputer) -> tuple[Floats, Bools]:
    """Complete the rows over the references, then the pairs of two new jobs.

    Parameters and errors are those of `complete_rows`.

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
    rows = complete_rows(known, references, imputer).reshape(jobs, 2, references, -1)
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


def checked_cells(name: str, values: ArrayLike) -> Floats:
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


def check_shape(name: str, array: Floats, shape: tuple[int, ...]) -> None:
    """Raise if an array has another shape."""
    if array.shape != shape:
        raise InputError(f"`{name}` has shape {array.shape}; expected {shape}.")


def filled_references(references: Floats) -> Floats:
    """Fill what is not known of the references: by the pair's mean, else the job's, else all's."""
    filled = references
    for axes in ((2,), (1, 2), (0, 1, 2)):
        known = ~np.isnan(filled)
        count = known.sum(axis=axes, keepdims=True)
        total = np.where(known, filled, 0.0).sum(axis=axes, keepdims=True)
        means = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        filled = np.where(known, filled, means)
    return filled
