"""How the learning rate follows the batch."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import choice
from apportion.errors import InputError
from apportion.estimators.goodput.noise import gain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

__all__ = ["LEARNING_RATE_RULES", "learning_rate_factor"]


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
