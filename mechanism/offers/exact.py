"""Numbers that the rounding of floats cannot tell apart count as equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["DIGITS", "TICK_S", "on_tick", "ranks", "significant"]

DIGITS = 9
"""Digits in which numbers must differ.

Times, progress and priorities are sums of up to some million floats, which leaves them some 10 of
their 16 digits at worst, and what sums in another order differ by is far below the ninth. What
jobs really differ by is far above: a second in thirty years.
"""

TICK_S = 2.0**-20
"""Least time between two instants, seconds: about a microsecond.

Times of events are multiples of it, so that two that only rounding tells apart are one instant. As
it is a power of two, sums and differences of such times are exact for 200 years.
"""


def on_tick(time_s: Floats) -> Floats:
    """Round times to multiples of `TICK_S`; infinite ones stay."""
    ticks: Floats = np.round(time_s / TICK_S) * TICK_S
    return ticks


def significant(value: float) -> float:
    """Round a number to `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")


def ranks(values: Floats) -> NDArray[np.int64]:
    """Return the rank of every value, equal for values that differ in late digits only.

    Neighbours in ascending order whose difference is less than their last significant digit have
    the same rank. Rounding each by itself would split two that lie beside the middle between
    two rounded numbers, which times in whole seconds often do.

    Parameters
    ----------
    values
        Numbers, infinite ones included, shape (n,).
    """
    order = values.argsort(kind="stable")
    ascending = values[order]
    low, high = ascending[:-1], ascending[1:]
    apart = low != high
    with np.errstate(invalid="ignore"):
        size = np.maximum(np.abs(low), np.abs(high))
        apart &= ~(high - low < size * 10.0**-DIGITS)
    ranked = np.zeros(values.size, dtype=np.int64)
    ranked[order[1:]] = np.cumsum(apart)
    return ranked
