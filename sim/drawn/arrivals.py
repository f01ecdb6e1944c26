"""When generated jobs arrive: at a steady rate, or by day and by week."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import choice, number
from apportion.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["ARRIVALS", "draw_arrivals"]

ARRIVALS = ("poisson", "diurnal")
"""Names of the arrival processes."""

_LEAST_RATE = 1e-6
"""Least jobs per hour and days: below it, arrivals are centuries apart."""

# Rates relative to the mean. The shape is a plain model, not a measurement of any trace.
_DAY_AND_NIGHT = 1.0 - 0.6 * np.cos(2 * np.pi * (np.arange(24) - 3) / 24)
_WEEK = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5])


def draw_arrivals(
    kind: str,
    count: int,
    jobs_per_hour: float | None,
    days: float | None,
    rng: np.random.Generator,
) -> Floats:
    """Draw arrival times in seconds, ascending, the first at 0, shape (count,).

    ``poisson``: independent gaps of one mean; without a rate it is no process at all, and all jobs
    arrive at 0, as a batch. ``diurnal``: a Poisson process whose rate changes from hour to hour,
    given that it yields `count` jobs: fewest at three at night and most twelve hours later, four
    times as many, and on two days of seven half of it. It begins on a Monday at midnight.

    Parameters
    ----------
    kind
        One of `ARRIVALS`.
    count
        Number of jobs.
    jobs_per_hour
        Mean rate.
    days
        Length of a diurnal process; by default as long as the rate takes.
    rng
        Source of randomness.

    Raises
    ------
    InputError
        For an unknown kind, a number out of range, or days where there are none to be given.
    """
    choice("arrivals", kind, ARRIVALS)
    for option, value in (("jobs_per_hour", jobs_per_hour), ("days", days)):
        if value is not None:
            number(option, value, least=_LEAST_RATE, words="None, or a number")
    if kind == "diurnal":
        return _diurnal(count, jobs_per_hour, days, rng)
    if days is not None:
        raise InputError(f"days is {days!r}; it is for arrivals='diurnal', give jobs_per_hour.")
    if jobs_per_hour is None:
        return np.zeros(count)
    gaps = rng.exponential(3600.0 / jobs_per_hour, size=count - 1)
    return np.concatenate([[0.0], np.cumsum(gaps)])


def _diurnal(
    count: int, jobs_per_hour: float | None, days: float | None, rng: np.random.Generator
) -> Floats:
    """Draw ordered times by the rate of each hour; the first job marks time 0."""
    if bool(days) == bool(jobs_per_hour):
        raise InputError("arrivals='diurnal' needs either days or jobs_per_hour, above 0.")
    hours = 24.0 * days if days else count / (jobs_per_hour or np.nan)
    edges = np.append(np.arange(np.ceil(hours)), hours)
    hour = edges[:-1].astype(np.intp)
    rate = _DAY_AND_NIGHT[hour % 24] * _WEEK[hour // 24 % 7]
    expected = np.concatenate([[0.0], np.cumsum(rate * np.diff(edges))])
    drawn = np.sort(rng.random(count)) * expected[-1]
    arrival_s = 3600.0 * np.interp(drawn, expected, edges)
    return np.asarray(arrival_s - arrival_s[0], dtype=float)
