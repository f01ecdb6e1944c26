"""Times that the rounding of floats cannot tell apart are one instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanisms.settings import TICK_S

if TYPE_CHECKING:
    from apportion.types import Floats


def on_tick(time_s: Floats) -> Floats:
    """Round times to multiples of `TICK_S`; infinite ones stay."""
    ticks: Floats = np.rint(time_s / TICK_S)
    ticks *= TICK_S
    return ticks
