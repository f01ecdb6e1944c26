"""The unified circle of several jobs: when all are where they were, and how to pace them to one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.errors import InputError
from apportion.mechanism.time_shifts.profile import ROUNDING
from apportion.table_checks import array_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


TOLERANCE = 1e-6
"""Part of a period that may be neglected: an iteration drifts by it, 1,000 of them by 0.1 %."""

EPOCH_S = 600.0
"""For how long shifts are to last by default, seconds."""

DRIFT = 0.05
"""Part of an iteration by which jobs may drift against each other over an epoch of shifts."""

EQUAL = 1e-9
"""Scores that differ by less are equal: which is better would hang on rounding."""

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
    up to `tolerance` (relative), and on which no job goes round more than `most` times. Shifts
    matter modulo the unit of the circle: where that is a part of the shortest period, no more than
    such a part of a `tolerance` above `TOLERANCE` is neglected.

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
    off = (np.abs(ratios - whole) / ratios).max(axis=1)
    for row in ((off <= tolerance) & (whole <= most).all(axis=1)).nonzero()[0].tolist():
        found = UnifiedCircle(float(turns[row] * longest), tuple(int(each) for each in whole[row]))
        part = found.unit_s / float(periods.min())
        if off[row] <= max(min(tolerance, TOLERANCE), part * tolerance):
            return found
    return None


def tolerance_over(epoch_s: float, periods_s: Sequence[float]) -> float:
    """Return by which part periods may differ so that jobs drift little over an epoch.

    Parameters
    ----------
    epoch_s
        Seconds; 0 for one without end.
    periods_s
        Of the jobs, seconds.
    """
    drift = DRIFT * min(periods_s) / epoch_s if epoch_s else 0.0
    return min(max(TOLERANCE, drift), 0.01)


def commensurate_groups(
    periods_s: Sequence[float], *, tolerance: float = TOLERANCE
) -> list[list[int]]:
    """Sort jobs into groups with a unified circle, as positions; longer periods go first.

    Jobs of different groups meet in every way equally often, whatever their shifts.
    """
    groups: list[list[int]] = []
    for job in sorted(range(len(periods_s)), key=lambda job: (-periods_s[job], job)):
        for group in groups:
            together = [periods_s[each] for each in (*group, job)]
            if unified_circle(together, tolerance=tolerance):
                group.append(job)
                break
        else:
            groups.append([job])
    return [sorted(group) for group in groups]


PACE = 0.05
"""Part by which an iteration may be stretched, by default."""

MOST_TURNS = 3
"""Iterations of the slowest job on the circles that are tried: on longer ones jobs hardly fit."""


def pacings(periods_s: Sequence[float], most: float = PACE) -> Iterator[tuple[float, ...]]:
    """Go through the periods to which jobs can be paced, short unified circles first.

    A circle is some whole number of iterations of one of the jobs; each other job goes round it as
    often as it can, and waits for the rest, at most the part `most` of its own period.

    Parameters
    ----------
    periods_s
        Of the jobs, seconds, one or more.
    most
        Largest part by which an iteration is stretched.
    """
    longest = max(periods_s)
    circles = {
        turns * period_s
        for period_s in periods_s
        for turns in range(1, math.floor(MOST_TURNS * (1 + most) * longest / period_s) + 1)
        if turns * period_s >= longest * (1 - TOLERANCE)
    }
    seen: set[tuple[int, ...]] = set()
    for perimeter_s in sorted(circles):
        turns_of = [
            max(1, math.floor(perimeter_s / period_s * (1 + TOLERANCE))) for period_s in periods_s
        ]
        paced = [perimeter_s / turns for turns in turns_of]
        longer = [new / own for new, own in zip(paced, periods_s, strict=True)]
        key = tuple(each // math.gcd(*turns_of) for each in turns_of)
        if max(longer) <= (1 + most) * (1 + ROUNDING) and key not in seen:
            seen.add(key)
            yield tuple(paced)
