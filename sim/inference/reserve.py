"""GPUs that are kept for requests by a forecast, so that training is lent the others only."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from apportion.checks import check_memory, file_path, listed, number, seconds
from apportion.errors import InputError, written
from apportion.mechanisms.setting_names import value_in_brackets
from apportion.sim.inference.read import read_requests
from apportion.sim.inference.requests import checked_requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from apportion.types import Ints

logger = logging.getLogger(__name__)

_MOST_WINDOWS = 1_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Reserve:
    r"""GPUs by time, enough for the demand with probability 1 - epsilon.

    .. math:: g(t) = \min \{ g : P(D_w \le g) \ge 1 - \epsilon \},\quad w \text{ the window of } t

    the quantile of the demand over scenarios. It is what the 0/1 program of serving and training
    (`apportion.elastic.joint_sizing`) has for one type. The last window is followed by the first.

    Parameters
    ----------
    demand
        GPUs that requests need in each window and scenario, shape (windows, scenarios).
    window_s
        Length of a window, seconds.
    epsilon
        Probability with which the demand may be above the GPUs kept for it, from 0 to below 1.

    Raises
    ------
    InputError
        For no windows or scenarios, demands below 0, and numbers out of range.
    """

    demand: ArrayLike
    window_s: float = 600.0
    epsilon: float = 0.05

    def __post_init__(self) -> None:
        try:
            demand = np.asarray(self.demand, dtype=np.float64)
        except (TypeError, ValueError):
            demand = np.zeros(0)
        if demand.ndim != 2 or not demand.size or not ((demand >= 0) & (demand < 1e9)).all():
            raise InputError(
                "The demand of a reserve must be numbers >= 0, a row for each window and a column "
                "for each scenario, at least one of both."
            )
        object.__setattr__(self, "demand", demand)
        seconds("window_s", self.window_s, strict=True)
        number("epsilon", self.epsilon, most=1.0 - 1e-9)

    @classmethod
    def of_days(
        cls,
        days: Sequence[pd.DataFrame] | pd.DataFrame | str | Path,
        *,
        window_s: float = 600.0,
        epsilon: float = 0.05,
        day_s: float = 86_400.0,
    ) -> Reserve:
        """Forecast by days past: each is a scenario, in which requests began when they came.

        Parameters
        ----------
        days
            Requests of each, with durations, times from the start of the day. Or those of several
            days in one table or csv, which is cut at the end of each; if no request comes in the
            last window of the last day, that day is taken for unfinished and left out, unless it
            is the only one.
        window_s, epsilon
            As in `Reserve`.
        day_s
            Length of a day, seconds, a whole number of windows. What lasts beyond its end counts
            at its beginning, as every day is followed by one like it.

        Raises
        ------
        InputError
            For no days, a length that windows do not fill, and requests that arrive after it.
        """
        windows = seconds("day_s", day_s, strict=True) / seconds("window_s", window_s, strict=True)
        if windows != round(windows):
            raise InputError(
                f"A day of {day_s:g} s is {windows:.6g} windows of {window_s:g} s; it must be a "
                f"whole number of them."
            )
        if isinstance(days, str | Path):
            days = read_requests(file_path("days", days))
        if isinstance(days, pd.DataFrame):
            days = _cut(days, day_s, window_s)
        if not listed("days", days, "a table of requests, or a list with one for each day"):
            raise InputError("A forecast needs at least one day of requests.")
        demand = np.zeros((round(windows), len(days)))
        for column, day in zip(demand.T, days, strict=True):
            peaks = most_at_once(_within(day, day_s), window_s)[: column.size]
            column[: peaks.size] = peaks
        return cls(demand, window_s, epsilon)

    @classmethod
    def of(cls, value: Any) -> Reserve:
        """Return a value for one, or for the requests of days past or their csv alone.

        A csv may have settings of `of_days` in brackets: ``"past.csv(epsilon=0.1)"``.
        """
        if isinstance(value, str):
            return cast("Reserve", value_in_brackets(cls.of_days, "reserve", value))
        if isinstance(value, cls):
            return value
        if not isinstance(value, pd.DataFrame | Path | list):
            raise InputError(
                f"reserve is {written(value)}; it must be a Reserve, or the requests of days past: "
                f"a table, or a csv file, with durations."
            )
        return cls.of_days(value)

    @property
    def gpus(self) -> Ints:
        """GPUs kept in each window, shape (windows,)."""
        ordered = np.sort(np.asarray(self.demand, dtype=np.float64), axis=1)
        scenarios = ordered.shape[1]
        place = int(np.ceil((1 - self.epsilon) * scenarios * (1 - 1e-12))) - 1
        return np.ceil(ordered[:, max(place, 0)] * (1 - 1e-12)).astype(np.intp)

    def at(self, time_s: float) -> int:
        """GPUs kept at a time, seconds from the start."""
        gpus = self.gpus
        return int(gpus[int(time_s // self.window_s) % gpus.size])

    def __repr__(self) -> str:
        windows, scenarios = np.shape(self.demand)
        gpus = self.gpus
        return (
            f"Reserve({windows} windows of {self.window_s:g} s, {scenarios} scenarios, "
            f"epsilon={self.epsilon:g}: {','.join(map(str, gpus.tolist()))} GPUs)"
        )


def _cut(requests: pd.DataFrame, day_s: float, window_s: float) -> list[pd.DataFrame]:
    """Return the requests of each day, times from its start."""
    asked = checked_requests(requests).sort_values("arrival_s", kind="stable")
    arrival_s = asked["arrival_s"].to_numpy(dtype=np.float64)
    days = int(arrival_s[-1] // day_s) + 1 if arrival_s.size else 0
    check_memory(f"requests of {days:,} days", days * day_s / window_s, 8)
    if days > 1 and arrival_s[-1] < days * day_s - window_s:
        logger.info("Day %d is left out: no request comes in its last %g s.", days, window_s)
        days -= 1
    first = np.searchsorted(arrival_s, day_s * np.arange(days + 1)).tolist()
    return [
        asked.iloc[one:other].assign(arrival_s=arrival_s[one:other] - day * day_s)
        for day, (one, other) in enumerate(itertools.pairwise(first))
    ]


def _within(requests: pd.DataFrame, day_s: float) -> pd.DataFrame:
    """Return requests cut at the end of a day, whose rest begins with the day."""
    asked = checked_requests(requests)
    if len(asked) and asked["arrival_s"].max() >= day_s:
        raise InputError(
            f"A request of a day arrives at {asked['arrival_s'].max():g} s; a day is {day_s:g} s "
            f"long, and times are counted from its start."
        )
    if "duration_s" not in asked:
        return asked  # which is refused where durations are asked for
    over_s = asked["arrival_s"] + asked["duration_s"] - day_s
    beyond = over_s > 0
    rest = asked[beyond].assign(arrival_s=0.0, duration_s=np.minimum(over_s[beyond], day_s))
    kept = asked.assign(duration_s=asked["duration_s"] - over_s.clip(lower=0.0))
    return pd.concat([rest, kept], ignore_index=True)


def most_at_once(requests: pd.DataFrame, window_s: float = 600.0) -> Ints:
    """Return the most requests at a time in each window, if each began when it came.

    Raises
    ------
    InputError
        For requests without durations, and more than a million windows.
    """
    length_s = seconds("window_s", window_s, strict=True)
    asked = checked_requests(requests)
    if "duration_s" not in asked:
        raise InputError("A forecast of GPUs needs the column 'duration_s' of the requests.")
    if not len(asked):
        return np.zeros(1, dtype=np.intp)
    begin = asked["arrival_s"].to_numpy(dtype=np.float64)
    end = begin + asked["duration_s"].to_numpy(dtype=np.float64)
    windows = int(end.max() // length_s) + 1
    if windows > _MOST_WINDOWS:
        raise InputError(
            f"Requests last until {end.max():g} s, too many windows of {length_s:g} s."
        )
    starts = np.arange(windows) * length_s
    times = np.concatenate([end, starts, begin])  # what ends at a time has ended
    change = np.repeat([-1, 0, 1], [end.size, windows, begin.size])
    order = np.argsort(times, kind="stable")
    at_once = np.cumsum(change[order])
    most = np.zeros(windows, dtype=np.intp)
    np.maximum.at(most, (times[order] // length_s).astype(np.intp), at_once)
    return most
