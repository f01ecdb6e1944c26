"""How many requests come per second, by time: a day and night, or as measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from apportion.annotations import explained
from apportion.checks import number
from apportion.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.types import Floats


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


@dataclass(frozen=True, eq=False)
class MeasuredRate:
    """A rate that is constant between given times, and begins anew after the last.

    Parameters
    ----------
    start_s
        Where each window begins, ascending, the first at 0.
    rates
        Requests/s in each window.
    period_s
        Where the last window ends, and the first comes again.

    Raises
    ------
    InputError
        For windows that do not ascend from 0, and rates that are no numbers >= 0 or all 0.
    """

    start_s: Floats
    rates: Floats
    period_s: float

    @explained
    def __post_init__(self) -> None:
        starts, rates = (np.asarray(each, dtype=np.float64) for each in (self.start_s, self.rates))
        if starts.ndim != 1 or starts.shape != rates.shape or not starts.size:
            raise InputError("A measured rate needs as many rates as windows, at least one.")
        edges = np.append(starts, self.period_s)
        if starts[0] != 0 or not np.all(np.diff(edges) > 0) or not np.isfinite(edges[-1]):
            raise InputError("The windows of a measured rate must ascend from 0 to the period.")
        if not (np.all((rates >= 0) & np.isfinite(rates)) and np.any(rates > 0)):
            raise InputError("Measured rates must be numbers >= 0, at least one of them above 0.")
        object.__setattr__(self, "start_s", starts)
        object.__setattr__(self, "rates", rates)

    @property
    def most(self) -> float:
        """What the rate never exceeds, requests/s."""
        return float(self.rates.max())

    @property
    def mean(self) -> float:
        """Mean over the period, requests/s."""
        lengths = np.diff(np.append(self.start_s, self.period_s))
        return float(self.rates @ lengths / self.period_s)

    def at(self, time_s: ArrayLike) -> Floats:
        """Requests/s at the given times, seconds from the start."""
        within = np.asarray(time_s, dtype=np.float64) % self.period_s
        return np.asarray(self.rates[np.searchsorted(self.start_s, within, side="right") - 1])

    def scaled(self, mean: float) -> MeasuredRate:
        """Return the same shape with another mean, requests/s."""
        number("The mean rate", mean, strict=True, words="a number of requests/s")
        return MeasuredRate(self.start_s, self.rates * (mean / self.mean), self.period_s)
