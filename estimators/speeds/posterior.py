r"""Speeds of a row given those that were measured, in closed form.

The row is :math:`\mu + b 1 + f` with :math:`f \sim N(0, C)`. With a flat prior of the scale b and
the cells o measured, n times each,

.. math::

    A &= C_{oo} + \mathrm{diag}(s^2 / n), \qquad
    b = \frac{1^T A^{-1} (y_o - \mu_o)}{1^T A^{-1} 1}, \\
    m &= \mu + b 1 + C_{\cdot o} Q (y_o - \mu_o), \\
    v_c &= C_{cc} - C_{co} Q C_{oc} + \frac{1 - 2 \cdot 1^T A^{-1} C_{oc}}{1^T A^{-1} 1}.

One measurement tells the scale and nothing of the ratios.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.estimators.speeds.contrasts import contrasts

if TYPE_CHECKING:
    from apportion.estimators.speeds.prior import SpeedPrior
    from apportion.types import Floats


_LEAST_COUNT = 1e-12
"""Measurements that a measured cell has at the least: older ones may have faded."""


def posterior(prior: SpeedPrior, rows: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the logarithms of speeds.

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
