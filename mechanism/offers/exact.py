"""Numbers that the rounding of floats cannot tell apart count as equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["DIGITS", "TICK_S", "on_tick"]

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
