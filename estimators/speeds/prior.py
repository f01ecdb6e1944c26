r"""What is known of a row before it is measured, learnt from reference rows.

Rows are :math:`y_i = \mu + b_i 1 + f_i + e_i` with :math:`f_i \sim N(0, S)`. Of :math:`\mu` there
is a weak prior, `SpeedColumns.usual`, with standard deviations of 0.5 for what the columns of one
accelerator have in common and for each column; of 2 and 1 where the accelerator has no data sheet.
S has an inverse-Wishart prior that counts for 12 rows, around

.. math::

    T = .1\, [a=a'] + .01 \log_2 g \log_2 g' + .01\, [a=a'] \log_2 g \log_2 g' + .02\, [c=c'].
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import written
from apportion.estimators.speeds.contrasts import contrasts_of_rows

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

    def state(self) -> dict[str, Any]:
        """All but the noise, for JSON."""
        return {
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "scale": self.scale,
            "unknown": None if self.unknown is None else self.unknown.tolist(),
        }

    @classmethod
    def of_state(cls, state: dict[str, Any], columns: int, noise: float) -> SpeedPrior:
        """Make one of a state of `state`."""
        unknown, shape = state["unknown"], (columns, columns)
        return cls(
            np.array(state["mean"], dtype=np.float64).reshape(columns),
            np.array(state["covariance"], dtype=np.float64).reshape(shape),
            float(state["scale"]),
            noise,
            None if unknown is None else np.array(unknown, dtype=np.float64).reshape(shape),
        )


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
