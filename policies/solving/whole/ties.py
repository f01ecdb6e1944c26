"""Costs in which numbers that differ by rounding only are the same number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.ties import ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["without_noise"]

_NOISE = 1e-12
"""Part of the largest number up to which a difference is rounding."""


def without_noise(numbers: Floats) -> Floats:
    """Return numbers of which those that differ by rounding only are equal, to about 12 digits."""
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest == 0.0:
        return np.zeros_like(numbers)
    step = 2.0 ** (np.ceil(np.log2(largest)) - 40)
    rank = ranks(numbers, absolute=_NOISE * largest, relative=0.0)
    first = np.full(int(rank.max()) + 1, np.inf)
    np.minimum.at(first, rank, numbers)
    return np.asarray((np.rint(first / step) * step)[rank], dtype=float)
