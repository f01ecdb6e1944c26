"""Inference requests: a table of when each comes and what it asks, or how many come per second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER, number, seconds
from apportion.errors import InputError, unknown_name, written
from apportion.table_checks import as_floats, check_unique, from_the_first, table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from apportion.types import Floats


REQUEST_COLUMNS = {
    "arrival_s": "when the request comes, seconds from the start of the workload",
    "service": "the service that it asks, a text",
    "duration_s": "seconds on one GPU, without a cold start",
    "slo_s": "seconds from its arrival within which it should end; not below its duration",
    "context_tokens": "tokens that it brings",
    "generated_tokens": "tokens that it gets",
}
"""Columns of a table of requests; the first two are always there, and a duration or tokens."""

_MOST_WINDOWS = 1_000_000


def checked_requests(requests: pd.DataFrame, *, sized: bool = True) -> pd.DataFrame:
    """Check a table of requests, and sort it by arrival.

    Parameters
    ----------
    requests
        Columns of `REQUEST_COLUMNS`, one row per request, indexed by the name of the request.
    sized
        Whether they must say how much they need, by a duration or tokens.

    Raises
    ------
    InputError
        For unknown or missing columns, values out of range, or an SLO that is shorter than the
        service itself; the message names the request.
    """
    given = table("The requests", requests, "requests")
    for column in given.columns:
        if column not in REQUEST_COLUMNS:
            raise unknown_name("column of the requests", column, REQUEST_COLUMNS)
    for column in ("arrival_s", "service"):
        if column not in given.columns:
            raise InputError(f"The requests have no column {column!r}.")
    if (
        sized
        and "duration_s" not in given
        and not {"context_tokens", "generated_tokens"} <= set(given)
    ):
        raise InputError("The requests have neither a column 'duration_s' nor tokens.")
    check_unique("request", given.index)
    found = given.copy()
    for column in found.columns:
        if column == "service":
            found[column] = _services(found[column])
        else:
            found[column] = _numbers(found[column], strict=column in ("duration_s", "slo_s"))
    found["arrival_s"] = from_the_first("The requests", found["arrival_s"].to_numpy())
    if {"slo_s", "duration_s"} <= set(found):
        short = (found["slo_s"] < found["duration_s"]).to_numpy()
        if short.any():
            row = found[short].iloc[0]
            raise InputError(
                f"Request {written(found.index[short].tolist()[0])} has an SLO of "
                f"{row['slo_s']:g} s, but takes {row['duration_s']:g} s by itself."
            )
    return found.sort_values("arrival_s", kind="stable").rename_axis("request")


def _services(names: pd.Series) -> pd.Series:
    wrong = names.isna() | names.astype(str).str.strip().eq("")
    if wrong.any():
        raise InputError(f"Request {written(names.index[wrong].tolist()[0])} names no service.")
    return names.astype(str)


def _numbers(values: pd.Series, *, strict: bool) -> NDArray[np.float64]:
    numbers = as_floats(values)
    wrong = ~((numbers > 0 if strict else numbers >= 0) & (numbers <= LARGEST_NUMBER))
    if wrong.any():
        where = int(np.argmax(wrong))
        raise InputError(
            f"{values.name} of request {written(values.index.tolist()[where])} is "
            f"{written(values.iloc[where])}; it must be a number {'>' if strict else '>='} 0."
        )
    return numbers


def offered_load(requests: pd.DataFrame, window_s: float = 3600.0) -> pd.Series:
    """GPUs that would be busy on average if every request began when it came, by window.

    Parameters
    ----------
    requests
        With durations.
    window_s
        Length of a window, seconds.

    Returns
    -------
    Series
        Erlangs, indexed by the start of each window in seconds: rate times mean duration.

    Raises
    ------
    InputError
        For requests without durations, and more than a million windows.
    """
    seconds("window_s", window_s, strict=True)
    checked = checked_requests(requests)
    if "duration_s" not in checked:
        raise InputError("The load of requests needs their column 'duration_s'.")
    last_s = float(checked["arrival_s"].max()) if len(checked) else 0.0
    if last_s / window_s > _MOST_WINDOWS:
        raise InputError(
            f"Requests come until {last_s:g} s, more than {_MOST_WINDOWS:,} windows of "
            f"{window_s:g} s; times are seconds from the start of the workload."
        )
    window = (checked["arrival_s"] // window_s).astype(np.int64).to_numpy()
    total = np.bincount(window, weights=checked["duration_s"].to_numpy()) / window_s
    index = pd.Index(np.arange(total.size) * window_s, name="start_s")
    return pd.Series(total, index=index, name="erlangs")


def peak_gpus(requests: pd.DataFrame, window_s: float = 3600.0) -> int:
    r"""GPUs for the busiest window by the square-root rule, :math:`E + 2 \sqrt{E}`, rounded up."""
    load = offered_load(requests, window_s)
    peak = float(load.max()) if len(load) else 0.0
    return int(np.ceil(peak + 2.0 * np.sqrt(peak)))


_DAY_S = 86_400.0


class RequestRate(Protocol):
    """Requests per second as a function of time, with a bound on it."""

    @property
    def most(self) -> float:
        """What the rate never exceeds, requests/s."""
        ...

    def at(self, time_s: ArrayLike) -> Floats:
        """Requests/s at the given times, seconds from the start."""
        ...


@dataclass(frozen=True)
class DiurnalRate:
    r"""A mean rate with two harmonics of the day.

    .. math:: \lambda(t) = \bar\lambda \left(1 + a \sin\frac{2\pi (t - t_0)}{86400}
              + b \sin\frac{4\pi (t - t_1)}{86400}\right)

    The defaults are a plain model, not a measurement: the least before dawn, the most in the
    afternoon, with a shoulder in the evening.

    Parameters
    ----------
    mean
        Mean rate :math:`\bar\lambda`, requests/s.
    day, half_day
        Amplitudes a and b relative to the mean, >= 0, together at most 1.
    day_phase_s, half_day_phase_s
        :math:`t_0` and :math:`t_1`, seconds: where each harmonic passes its mean upwards.

    Raises
    ------
    InputError
        For a mean that is not > 0, and amplitudes under which the rate would fall below 0.
    """

    mean: float
    day: float = 0.6
    half_day: float = 0.2
    day_phase_s: float = 9 * 3600.0
    half_day_phase_s: float = 7 * 3600.0

    def __post_init__(self) -> None:
        number("The mean rate", self.mean, strict=True, words="a number of requests/s")
        number("The amplitude of the day", self.day)
        number("The amplitude of the half day", self.half_day)
        for name in ("day_phase_s", "half_day_phase_s"):
            number(name, getattr(self, name), least=-np.inf, words="a number of seconds")
        if self.day + self.half_day > 1:
            raise InputError(
                f"The amplitudes {self.day:g} and {self.half_day:g} are together above 1; the rate "
                f"would fall below 0."
            )

    @property
    def most(self) -> float:
        """What the rate never exceeds, requests/s."""
        return self.mean * (1.0 + self.day + self.half_day)

    def at(self, time_s: ArrayLike) -> Floats:
        """Requests/s at the given times, seconds from the start."""
        days = np.asarray(time_s, dtype=np.float64) / _DAY_S
        first = self.day * np.sin(2 * np.pi * (days - self.day_phase_s / _DAY_S))
        second = self.half_day * np.sin(4 * np.pi * (days - self.half_day_phase_s / _DAY_S))
        return np.asarray(self.mean * np.maximum(1.0 + first + second, 0.0))
