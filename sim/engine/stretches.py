"""Stretches of time that follow each other: alike, or with other speeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.repetition import running_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.scheduler import GangProgress

    Floats = NDArray[np.float64]

__all__ = ["one_after_the_other", "repeats"]

# Stretches that nothing distinguishes are booked together, but not more than memory is for.
_AT_ONCE = 500


def one_after_the_other(first: GangProgress, second: GangProgress) -> GangProgress:
    """Return what two stretches with the same gangs have brought together."""
    worked_s = first.worked_s + second.worked_s
    steps = first.rate * first.worked_s + second.rate * second.worked_s
    return second._replace(
        rate=np.divide(steps, worked_s, out=second.rate.copy(), where=worked_s > 0),
        worked_s=worked_s,
        held_s=first.held_s + second.held_s,
        length_s=first.length_s + second.length_s,
    )


def repeats(now_s: float, length_s: float, until_s: float, needed_s: Floats) -> Floats:
    """Return the ends of stretches that begin before a time and in which nobody is done."""
    if until_s <= now_s + length_s:
        return np.empty(0)
    # One less than fits, whatever the rounding of a long sum.
    whole = int(min(needed_s.min(initial=np.inf) / length_s - 1, _AT_ONCE))
    if whole < 2:
        return np.empty(0)
    ends_s = running_sums(now_s, length_s, whole)
    begun = 1 + int(np.searchsorted(ends_s[:-1], until_s))
    return ends_s[:begun]
