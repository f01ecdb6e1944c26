"""What a fit of step times minimises, with its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.estimators.goodput.observations import StepObservations

    Floats = NDArray[np.float64]

__all__ = ["error_and_gradient"]

_OVERLAP_WEIGHT = 1e-3
_SLOPE_WEIGHT = 1e-2
_NO_SYNCHRONISATION_S = 1e-8
_EXACT = 1e-12
"""Root mean squares below this are 0: their gradient is that of noise."""


def error_and_gradient(values: Floats, observed: StepObservations) -> tuple[float, Floats]:
    """Error of step times, see `fit_step_times`, and its derivatives by the seven parameters.

    Parameters
    ----------
    values
        alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma; all > 0.
    observed
        Measured steps.
    """
    gpus, local = np.asarray(observed.gpus), np.asarray(observed.local_batch)
    several = np.asarray(observed.nodes) > 1
    within = ~several & (gpus > 1)
    further = np.maximum(gpus - 2.0, 0.0)
    gamma = values[6]

    gradient_s = values[0] + values[1] * local
    by_gradient = np.zeros((7, gpus.size))
    by_gradient[:2] = np.array([np.ones_like(local), local]) / gradient_s

    waits = np.select([several, within], [values[2], values[4]], _NO_SYNCHRONISATION_S)
    waits = waits + further * np.select([several, within], [values[3], values[5]], 0.0)
    by_wait = np.array(
        [0 * local, 0 * local, several, several * further, within, within * further, 0 * local]
    )
    by_wait = by_wait / waits

    # The logarithm of a norm: powers of seconds would lose what is small.
    log_powers = np.logaddexp(gamma * np.log(gradient_s), gamma * np.log(waits))
    log_step = log_powers / gamma
    share = np.exp(gamma * np.log(gradient_s) - log_powers)
    by_step = share * by_gradient + (1.0 - share) * by_wait
    by_step[6] = (share * np.log(gradient_s) + (1 - share) * np.log(waits) - log_step) / gamma

    first, slope_first = _root_mean_square(
        np.log(gradient_s) - np.log(np.asarray(observed.gradient_s)), by_gradient
    )
    second, slope_second = _root_mean_square(
        log_step - np.log(np.asarray(observed.step_s)), by_step
    )
    prior, slope_prior = _prior(values)
    return first + second + prior, slope_first + slope_second + slope_prior


def _root_mean_square(errors: Floats, slopes: Floats) -> tuple[float, Floats]:
    size = float(np.sqrt(np.mean(errors**2)))
    if size < _EXACT:
        return size, np.zeros(len(slopes))
    return size, slopes @ errors / (errors.size * size)


def _prior(values: Floats) -> tuple[float, Floats]:
    """Penalties of overlap, and of slopes relative to constants; both keep to optimistic models."""
    slope = np.zeros(7)
    slope[6] = 2 * _OVERLAP_WEIGHT * (values[6] - 1.0)
    total = _OVERLAP_WEIGHT * (values[6] - 1.0) ** 2
    for constant, per_gpu in ((2, 3), (4, 5)):
        ratio = values[per_gpu] / values[constant]
        total += _SLOPE_WEIGHT * ratio**2
        slope[per_gpu] = 2 * _SLOPE_WEIGHT * ratio / values[constant]
        slope[constant] = -2 * _SLOPE_WEIGHT * ratio**2 / values[constant]
    return float(total), slope
