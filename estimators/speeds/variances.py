r"""The structured part of the prior: ratios between columns, four variances; scales eliminated.

Rows are :math:`y_i = \mu + b_i 1 + f_i + e_i` with :math:`f_i \sim N(0, T)` and

.. math::

    T = t_1 [a=a'] + t_2 \log_2 g \log_2 g' + t_3 [a=a'] \log_2 g \log_2 g' + t_4 [c=c'].

Of :math:`\mu` there is a weak prior, `SpeedColumns.usual`, with standard deviations of 0.5 for what
the columns of one accelerator have in common and for each column; of 2 and 1 where the accelerator
has no data sheet. Where no reference has seen one of k80, p100 and v100, speeds of the job types of
`apportion.sim.job_types` on it, estimated from those on the others, are off by 0.52 (root mean
square of the logarithm), by 1.00 if types are taken for equal; 87 % of the errors are below the
standard deviation that is predicted.

Around it lies the covariance of the deviations that has no structure, `most_likely_covariance`.

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
    from apportion.estimators.speeds.columns import SpeedColumns
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


DEFAULT_VARIANCES = (0.1, 0.01, 0.01, 0.02)
"""The four variances where there is nothing to learn them from."""

_STEPS = 25
_LEAST, _MOST = 1e-5, 2.0
"""Of logarithms: 0.3 % is finer than steps are timed, a factor of 4 tells nothing any more."""
_SD_OF_ACCELERATOR, _SD_OF_COLUMN = 2.0, 1.0
_SD_BY_SHEET = 0.5


class Ratios:
    r"""Generalised least squares of :math:`\mu` over rows with holes, under its weak prior."""

    def __init__(self, columns: SpeedColumns) -> None:
        sheet = ~np.isnan(columns.log_sheets)
        of_accelerator = np.where(sheet, _SD_BY_SHEET, _SD_OF_ACCELERATOR) ** 2
        of_column = np.where(sheet, _SD_BY_SHEET, _SD_OF_COLUMN) ** 2
        spread = of_accelerator[:, None] * columns.same_accelerator
        self._weight = np.linalg.inv(spread + np.diag(of_column))
        self._usual = columns.usual

    def fit(self, rows: Floats, precision: Floats) -> tuple[Floats, Floats]:
        r"""Return :math:`\mu` and the inverse of its precision.

        Parameters
        ----------
        rows
            Logarithms of speeds, 0 in the holes; shape (rows, columns).
        precision
            Q of each row, 0 in the holes; shape (rows, columns, columns).
        """
        total = precision.sum(axis=0) + self._weight
        seen = np.einsum("icd,id->c", precision, rows) + self._weight @ self._usual
        inverse = np.linalg.inv(total)
        return inverse @ seen, inverse


def restricted_likelihood(rows: Floats, columns: SpeedColumns, noise: float) -> Floats:
    r"""Estimate the four variances by restricted maximum likelihood.

    Each of 25 steps multiplies a variance by the root of what the data show of it over what is
    expected, with P the precision of all rows after scales and ratios are taken out:

    .. math:: t_j \leftarrow t_j \sqrt{\frac{y^T P G_j P y}{\mathrm{tr}(P G_j)}}.

    Parameters
    ----------
    rows
        Logarithms of speeds, NaN in the holes; shape (rows, columns).
    columns
        What the columns are.
    noise
        Standard deviation of a measurement.

    Returns
    -------
    NDArray[np.float64]
        Shape (4,), each in [1e-5, 2].
    """
    known = ~np.isnan(rows)
    filled = np.where(known, rows, 0.0)
    terms, ratios = columns.terms(), Ratios(columns)
    variances = np.array(DEFAULT_VARIANCES)
    for _ in range(_STEPS):
        covariance = np.tensordot(variances, terms, axes=1)
        precision, _ = contrasts_of_rows(covariance, known, noise)
        mean, inverse = ratios.fit(filled, precision)
        rest = np.einsum("icd,id->ic", precision, filled - mean)
        shown = np.tensordot(terms, rest.T @ rest)
        # What is expected of one row, less what the estimated ratios take of it.
        spent = np.tensordot(precision @ inverse, precision, axes=([0, 2], [0, 1]))
        expected = np.tensordot(terms, precision.sum(axis=0) - spent)
        # A term that no contrast can show (one GPU everywhere) stays as it is.
        visible = expected > 1e-9 * len(rows)
        factor = np.divide(shown, expected, out=np.ones(4), where=visible)
        variances = np.clip(variances * np.sqrt(factor), _LEAST, _MOST)
    return variances


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
