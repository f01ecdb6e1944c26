"""Checks of measured interference, and what stands in for references that are not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError
from apportion.table_checks import float_array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.types import Floats


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
