r"""The unstructured covariance of the deviations, around the structured one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.estimators.speeds.flat_scale import contrasts_of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.estimators.speeds.variances import Ratios

    Floats = NDArray[np.float64]

__all__ = ["expectation_maximization"]

_WORTH = 12.0
"""Rows that the structured prior counts for."""

_MOST_ITERATIONS = 30
_TOLERANCE = 1e-6


def expectation_maximization(
    rows: Floats, structured: Floats, ratios: Ratios, noise: float
) -> tuple[Floats, Floats]:
    r"""Ratios and covariance of rows, under an inverse-Wishart prior of the covariance.

    In turn, the deviations of the R rows are expected given :math:`\mu` and S, their scales
    eliminated, and S is the mean of what is expected and of T, which counts for 12 rows:

    .. math::

        m_i = S Q_i (y_i - \mu), \quad V_i = S - S Q_i S, \quad
        S \leftarrow \frac{12\, T + \sum_i (m_i m_i^T + V_i)}{12 + R}.

    Parameters
    ----------
    rows
        Logarithms of speeds, NaN in the holes; shape (rows, columns).
    structured
        T, shape (columns, columns).
    ratios
        How :math:`\mu` follows from rows and their precision.
    noise
        Standard deviation of a measurement.

    Returns
    -------
    mean, covariance
        :math:`\mu` and S, shapes (columns,) and (columns, columns).
    """
    known = ~np.isnan(rows)
    filled = np.where(known, rows, 0.0)
    covariance = structured
    for _ in range(_MOST_ITERATIONS):
        precision, _ = contrasts_of_rows(covariance, known, noise)
        mean, _ = ratios.fit(filled, precision)
        expected = np.einsum("icd,id->ic", precision, filled - mean) @ covariance
        left = len(rows) * covariance - covariance @ precision.sum(axis=0) @ covariance
        before = covariance
        total = _WORTH * structured + expected.T @ expected + left
        covariance = total / (_WORTH + len(rows))
        covariance = (covariance + covariance.T) / 2
        if np.abs(covariance - before).max() <= _TOLERANCE * np.abs(covariance).max():
            break
    precision, _ = contrasts_of_rows(covariance, known, noise)
    return ratios.fit(filled, precision)[0], covariance
