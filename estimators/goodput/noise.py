"""What a larger batch is worth: statistical efficiency by gradient noise, and learning rates."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import choice
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from apportion.types import Floats


def noise_scale(initial_batch: ArrayLike, squared_norm: ArrayLike, variance: ArrayLike) -> Floats:
    r"""Gradient noise scale :math:`\varphi = M_0 \cdot var / sqr`, in samples.

    Parameters
    ----------
    initial_batch
        The batch :math:`M_0` that the job was tuned for, samples; the variance is that of the mean
        gradient of one such batch.
    squared_norm, variance
        Squared norm of the mean gradient, and variance of the gradient, in one unit. Estimates may
        come out below 0; they count as 0.

    Returns
    -------
    ndarray
        The broadcast shape; infinite where only the squared norm is 0: every sample is worth the
        same. 0 where both are: of a gradient of which nothing is known, no gain is promised.

    Raises
    ------
    InputError
        For a batch that is not > 0, and what is no number.
    """
    batch = np.asarray(initial_batch, dtype=np.float64)
    sqr = np.maximum(np.asarray(squared_norm, dtype=np.float64), 0.0)
    var = np.maximum(np.asarray(variance, dtype=np.float64), 0.0)
    if not np.all(batch > 0) or np.isnan(sqr + var).any():
        raise InputError(
            "A gradient noise scale needs initial batches > 0 and gradient statistics that are "
            "numbers."
        )
    batch, sqr, var = np.broadcast_arrays(batch, sqr, var)
    ratio = np.divide(var, sqr, out=np.where(var > 0, np.inf, 0.0), where=sqr > 0)
    return batch * ratio


def gain(batch: ArrayLike, initial_batch: ArrayLike, noise: ArrayLike) -> Floats:
    r"""Progress of one step in steps of the initial batch, from 1 up (AdaScale's gain).

    .. math:: r(M) = \frac{M}{M_0} \cdot \frac{\varphi + M_0}{\varphi + M}

    For an infinite noise scale it is :math:`M / M_0`. Multiply a learning rate tuned for the
    initial batch by it under plain stochastic gradient descent.
    """
    samples, first = np.asarray(batch, dtype=float), np.asarray(initial_batch, dtype=float)
    return np.asarray(samples / first * efficiency(samples, first, noise))


def efficiency(batch: ArrayLike, initial_batch: ArrayLike, noise: ArrayLike) -> Floats:
    r"""Progress per sample relative to the initial batch, :math:`(\varphi + M_0)/(\varphi + M)`.

    Parameters
    ----------
    batch, initial_batch
        Samples per step, and those that the job was tuned for.
    noise
        Gradient noise scale :math:`\varphi`, samples, see `noise_scale`.

    Returns
    -------
    ndarray
        1 at the initial batch, less above it; 1 for every batch under infinite noise.
    """
    samples, first = np.asarray(batch, dtype=float), np.asarray(initial_batch, dtype=float)
    scale = np.asarray(noise, dtype=float)
    finite = np.isfinite(scale)
    known = np.where(finite, scale, 0.0)
    return np.where(finite, (known + first) / (known + samples), 1.0)


def _linear(batch: Floats, initial_batch: Floats, _: Floats) -> Floats:
    return batch / initial_batch


def _square_root(batch: Floats, initial_batch: Floats, _: Floats) -> Floats:
    return np.sqrt(batch / initial_batch)


def _constant(batch: Floats, initial_batch: Floats, _: Floats) -> Floats:
    return np.ones(np.broadcast_shapes(batch.shape, initial_batch.shape))


LEARNING_RATE_RULES: Mapping[str, Callable[[Floats, Floats, Floats], Floats]] = MappingProxyType(
    {"adascale": gain, "square_root": _square_root, "linear": _linear, "constant": _constant}
)
"""Factor on the learning rate by (batch, initial batch, noise scale), by name of the rule."""


def learning_rate_factor(
    rule: str, batch: ArrayLike, initial_batch: ArrayLike, noise: ArrayLike = np.inf
) -> Floats:
    r"""Return what a learning rate is multiplied by when the batch is no longer the initial one.

    ``adascale``: :math:`(M/M_0)(\varphi + M_0)/(\varphi + M)`, for stochastic gradient descent
    (Johnson et al., ICML 2020). ``square_root``: :math:`\sqrt{M/M_0}`, for Adam and its kin.
    ``linear``: :math:`M/M_0`. ``constant``: 1.

    Parameters
    ----------
    rule
        One of `LEARNING_RATE_RULES`.
    batch, initial_batch
        Samples per step, and those that the rate was tuned for; > 0.
    noise
        Gradient noise scale, samples; only ``adascale`` reads it.

    Raises
    ------
    InputError
        For an unknown rule, batches that are not > 0, or noise below 0.
    """
    choice("learning-rate rule", rule, LEARNING_RATE_RULES)
    samples, first = np.asarray(batch, dtype=float), np.asarray(initial_batch, dtype=float)
    scale = np.asarray(noise, dtype=float)
    if not (np.all(samples > 0) and np.all(first > 0) and np.all(scale >= 0)):
        raise InputError("A learning rate needs batches > 0 and a gradient noise scale >= 0.")
    return np.asarray(LEARNING_RATE_RULES[rule](samples, first, scale))
