r"""What is known of a row before it is measured, learnt from reference rows.

Rows are :math:`y_i = \mu + b_i 1 + f_i + e_i` with :math:`f_i \sim N(0, S)`. Of :math:`\mu` there
is a weak prior, `SpeedColumns.usual`, with standard deviations of 0.5 for what the columns of one
accelerator have in common and for each column; of 2 and 1 where the accelerator has no data sheet.
S has an inverse-Wishart prior that counts for 12 rows, around

.. math::

    T = .1\, [a=a'] + .01 \log_2 g \log_2 g' + .01\, [a=a'] \log_2 g \log_2 g' + .02\, [c=c'].

Under a flat prior of its scale b, all that a row says of :math:`\mu + f + e \sim N(m, A)` lies in
its contrasts, with the precision

.. math:: Q = A^{-1} - \frac{A^{-1} 1 1^T A^{-1}}{1^T A^{-1} 1}.

Q takes every constant to zero, so that a row times a constant says the same.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.checks import number
from apportion.errors import written

if TYPE_CHECKING:
    from apportion.estimators.speeds.columns import SpeedColumns
    from apportion.types import Bools, Floats


logger = logging.getLogger(__name__)

_VARIANCES = (0.1, 0.01, 0.01, 0.02)
_WORTH = 12.0
_CELLS_OF_RATIO = 2
_SD_OF_ACCELERATOR, _SD_OF_COLUMN = 2.0, 1.0
_SD_BY_SHEET = 0.5
_MOST_ITERATIONS = 30
_TOLERANCE = 1e-6
"""A covariance that moves by less has come to rest."""

_MOST_NOISE = 10.0
"""Most standard deviations of a logarithm: beyond it, measurements say nothing."""

_LEAST_NOISE = 1e-4
"""Least standard deviation reckoned with: it keeps covariances away from singular ones."""


def noise_level(noise: Any) -> float:
    """Check the standard deviation of measurements, and keep it from being none at all."""
    return max(number("noise", noise, most=_MOST_NOISE), _LEAST_NOISE)


@dataclass(frozen=True, eq=False)
class SpeedPrior:
    r"""Logarithms of the speeds of a row, :math:`\mu + b 1 + f`.

    Attributes
    ----------
    mean
        :math:`\mu`, the ratios between columns; shape (columns,).
    covariance
        S, of the deviations f; shape (columns, columns).
    scale
        Mean scale b of the rows that were learnt from: for a row without a measurement.
    noise
        Standard deviation of the logarithm of a measurement.
    unknown
        Covariance of :math:`\mu` on columns that no row was measured on, 0 on the others, shape
        (columns, columns); ``None`` if there are none of them. On the others it is in S.
    """

    mean: Floats
    covariance: Floats
    scale: float
    noise: float
    unknown: Floats | None = None


def learn_prior(rows: Floats, columns: SpeedColumns, noise: float) -> SpeedPrior:
    """Learn ratios and covariance from rows with two measured cells or more.

    Parameters
    ----------
    rows
        Logarithms of speeds, NaN where not measured; shape (rows, columns).
    columns
        What the columns are.
    noise
        Standard deviation of a measurement.
    """
    cells = np.count_nonzero(~np.isnan(rows), axis=1)
    used, some = rows[cells >= _CELLS_OF_RATIO], rows[cells > 0]
    mean, covariance = columns.usual, np.tensordot(_VARIANCES, columns.terms(), axes=1)
    unknown: Floats | None = None
    if len(used):
        mean, covariance, spread = _expectation_maximization(used, covariance, columns, noise)
        # Ratios are the mean of so many rows only: a further row is as much further from them.
        covariance = covariance * (1 + 1 / len(used))
        unknown = _unknown(np.isnan(used).all(axis=0), spread, columns)
    scale = 0.0
    if len(some):
        known = ~np.isnan(some)
        _, weights = contrasts_of_rows(covariance, known, noise)
        scale = float((weights * np.where(known, some - mean, 0.0)).sum(axis=1).mean())
    return SpeedPrior(mean, covariance, scale, noise, unknown)


def _unknown(unseen: Bools, spread: Floats, columns: SpeedColumns) -> Floats | None:
    r"""Return what is not known of :math:`\mu` where no row says anything; warn of it."""
    if not unseen.any():
        return None
    names = ", ".join(written(columns.labels[each]) for each in np.flatnonzero(unseen).tolist())
    logger.warning("Nothing was measured on %s: speeds there are guesses.", names)
    return np.where(np.outer(unseen, unseen), spread, 0.0)


def _expectation_maximization(
    rows: Floats, structured: Floats, columns: SpeedColumns, noise: float
) -> tuple[Floats, Floats, Floats]:
    r"""Return ratios, covariance of rows, and the covariance of the ratios.

    In turn, the deviations of the R rows are expected given :math:`\mu` and S, their scales
    eliminated, and S is the mean of what is expected and of T, which counts for w rows:

    .. math::

        m_i = S Q_i (y_i - \mu), \quad V_i = S - S Q_i S, \quad
        S \leftarrow \frac{w\, T + \sum_i (m_i m_i^T + V_i)}{w + R}.
    """
    known, prior = ~np.isnan(rows), _precision_of_ratios(columns)
    filled = np.where(known, rows, 0.0)

    def ratios(precision: Floats) -> tuple[Floats, Floats]:
        """Generalised least squares over rows with holes."""
        seen = np.einsum("icd,id->c", precision, filled) + prior @ columns.usual
        inverse = np.linalg.inv(precision.sum(axis=0) + prior)
        return inverse @ seen, inverse

    covariance = structured
    for _ in range(_MOST_ITERATIONS):
        precision, _ = contrasts_of_rows(covariance, known, noise)
        mean, _ = ratios(precision)
        expected = np.einsum("icd,id->ic", precision, filled - mean) @ covariance
        left = len(rows) * covariance - covariance @ precision.sum(axis=0) @ covariance
        before = covariance
        total = _WORTH * structured + expected.T @ expected + left
        covariance = total / (_WORTH + len(rows))
        covariance = (covariance + covariance.T) / 2
        if np.abs(covariance - before).max() <= _TOLERANCE * np.abs(covariance).max():
            break
    mean, spread = ratios(contrasts_of_rows(covariance, known, noise)[0])
    return mean, covariance, spread


def _precision_of_ratios(columns: SpeedColumns) -> Floats:
    r"""Precision of the weak prior of :math:`\mu`."""
    sheet = ~np.isnan(columns.log_sheets)
    of_accelerator = np.where(sheet, _SD_BY_SHEET, _SD_OF_ACCELERATOR) ** 2
    of_column = np.where(sheet, _SD_BY_SHEET, _SD_OF_COLUMN) ** 2
    spread = of_accelerator[:, None] * columns.same_accelerator
    return np.asarray(np.linalg.inv(spread + np.diag(of_column)), dtype=np.float64)


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


_LEAST_COUNT = 1e-12
"""Measurements that a measured cell has at the least: older ones may have faded."""


def posterior(prior: SpeedPrior, rows: Floats, counts: Floats) -> tuple[Floats, Floats]:
    r"""Return mean and standard deviation of the logarithms of speeds, in closed form.

    With a flat prior of the scale b and the cells o measured, n times each,

    .. math::

        A &= S_{oo} + \mathrm{diag}(s^2 / n), \qquad
        b = \frac{1^T A^{-1} (y_o - \mu_o)}{1^T A^{-1} 1}, \\
        m &= \mu + b 1 + S_{\cdot o} Q (y_o - \mu_o), \\
        v_c &= S_{cc} - S_{co} Q S_{oc} + \frac{1 - 2 \cdot 1^T A^{-1} S_{oc}}{1^T A^{-1} 1}.

    One measurement tells the scale and nothing of the ratios.

    Parameters
    ----------
    prior
        Ratios and covariance.
    rows
        Mean logarithms of what was measured, anything where nothing was; shape (rows, columns).
    counts
        How many measurements each is the mean of, 0 where nothing was measured; the same shape.

    Returns
    -------
    NDArray[np.float64], NDArray[np.float64]
        The shape of `rows`, measured cells included. Where a row has no measurement, its scale is
        the references' mean and the standard deviation that of its deviations.
    """
    covariance = prior.covariance
    if prior.unknown is not None:
        covariance = covariance + prior.unknown
    mean = np.tile(prior.mean + prior.scale, (len(rows), 1))
    sd = np.tile(np.sqrt(np.diag(covariance)), (len(rows), 1))
    some = np.flatnonzero((counts > 0).any(axis=1))
    if not some.size:
        return mean, sd
    patterns, of_row = np.unique(counts[some], axis=0, return_inverse=True)
    noise = prior.noise**2 / np.maximum(patterns, _LEAST_COUNT)
    inside = covariance + noise[:, :, None] * np.eye(len(covariance))
    parts = contrasts(inside, patterns > 0)
    gain = covariance @ parts.precision
    explained = ((gain + 2 * parts.weights[:, None, :]) * covariance).sum(axis=2)
    variance = np.diag(covariance) - explained + 1 / parts.total[:, None]
    gain += parts.weights[:, None, :]
    place, seen = of_row.reshape(-1), counts[some] > 0
    measured = np.where(seen, rows[some], 0.0)
    level = measured.sum(axis=1, keepdims=True) / seen.sum(axis=1, keepdims=True)
    rest = np.where(seen, measured - level - prior.mean, 0.0)
    mean[some] = prior.mean + level + (gain[place] @ rest[:, :, None])[:, :, 0]
    sd[some] = np.sqrt(np.maximum(variance[place], 0.0))
    return mean, sd
