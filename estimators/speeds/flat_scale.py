r"""Rows whose own scale is unknown: it is eliminated exactly, with a flat prior.

A row holds the logarithms of a job's speeds, :math:`y = b 1 + x` with :math:`x \sim N(m, A)`.
Under a flat prior of b, all that the row says of x lies in its contrasts, and the density of those
is, up to a constant,

.. math::

    -2 \ln p(y) = \ln |A| + \ln (1^T A^{-1} 1) + (y - m)^T Q (y - m), \qquad
    Q = A^{-1} - \frac{A^{-1} 1 1^T A^{-1}}{1^T A^{-1} 1}.

Q takes every constant to zero, so that a row times a constant says the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats


class Contrasts(NamedTuple):
    r"""What the density of rows needs, for a stack of covariances.

    Attributes
    ----------
    precision
        Q, shape (..., cells, cells).
    weights
        The scale is estimated by ``weights @ (y - m)``, weights that sum to one; (..., cells).
    total
        Precision of that estimate, :math:`1^T A^{-1} 1`, shape (...).
    log_volume
        :math:`\ln |A| + \ln (1^T A^{-1} 1)`, shape (...).
    """

    precision: Floats
    weights: Floats
    total: Floats
    log_volume: Floats


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
    whole = covariance.ndim > seen.ndim and bool(seen.all())
    filled = covariance if whole else _without_holes(covariance, seen)
    inverse = np.linalg.inv(filled)
    if not whole:
        inverse = np.where(seen[..., :, None] & seen[..., None, :], inverse, 0.0)
    inverse = (inverse + np.swapaxes(inverse, -1, -2)) / 2
    row_sums = inverse.sum(axis=-1)
    total = row_sums.sum(axis=-1)
    weights = row_sums / total[..., None]
    precision = inverse - row_sums[..., :, None] * weights[..., None, :]
    log_volume = np.linalg.slogdet(filled)[1] + np.log(total)
    return Contrasts(precision, weights, total, log_volume)


def _without_holes(covariance: Floats, seen: Bools) -> Floats:
    """Give cells not seen a variance of one and no covariance: the determinant stays."""
    both = seen[..., :, None] & seen[..., None, :]
    return np.where(both, covariance, np.eye(seen.shape[-1]))


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
