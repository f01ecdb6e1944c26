"""The price of one resource in the relaxation, without a linear program: a search over one number.

At a price, each unit of a row takes the cell that leaves it most; the sum of what is left, and of
what all there is would cost, bounds every decision. It is convex in the price and made of straight
lines, so that the price of the relaxation lies where two of them meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["price_of"]

_MOST_STEPS = 100


def price_of(
    value: Floats, amount: Floats, row: Ints, units: Floats, capacity: float
) -> tuple[float, float]:
    """Return the price of the relaxation and its bound.

    Parameters
    ----------
    value, amount, row
        Worth of a unit of each cell, what it holds, and its row; cells of a row lie together.
    units
        Units of each row, shape (rows,).
    capacity
        Amount that there is.
    """
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    count = units[row[starts]]

    def line(price: float) -> tuple[float, float]:
        """Bound at a price, and its slope there."""
        left = value - price * amount
        best = np.maximum.reduceat(left, starts)
        first = np.full(starts.size, np.inf)
        of_row = np.repeat(np.arange(starts.size), np.diff(np.append(starts, row.size)))
        at_best = left >= best[of_row]
        np.minimum.at(first, of_row[at_best], amount[at_best])
        wins = best > 0
        held = float((count * first)[wins].sum())
        return price * capacity + float((count * best)[wins].sum()), capacity - held

    low, high = 0.0, float((value / amount).max())
    (at_low, rises), (at_high, falls) = line(low), line(high)
    if rises >= 0:
        return low, at_low
    for _ in range(_MOST_STEPS):
        meet = low + (at_high - at_low - falls * (high - low)) / (rises - falls)
        lowest = at_low + rises * (meet - low)
        bound, slope = line(meet)
        if not low < meet < high or bound <= lowest + 1e-14 * abs(bound):
            return meet, bound
        if slope < 0:
            low, at_low, rises = meet, bound, slope
        else:
            high, at_high, falls = meet, bound, slope
    return high, at_high
