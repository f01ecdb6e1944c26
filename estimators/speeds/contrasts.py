r"""Rows of logarithms, whose scales are eliminated.

A row holds the logarithms of a job's speeds, :math:`y = b 1 + x` with :math:`x \sim N(m, A)`.
Under a flat prior of b, all that the row says of x lies in its contrasts, with the precision

.. math:: Q = A^{-1} - \frac{A^{-1} 1 1^T A^{-1}}{1^T A^{-1} 1}.

Q takes every constant to zero, so that a row times a constant says the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats


class Contrasts(NamedTuple):
    r"""What rows say of ratios, for a stack of covariances.

    Attributes
    ----------
    precision
        Q, shape (..., cells, cells).
    weights
        The scale is estimated by ``weights @ (y - m)``, weights that sum to one; (..., cells).
    total
        Precision of that estimate, :math:`1^T A^{-1} 1`, shape (...).
    """

    precision: Floats
    weights: Floats
    total: Floats


def contrasts(covariance: Floats, seen: Bools) -> Contrasts:
    """Eliminate the scale from rows.

    Parameters
    ----------
    covariance
        Of the measurements, shape (..., cells, cells); where a cell was not seen, anything.
    seen
        Which cells were measured, one in every row at least, shape (..., cells). The others have no
        part: their entries of the result are 0.
    """
    both = seen[..., :, None] & seen[..., None, :]
    filled = np.where(both, covariance, np.eye(seen.shape[-1]))
    inverse = np.where(both, np.linalg.inv(filled), 0.0)
    inverse = (inverse + np.swapaxes(inverse, -1, -2)) / 2
    row_sums = inverse.sum(axis=-1)
    total = row_sums.sum(axis=-1)
    weights = row_sums / total[..., None]
    precision = inverse - row_sums[..., :, None] * weights[..., None, :]
    return Contrasts(precision, weights, total)


def contrasts_of_rows(covariance: Floats, known: Bools, noise: float) -> tuple[Floats, Floats]:
    """Q and the weights of the scale for rows with holes, zero at the holes.

    Parameters
    ----------
    covariance
        Of the deviations of a row, shape (columns, columns).
    known
        Where each row was measured, in one cell at least; shape (rows, columns).
    noise
        Standard deviation of a measurement.

    Returns
    -------
    NDArray[np.float64], NDArray[np.float64]
        Shapes (rows, columns, columns) and (rows, columns).
    """
    patterns, of_row = np.unique(known, axis=0, return_inverse=True)
    parts = contrasts(covariance + noise**2 * np.eye(len(covariance)), patterns)
    place = of_row.reshape(-1)
    return parts.precision[place], parts.weights[place]
