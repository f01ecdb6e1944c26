"""Rules of gates in numbers: one text, interpreted by gates and compiled by the fast engine.

They call nothing of the package and make no lists, so that numba can take them as they are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from apportion.mechanism.gates.gate import START

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

TIE = 1e-9
"""Bytes and seconds that differ by less, relatively, are equal: no start hangs on rounding."""


def small_beside(size: float, rest: float, b: float, eta: float) -> bool:
    """Tell whether a transfer should join another of which so much is left, see `AdaDual`."""
    return size < b / (2 * (b + eta)) * (1 - TIE) * rest


def start_cost(
    j: int,
    size: float,
    rests: Sequence[float] | NDArray[np.float64],
    k: int,
    b: float,
    eta: float,
) -> float:
    """Return what a start after the j-th completion adds to the sum of completion times.

    Parameters
    ----------
    j
        Completions to wait for; 0 to start now.
    size
        Bytes of the transfer that could start.
    rests, k
        Bytes left of those on its link, ascending, and how many they are.
    b, eta
        Seconds per byte, and what each further transfer adds.

    Returns
    -------
    float
        ``D_j`` of `KWay`, seconds.
    """
    begun_s = before = shared = 0.0
    for i in range(j):
        together = k - i
        begun_s += (rests[i] - before) * (together * b + (together - 1) * eta)
        before = rests[i]
    for i in range(j, k):
        shared += min(size, rests[i] - before)
    return begun_s + b * size + 2 * (b + eta) * shared


def next_turn(now_s: float, shift_s: float, period_s: float) -> float:
    """Return `START` at shift + n period, up to rounding, and else the next such time."""
    turns = (now_s - shift_s) / period_s
    if abs(turns - round(turns)) * period_s <= TIE * max(1.0, now_s):
        return START
    return shift_s + math.ceil(turns) * period_s
