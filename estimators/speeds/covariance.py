r"""The unstructured covariance of the deviations, around the structured one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.estimators.speeds.flat_scale import contrasts, contrasts_of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.estimators.speeds.variances import Ratios

    Floats = NDArray[np.float64]

__all__ = ["expectation_maximization", "most_likely_covariance"]

_WORTH = (12.0, 24.0, 48.0, 96.0)
"""Rows that the structured prior may count for."""

_MOST_ITERATIONS = 30
_TOLERANCE = 1e-6
"""Likelihoods and covariances that move by less have come to rest."""


def most_likely_covariance(
    rows: Floats, structured: Floats, ratios: Ratios, noise: float
) -> tuple[Floats, Floats]:
    r"""Ratios and covariance of rows, the structured prior worth what the rows say it is.

    It counts for 12 rows, and for twice as many as long as every row becomes likelier by it, given
    the others: where speeds are as structured as T, an S without structure would fit the few rows
    that there are too well, and be too sure.

    Parameters, results and sources are those of `expectation_maximization`.
    """
    best = expectation_maximization(rows, structured, ratios, noise, _WORTH[0])
    found = _left_out(rows, *best, structured, noise, _WORTH[0])
    for worth in _WORTH[1:]:
        fit = expectation_maximization(rows, structured, ratios, noise, worth)
        likelihood = _left_out(rows, *fit, structured, noise, worth)
        # Equal up to rounding: the fewer rows.
        if likelihood <= found + _TOLERANCE * (1 + abs(found)):
            break
        best, found = fit, likelihood
    return best


def expectation_maximization(
    rows: Floats, structured: Floats, ratios: Ratios, noise: float, worth: float = _WORTH[0]
) -> tuple[Floats, Floats]:
    r"""Ratios and covariance of rows, under an inverse-Wishart prior of the covariance.

    In turn, the deviations of the R rows are expected given :math:`\mu` and S, their scales
    eliminated, and S is the mean of what is expected and of T, which counts for w rows:

    .. math::

        m_i = S Q_i (y_i - \mu), \quad V_i = S - S Q_i S, \quad
        S \leftarrow \frac{w\, T + \sum_i (m_i m_i^T + V_i)}{w + R}.

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
    worth
        w, rows that T counts for.

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
        total = worth * structured + expected.T @ expected + left
        covariance = total / (worth + len(rows))
        covariance = (covariance + covariance.T) / 2
        if np.abs(covariance - before).max() <= _TOLERANCE * np.abs(covariance).max():
            break
    precision, _ = contrasts_of_rows(covariance, known, noise)
    return ratios.fit(filled, precision)[0], covariance


def _left_out(
    rows: Floats, mean: Floats, covariance: Floats, structured: Floats, noise: float, worth: float
) -> float:
    """Log density of each row by the covariance of the others, summed, up to a constant.

    What a row has brought in is taken out of the last step of expectation-maximisation.
    """
    known = ~np.isnan(rows)
    precision, _ = contrasts_of_rows(covariance, known, noise)
    rest = np.where(known, rows - mean, 0.0)
    expected = np.einsum("icd,id->ic", precision, rest) @ covariance
    brought = expected[:, :, None] * expected[:, None, :]
    brought += covariance - covariance @ precision @ covariance
    total = worth * structured + brought.sum(axis=0)
    others = (total - brought) / (worth + len(rows) - 1)
    parts = contrasts(others + noise**2 * np.eye(len(covariance)), known)
    squares = np.einsum("ic,icd,id->i", rest, parts.precision, rest)
    return float(-0.5 * (squares + parts.log_volume).sum())
