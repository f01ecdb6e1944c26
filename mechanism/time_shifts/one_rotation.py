"""The best shift of one job beside others that stand still, exactly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.time_shifts.turning import wrapped

if TYPE_CHECKING:
    from apportion.mechanism.time_shifts.turning import TurningJob, TurningJobs
    from apportion.types import Floats


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
