"""Generated inference requests: services by popularity, durations, a rate that follows the day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pandas as pd

from apportion.checks import check_memory, choice, label, listed, number, seconds, whole
from apportion.errors import InputError, unknown_name
from apportion.sim.drawn.draws import streams
from apportion.sim.inference.arrival_times import Bursts, draw_request_times
from apportion.sim.inference.requests import checked_requests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.inference.rates import RequestRate

    Floats = NDArray[np.float64]

__all__ = ["DurationShape", "generate_requests"]

DurationShape = Literal["constant", "uniform", "lognormal"]
_STREAMS = ("noise", "spikes", "arrivals", "services", "durations")
_DAY_S = 86_400.0


def generate_requests(
    rate: RequestRate,
    *,
    length_s: float = _DAY_S,
    services: int | Sequence[str] = 6,
    zipf: float = 1.0,
    mean_duration_s: float | Mapping[str, float] = 5.0,
    durations: DurationShape = "uniform",
    spread: float = 0.5,
    slo_factor: float | None = None,
    bursts: Bursts | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Generate inference requests.

    They are a Poisson process whose rate is `rate` times noise and spikes. The k-th service is
    asked in proportion to :math:`k^{-z}` (Zipf's law).

    Parameters
    ----------
    rate
        Requests/s by time: `DiurnalRate`, or `MeasuredRate` as read from a trace.
    length_s
        Seconds to generate.
    services
        Names of services, the most popular first, or how many: ``service-1`` and so on.
    zipf
        Exponent z, >= 0; 0 for services of equal popularity.
    mean_duration_s
        Mean seconds of a request on one GPU, for all or by service.
    durations
        ``"constant"``; ``"uniform"``: the mean times 1 - spread to 1 + spread; ``"lognormal"``:
        with that mean, and a logarithm of standard deviation `spread`.
    spread
        See `durations`; below 1 if uniform.
    slo_factor
        If given, each request should end within so many times its duration, >= 1.
    bursts
        Noise and spikes; none by default.
    seed
        Of all random numbers: same seed, same table.

    Returns
    -------
    DataFrame
        Columns arrival_s, service, duration_s and perhaps slo_s, in order of arrival, indexed from
        0; see `REQUEST_COLUMNS`.

    Raises
    ------
    InputError
        For options out of range, and services without a mean duration.
    """
    seconds("length_s", length_s, strict=True)
    names = _names(services)
    means = _means(names, mean_duration_s)
    number("zipf", zipf, most=100.0)
    choice("shape of durations", durations, get_args(DurationShape))
    number("spread", spread, most=1.0 - 1e-9 if durations == "uniform" else 5.0)
    rng = streams(_STREAMS, seed)
    arrival_s = draw_request_times(rate, length_s, bursts or Bursts(), rng)
    popularity = np.arange(1, len(names) + 1, dtype=float) ** -zipf
    cumulative = np.cumsum(popularity / popularity.sum())
    drawn = rng["services"].random(arrival_s.size)
    asked = np.searchsorted(cumulative[:-1], drawn, side="right")
    shape = _shapes(durations, spread, arrival_s.size, rng["durations"])
    found = {
        "arrival_s": arrival_s,
        "service": np.array(names, dtype=object)[asked],
        "duration_s": means[asked] * shape,
    }
    if slo_factor is not None:
        factor = number("slo_factor", slo_factor, least=1.0)
        found["slo_s"] = factor * found["duration_s"]
    return checked_requests(pd.DataFrame(found))


def _names(services: int | Sequence[str]) -> list[str]:
    if isinstance(services, (int, np.integer)):
        count = whole("The number of services", services, 1)
        check_memory("services", count, 200)
        return [f"service-{number}" for number in range(1, count + 1)]
    names = [label("service", each) for each in listed("services", services)]
    if not names or len(set(names)) < len(names):
        raise InputError("The services must be at least one, and none twice.")
    return names


def _means(names: list[str], given: float | Mapping[str, float]) -> Floats:
    if not isinstance(given, Mapping):
        return np.full(len(names), seconds("mean_duration_s", given, strict=True))
    for name in names:
        if name not in given:
            raise unknown_name("service among the mean durations", name, given)
    values = [seconds(f"The mean duration of {name!r}", given[name], strict=True) for name in names]
    return np.array(values)


def _shapes(kind: str, spread: float, count: int, rng: np.random.Generator) -> Floats:
    """Durations relative to their mean."""
    if kind == "constant":
        return np.ones(count)
    if kind == "uniform":
        return np.asarray(1.0 + spread * (2.0 * rng.random(count) - 1.0))
    return np.asarray(np.exp(rng.normal(-(spread**2) / 2, spread, count)))
