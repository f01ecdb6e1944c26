"""The distributions that workloads are generated from, by the name of their source.

``gavel``: the generator of Gavel (Narayanan et al., OSDI 2020, section 7.1 and its artefact).
``philly``: the trace of Microsoft's Philly clusters (Jeon et al., USENIX ATC 2019) in the form in
which Gavel's artefact carries it, 15,264 jobs of 15 virtual clusters: shares of GPU counts, and
quantiles of the durations, of which the two below the median are those of virtual cluster 2869ce.

When generated jobs arrive: at a steady rate, or by day and by week.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import choice, mapping, number, whole
from apportion.checks import seed as check_seed
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.types import Floats


MOST_JOBS = 10_000_000
"""Most jobs that are drawn at once."""


def streams(names: Sequence[str], seed: int) -> dict[str, np.random.Generator]:
    """Make one independent random stream for each thing that is drawn.

    Raises
    ------
    InputError
        If the seed is not a whole number >= 0.
    """
    children = np.random.SeedSequence(check_seed(seed)).spawn(len(names))
    pairs = zip(names, children, strict=True)
    return {name: np.random.default_rng(child) for name, child in pairs}


SCALE_FACTORS: Mapping[str, Mapping[float, float]] = MappingProxyType(
    {
        "single": {1: 1.0},
        "gavel": {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05},
        "philly": {1: 0.687, 2: 0.030, 4: 0.134, 8: 0.126, 16: 0.017, 32: 0.006},
    }
)
"""Share of jobs by the number of GPUs that they hold."""

WEIGHTS: Mapping[str, Mapping[float, float]] = MappingProxyType(
    {"equal": {1.0: 1.0}, "gavel": {1.0: 0.8, 5.0: 0.2}}
)
"""Share of jobs by priority weight."""

DEADLINES: Mapping[str, Mapping[float, float]] = MappingProxyType(
    {"none": {np.nan: 1.0}, "gavel": {1.2: 1.0, 2.0: 1.0, 10.0: 1.0}}
)
"""Share of jobs by deadline, in multiples of the duration."""

DURATIONS = ("gavel", "philly")
"""Names of the distributions of durations."""

# Quantile levels and seconds; between them the logarithm of the duration is linear in the level.
_PHILLY_LEVELS = (0.0, 0.25, 0.5, 0.9, 0.99, 1.0)
_PHILLY_SECONDS = (57.0, 1_780.0, 11_221.0, 193_574.0, 2.88e6, 4_628_239.0)
_GAVEL_SHORT_SHARE = 0.8


def draw_shares(
    option: str,
    value: str | Mapping[float, float],
    named: Mapping[str, Mapping[float, float]],
    count: int,
    rng: np.random.Generator,
    *,
    whole_values: bool = False,
) -> NDArray[np.float64]:
    """Draw values by their shares of the jobs.

    Parameters
    ----------
    option
        Name of the option, for errors.
    value
        One of the names in `named`, or your own shares, e.g. ``{1: 0.5, 8: 0.5}``; they are
        scaled to a sum of one.
    named
        Shares by name.
    count, rng
        How many to draw, and the source of randomness: one number for each.
    whole_values
        Whether the values must be whole numbers >= 1, as GPUs are; else they must be > 0.

    Raises
    ------
    InputError
        For an unknown name, or shares that are not numbers >= 0 with a sum above 0.
    """
    valid = f"a name ({', '.join(named)}), or shares such as {{1: 0.5, 8: 0.5}}"
    if isinstance(value, str):
        shares = dict(named[choice(option, value, named)])
    else:
        shares = mapping(option, value, valid)
        for each in shares:
            if whole_values:
                whole(f"A value in {option}", each, 1, integral=True)
            else:
                number(f"A value in {option}", each, strict=True)
    weights = np.array([number(f"A share in {option}", share) for share in shares.values()])
    if not weights.sum() > 0:
        raise InputError(f"{option} is {written(value)}; the shares must not all be 0.")
    return pick(dict(zip(shares, weights.tolist(), strict=True)), rng.random(count)).astype(float)


def pick(shares: Mapping[Any, float], level: Floats) -> NDArray[Any]:
    """Return the value at each level, in [0, 1), of a distribution by its shares (of any sum)."""
    weights = np.array([*shares.values()], dtype=float)
    cumulative = np.cumsum(weights / weights.sum())
    return np.array([*shares])[np.searchsorted(cumulative[:-1], level, side="right")]


def draw_durations(kind: str, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw durations in seconds, shape (count,).

    ``gavel``: 80 % of the jobs last 60 x 10^U(1.5, 3) s, the others 60 x 10^U(3, 4) s.
    ``philly``: heavy-tailed, by the quantiles named above, independent of the GPU count.

    Raises
    ------
    InputError
        For an unknown kind.
    """
    choice("durations", kind, DURATIONS)
    uniform = rng.random((count, 2))
    if kind == "philly":
        return np.exp(np.interp(uniform[:, 0], _PHILLY_LEVELS, np.log(_PHILLY_SECONDS)))
    short = uniform[:, 1] < _GAVEL_SHORT_SHARE
    exponent = np.where(short, 1.5 + 1.5 * uniform[:, 0], 3.0 + uniform[:, 0])
    return np.asarray(60.0 * 10.0**exponent, dtype=np.float64)


ARRIVALS = ("poisson", "diurnal")
"""Names of the arrival processes."""

_LEAST_RATE = 1e-6
"""Least jobs per hour and days: below it, arrivals are centuries apart."""

# Rates relative to the mean. The shape is a plain model, not a measurement of any trace.
_DAY_AND_NIGHT = 1.0 - 0.6 * np.cos(2 * np.pi * (np.arange(24) - 3) / 24)
_WEEK = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5])


def draw_arrivals(
    kind: str, count: int, jobs_per_hour: float | None, days: float | None, rng: np.random.Generator
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
