"""The unified circle of several jobs: the least time in which all of them go round whole times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.errors import InputError
from apportion.table_checks import array_of

if TYPE_CHECKING:
    from collections.abc import Sequence

TOLERANCE = 1e-6
"""Part of a period that may be neglected: an iteration drifts by it, 1,000 of them by 0.1 %."""

MOST_ITERATIONS = 300
"""Iterations of the shortest job on the longest circle that is still told from none."""


class UnifiedCircle(NamedTuple):
    """A time after which several jobs are where they were.

    Attributes
    ----------
    perimeter_s
        Least common multiple of the periods, seconds.
    repetitions
        Iterations of each job in it.
    """

    perimeter_s: float
    repetitions: tuple[int, ...]

    @property
    def units(self) -> tuple[int, ...]:
        """Periods as whole numbers without a common divisor."""
        least = math.lcm(*self.repetitions)
        return tuple(least // each for each in self.repetitions)

    @property
    def unit_s(self) -> float:
        """Greatest common divisor of the periods, seconds."""
        return self.perimeter_s / math.lcm(*self.repetitions)


def unified_circle(
    periods_s: Sequence[float], *, tolerance: float = TOLERANCE, most: int = MOST_ITERATIONS
) -> UnifiedCircle | None:
    """Return the unified circle of jobs, or None for periods that are incommensurate.

    The perimeter is the least multiple of the longest period that is a multiple of every other one
    up to `tolerance` (relative), and on which no job goes round more than `most` times.

    Parameters
    ----------
    periods_s
        Seconds, > 0, of one job or more.
    """
    periods = array_of("periods_s", periods_s, 1)
    if not periods.size or not (np.isfinite(periods) & (periods > 0)).all():
        raise InputError("The periods of a circle must be seconds > 0, of one job or more.")
    longest = periods.max()
    turns = np.arange(1, max(1, math.floor(most * (periods.min() / longest) + 0.5)) + 1)
    ratios = turns[:, None] * (longest / periods)
    whole = np.rint(ratios)
    fits = (np.abs(ratios - whole) <= tolerance * ratios).all(axis=1) & (whole <= most).all(axis=1)
    if not fits.any():
        return None
    first = int(fits.argmax())
    return UnifiedCircle(float(turns[first] * longest), tuple(int(each) for each in whole[first]))


def commensurate_groups(
    periods_s: Sequence[float], *, tolerance: float = TOLERANCE, most: int = MOST_ITERATIONS
) -> list[list[int]]:
    """Sort jobs into groups with a unified circle, as positions; longer periods go first.

    Jobs of different groups meet in every way equally often, whatever their shifts.
    """
    groups: list[list[int]] = []
    for job in sorted(range(len(periods_s)), key=lambda job: (-periods_s[job], job)):
        for group in groups:
            together = [periods_s[each] for each in (*group, job)]
            if unified_circle(together, tolerance=tolerance, most=most):
                group.append(job)
                break
        else:
            groups.append([job])
    return [sorted(group) for group in groups]
