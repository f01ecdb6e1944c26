"""When requests come: a Poisson process whose rate follows a curve, with noise and spikes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import check_memory, number, seconds
from apportion.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.inference.rates import RequestRate

    Floats = NDArray[np.float64]

__all__ = ["MOST_REQUESTS", "Bursts", "draw_request_times"]

MOST_REQUESTS = 10_000_000
"""Most requests that are drawn at once."""

_DAY_S = 86_400.0


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
    rate: RequestRate,
    length_s: float,
    bursts: Bursts,
    rng: dict[str, np.random.Generator],
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
