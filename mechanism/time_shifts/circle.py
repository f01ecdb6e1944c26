"""The unified circle of several jobs, and the best shift of one beside others that stand still.

Jobs whose periods are nearly equal, or nearly multiples, are made so by letting the faster wait.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.errors import InputError
from apportion.mechanism.time_shifts.profile import ROUNDING
from apportion.mechanism.time_shifts.turning import wrapped
from apportion.table_checks import array_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apportion.mechanism.time_shifts.turning import TurningJob, TurningJobs
    from apportion.types import Floats


TOLERANCE = 1e-6
"""Part of a period that may be neglected: an iteration drifts by it, 1,000 of them by 0.1 %."""

EPOCH_S = 600.0
"""For how long shifts are to last by default, seconds."""

DRIFT = 0.05
"""Part of an iteration by which jobs may drift against each other over an epoch of shifts."""

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


EQUAL = 1e-9
"""Scores that differ by less are equal: which is better would hang on rounding."""


def best_rotation(turning: TurningJobs, shifts_s: Floats, place: int) -> tuple[float, float]:
    """Return the best shift of one job, and the excess that it leaves.

    As a function of the shift the excess is linear between the shifts at which an edge of the job
    meets an edge of the others; the best of these is the optimum. Shifts matter modulo the
    greatest common divisor of the job's period and the time after which the others repeat.
    Of equal ones the smallest is taken.

    Parameters
    ----------
    turning
        All jobs.
    shifts_s
        Of every job, shape (jobs,); that of the job itself does not matter.
    place
        Of the job.
    """
    job, circle = turning.jobs[place], turning.circle
    times, load = turning.load(shifts_s, without=place)
    others = [each.units for at, each in enumerate(turning.jobs) if at != place]
    modulus = math.gcd(job.units, math.lcm(*others)) * circle.unit_s
    rotations = np.zeros(1)
    if job.edges_s.size and times.size > 1:
        meetings = np.mod(times[1:, None] - job.edges_s, modulus)
        rotations = np.unique(wrapped(meetings.ravel(), modulus))
    excess = _excess_of(turning, job, times, load, rotations)
    best = int((excess <= excess.min() + EQUAL).argmax())
    return float(rotations[best]), float(excess[best])


def descended(turning: TurningJobs, shifts_s: Floats, *, rounds: int = 20) -> tuple[Floats, float]:
    """Turn one job after the other to its best shift until none gains; the first stays.

    Returns
    -------
    tuple
        Shifts, shape (jobs,), and the excess.
    """
    shifts, reached = shifts_s.copy(), float(turning.excess(shifts_s[None])[0])
    for _ in range(rounds):
        before = reached
        for place in range(1, len(turning.jobs)):
            rotation, excess = best_rotation(turning, shifts, place)
            if excess < reached - EQUAL:
                shifts[place], reached = rotation, excess
        if reached >= before - EQUAL:
            break
    return shifts, reached


def _excess_of(
    turning: TurningJobs, job: TurningJob, times: Floats, load: Floats, rotations: Floats
) -> Floats:
    """Excess for every rotation of a job, divided by perimeter and capacity, shape (rotations,)."""
    circle = turning.circle
    scale = circle.perimeter_s * turning.capacity_gbps
    widths = np.diff(times, append=circle.perimeter_s)
    if not job.edges_s.size:
        return np.full(rotations.size, turning.over(load + job.after_gbps[0]) @ widths / scale)
    total = np.zeros(rotations.size)
    for level in np.unique(job.after_gbps):
        over = turning.over(load + level)
        places, integral = _folded(times, over, float(over @ widths), job.period_s)
        pieces = job.after_gbps == level
        for sign, ends in ((1.0, job.ends_s[pieces]), (-1.0, job.edges_s[pieces])):
            at = rotations[:, None] + ends
            turns, rest = np.divmod(at, job.period_s)
            reached = np.interp(rest, places, integral) + turns * integral[-1]
            total += sign * reached.sum(axis=1)
    return np.maximum(0.0, total) / scale


def _folded(times: Floats, over: Floats, whole: float, period_s: float) -> tuple[Floats, Floats]:
    """Fold a step function over the circle onto one period, and integrate it from 0.

    Parameters
    ----------
    times, over
        Of the steps; the first time is 0.
    whole
        Integral over the circle, and so over the period once folded.
    """
    jumps = over - np.roll(over, 1)
    at = np.mod(times, period_s)
    order = at.argsort(kind="stable")
    places = np.append(at[order], period_s)
    level = jumps[order].cumsum()
    widths = np.diff(places)
    level += (whole - level @ widths) / period_s
    return places, np.append(0.0, (level * widths).cumsum())
