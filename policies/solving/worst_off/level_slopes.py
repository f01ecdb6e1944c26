"""How demands, and what they cost, change with the level of a policy: differences, short enough.

A ratio that is nearly all elapsed time bends within a hair, so a step is as short as it has to be
for what is measured to change by no more than a little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["rise_of_demands", "slope_of_level"]

_STEP, _STRAIGHT, _SHORTEST = 1e-6, 1e-5, 1e-12
"""First relative step of the level, largest relative change over two steps, and last step."""


def slope_of_level(cost: Callable[[float], float], level: float, *, maximises: bool) -> float:
    """Return how much better a level may be per part of their cost that demands cost more.

    Parameters
    ----------
    cost
        Cost of the demands at a level, at given dual values.
    level
        The level.
    maximises
        Whether larger levels are better.
    """
    here, step = cost(level), _STEP
    worse = -1 if maximises else 1
    while True:
        near, far = (1 - cost(level * (1 + worse * steps)) / here for steps in (step, 2 * step))
        if far <= _STRAIGHT or step <= _SHORTEST:
            change = (4 * near - far) / 2  # the slope here, but for the third derivative
            return level * step / here / change if change > 0 else 0.0
        step /= 10


def rise_of_demands(demand: Callable[[float], Floats], level: float, *, maximises: bool) -> Floats:
    """Return how fast each demand rises as the level gets better, steps/s per unit of the level.

    Parameters
    ----------
    demand
        Steps/s of each job at a level.
    level
        The level.
    maximises
        Whether larger levels are better.
    """
    here, step = demand(level), _STEP
    rise = np.full(here.size, np.nan)
    worse = -1 if maximises else 1
    while np.isnan(rise).any():
        near, far = (here - demand(level * (1 + worse * steps)) for steps in (step, 2 * step))
        straight = (far <= _STRAIGHT * here) | (step <= _SHORTEST)
        found = straight & np.isnan(rise)
        rise[found] = ((4 * near - far) / (2 * step * level))[found]
        step /= 10
    return rise
