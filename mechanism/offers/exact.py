"""Times that the rounding of floats cannot tell apart are one instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["TICK_S", "on_tick"]

TICK_S = 2.0**-20
"""Least time between two instants, seconds: about a microsecond.

Times of events are multiples of it, so that two that only rounding tells apart are one instant. As
it is a power of two, sums and differences of such times are exact for 200 years.
"""


def on_tick(time_s: Floats) -> Floats:
    """Round times to multiples of `TICK_S`; infinite ones stay."""
    ticks: Floats = np.round(time_s / TICK_S) * TICK_S
    return ticks
