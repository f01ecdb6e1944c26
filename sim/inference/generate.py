"""Generated inference requests: services by popularity, durations, a rate that follows the day.

When requests come: a Poisson process whose rate follows a curve, with noise and spikes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pandas as pd

from apportion.checks import check_memory, choice, label, listed, number, seconds, whole
from apportion.errors import InputError, unknown_name
from apportion.sim.generators.distributions import pick, streams
from apportion.sim.inference.requests import checked_requests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.inference.requests import RequestRate
    from apportion.types import Floats


MOST_REQUESTS = 10_000_000
"""Most requests that are drawn at once."""


@dataclass(frozen=True)
class Bursts:
    """What multiplies a rate: noise that changes every few minutes, and short spikes.

    Parameters
    ----------
    noise
        Standard deviation of the logarithm of the noise, whose mean is 1; 0 for none.
    noise_window_s
        Seconds for which it stays.
    spikes_per_day
        Mean number of spikes, which come at random times.
    spike_factor, spike_s
        What a spike multiplies the rate by, and how long it lasts. Two at once are as one.

    Raises
    ------
    InputError
        For numbers out of range.
    """

    noise: float = 0.0
    noise_window_s: float = 300.0
    spikes_per_day: float = 0.0
    spike_factor: float = 3.0
    spike_s: float = 600.0

    def __post_init__(self) -> None:
        number("The noise of a rate", self.noise, most=5.0)
        seconds("noise_window_s", self.noise_window_s, strict=True)
        number("spikes_per_day", self.spikes_per_day)
        number("spike_factor", self.spike_factor, least=1.0)
        seconds("spike_s", self.spike_s, strict=True)


def draw_request_times(
    rate: RequestRate, length_s: float, bursts: Bursts, rng: dict[str, np.random.Generator]
) -> Floats:
    """Draw arrival times from 0 to a length of time, ascending, by thinning.

    In each window of noise, more requests than come at any time are drawn evenly, and each is kept
    with the probability of the rate at its time over the bound.

    Parameters
    ----------
    rate
        Requests/s without noise and spikes.
    length_s
        Seconds to draw.
    bursts
        Noise and spikes.
    rng
        Sources of randomness ``"noise"``, ``"spikes"`` and ``"arrivals"``: with one seed, more
        noise leaves the spikes where they were.

    Raises
    ------
    InputError
        If more than `MOST_REQUESTS` would be drawn.
    """
    check_memory("windows of noise", length_s / bursts.noise_window_s, 64)
    edges = np.append(np.arange(0.0, length_s, bursts.noise_window_s), length_s)
    widths = np.diff(edges)
    factor = rng["noise"].normal(-(bursts.noise**2) / 2, bursts.noise, widths.size)
    noise = np.exp(factor)
    spikes = rng["spikes"].poisson(bursts.spikes_per_day * length_s / _DAY_S)
    spike_starts = np.sort(rng["spikes"].random(spikes)) * length_s
    height = bursts.spike_factor if spikes else 1.0
    bound = rate.most * noise * height
    if float(bound @ widths) > MOST_REQUESTS:
        raise InputError(
            f"About {float(bound @ widths):,.0f} requests would be drawn; at most "
            f"{MOST_REQUESTS:,} are. Give a lower rate or a shorter time."
        )
    counts = rng["arrivals"].poisson(bound * widths)
    window = np.repeat(np.arange(widths.size), counts)
    within = rng["arrivals"].random((window.size, 2))
    times = edges[window] + within[:, 0] * widths[window]
    raised = np.where(_in_spike(times, spike_starts, bursts.spike_s), bursts.spike_factor, 1.0)
    kept = within[:, 1] * rate.most * height < rate.at(times) * raised
    return np.sort(times[kept])


def _in_spike(times: Floats, starts: Floats, length_s: float) -> NDArray[np.bool_]:
    """Tell which times are at most so long after a start."""
    if not starts.size:
        return np.zeros(times.shape, dtype=bool)
    last = np.searchsorted(starts, times, side="right") - 1
    return (last >= 0) & (times < starts[last] + length_s)


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
    shares = dict(enumerate(popularity.tolist()))
    asked = pick(shares, rng["services"].random(arrival_s.size))
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
