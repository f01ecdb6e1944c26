"""Jobs whose periods are nearly equal, or nearly multiples, made so by letting the faster wait."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.mechanism.time_shifts.circle import TOLERANCE
from apportion.mechanism.time_shifts.profile import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PACE = 0.05
"""Part by which an iteration may be stretched, by default."""

MOST_TURNS = 3
"""Iterations of the slowest job on the circles that are tried: on longer ones jobs hardly fit."""

MARGIN = 0.5
"""Part of what random starts are reckoned to lose by the law of the score that pacing may cost."""


class Pacing(NamedTuple):
    """Periods that jobs keep to, none shorter than its own.

    Attributes
    ----------
    periods_s
        Of each job; all have `perimeter_s` as a multiple.
    perimeter_s
        After which all are where they were.
    stretch
        Mean of the periods over the jobs' own, 1 or more.
    """

    periods_s: tuple[float, ...]
    perimeter_s: float
    stretch: float


def pacings(periods_s: Sequence[float], most: float = PACE) -> Iterator[Pacing]:
    """Go through the ways to pace jobs so that they have a unified circle, short circles first.

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
        stretches = [max(1.0, new / own) for new, own in zip(paced, periods_s, strict=True)]
        key = tuple(each // math.gcd(*turns_of) for each in turns_of)
        if max(stretches) <= (1 + most) * (1 + ROUNDING) and key not in seen:
            seen.add(key)
            yield Pacing(tuple(paced), perimeter_s, float(np.mean(stretches)))


def worth_pacing(stretch: float, random_scores: Sequence[float]) -> bool:
    """Tell whether pacing costs clearly less than random starts are reckoned to.

    Parameters
    ----------
    stretch
        Mean stretch of the jobs.
    random_scores
        Score of each job's worst link with random starts.
    """
    loses = 1 - float(np.mean(random_scores))
    return stretch - 1 <= max(MARGIN * loses, TOLERANCE)
