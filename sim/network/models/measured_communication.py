"""Communication profiles from the layers of a model, and from samples of the load of a link."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import number, seconds, whole
from apportion.errors import InputError, written
from apportion.mechanism.time_shifts import CommunicationPhase, CommunicationProfile
from apportion.sim.network.collectives import COLLECTIVES, hierarchical, phases
from apportion.sim.network.profile import timeline

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.sim.network.interconnect import Interconnect
    from apportion.sim.network.profile import ModelProfile
    from apportion.sim.network.shapes import Shape
    from apportion.types import Floats


_BITS = 8e-9  # gigabits of a byte
_ROUNDING = 1e-12
"""Seconds between phases that touch."""


def profile_of_layers(
    model: ModelProfile,
    shape: Shape,
    interconnect: Interconnect,
    *,
    gpus_per_link: int = 1,
    merge: float = 0.01,
) -> CommunicationProfile:
    """Return what a gang sends over its slowest tier in one iteration, layer by layer.

    The iteration is that of the network models (`apportion.sim.network.profile.timeline`).

    Parameters
    ----------
    model
        Its layers.
    shape
        Where its GPUs are.
    interconnect
        What carries the messages; the outermost dimension that the gang uses is the link.
    gpus_per_link
        GPUs of the gang that share the link, each of which sends as much.
    merge
        See `merged`.

    Raises
    ------
    InputError
        If the gang is one GPU, which sends nothing.
    """
    spans = interconnect.spans(shape)
    if not spans:
        raise InputError(f"The shape {written(shape)} is one GPU; it sends nothing.")
    link, count = spans[-1], whole("gpus_per_link", gpus_per_link, 1)
    outermost = {name: phases(name, spans)[-1] for name in COLLECTIVES}
    pipelined = interconnect.pipelined
    costs = {
        name: phases(name, spans) if pipelined else (hierarchical(name, spans),)
        for name in COLLECTIVES
    }
    line = timeline(model, costs)
    found = []
    for message in line.messages:
        if not pipelined or message.dimension == len(spans) - 1:
            factor = outermost[message.exchange.collective].s_per_byte
            sent = message.exchange.size_bytes * factor * link.dimension.bytes_per_s(link.units)
            taken_s = message.end_s - message.begin_s
            gbps = _BITS * sent * count / taken_s if taken_s else 0.0
            found.append(CommunicationPhase(message.begin_s, taken_s, gbps))
    return merged(CommunicationProfile(model.name, line.end_s, found), merge)


def profile_of_samples(
    name: str,
    gbps: ArrayLike,
    interval_s: float,
    *,
    period_s: float | None = None,
    silent_gbps: float | None = None,
    merge: float = 0.05,
) -> CommunicationProfile:
    """Return the profile of a job from samples of the load of a link that it has for itself.

    Samples are folded onto one period and averaged; what is above `silent_gbps` is a phase.

    Parameters
    ----------
    name
        Of the profile.
    gbps
        Load in each interval, Gb/s, shape (samples,).
    interval_s
        Length of an interval, seconds.
    period_s
        Of an iteration; None to take the shift with which the load is most like itself (its
        autocorrelation), for which the samples must hold three iterations or more.
    silent_gbps
        Load that counts as none; None for a twentieth of the largest.
    merge
        See `merged`.

    Raises
    ------
    InputError
        For samples that are no numbers >= 0, too few of them, or none that repeats.
    """
    load, step = _samples(name, gbps), seconds("interval_s", interval_s, strict=True)
    if period_s is None:
        period_s = _period(name, load) * step
    period = seconds("period_s", period_s, strict=True)
    if not 2 * step <= period <= load.size * step * (1 + 1e-9):
        raise InputError(
            f"The period of {name!r} is {period:g} s; with {load.size} samples of {step:g} s it "
            f"must be {2 * step:g} to {load.size * step:g} s."
        )
    bins = round(period / step)
    whole_periods = int(load.size * step / period * (1 + 1e-9))
    used = load[: max(1, round(whole_periods * period / step))]
    at = np.mod((np.arange(used.size) + 0.5) * step, period)
    bin_of = np.minimum((at / period * bins).astype(int), bins - 1)
    mean = np.bincount(bin_of, used, bins) / np.maximum(1, np.bincount(bin_of, minlength=bins))
    least = 0.05 * mean.max() if silent_gbps is None else number("silent_gbps", silent_gbps)
    mean[mean <= least] = 0.0
    width = period / bins
    phases_found = [(place * width, width, level) for place, level in enumerate(mean.tolist())]
    return merged(CommunicationProfile(name, period, phases_found), merge)


def merged(profile: CommunicationProfile, part: float) -> CommunicationProfile:
    """Join phases that are all but one, without changing what they send.

    Phases no further apart than a part of the period become one if their Gb/s differ by no more
    than that part of the peak; then those that are no longer than that part of the period join
    their neighbours.

    Parameters
    ----------
    profile
        Any.
    part
        0 to 1.
    """
    near_s = number("merge", part, most=1.0) * profile.period_s
    apart = part * profile.peak_gbps
    phases_left = list(profile.phases)
    for short in (False, True):
        joined: list[CommunicationPhase] = []
        for phase in phases_left:
            last = joined[-1] if joined else None
            if last is None or phase.start_s - last.start_s - last.duration_s > near_s + _ROUNDING:
                joined.append(phase)
                continue
            brief = short and min(phase.duration_s, last.duration_s) <= near_s
            if brief or abs(phase.gbps - last.gbps) <= apart:
                length = phase.start_s + phase.duration_s - last.start_s
                sent = last.duration_s * last.gbps + phase.duration_s * phase.gbps
                joined[-1] = CommunicationPhase(last.start_s, length, sent / length)
            else:
                joined.append(phase)
        phases_left = joined
    return CommunicationProfile(profile.name, profile.period_s, phases_left)


def _samples(name: str, gbps: ArrayLike) -> Floats:
    try:
        load = np.asarray(gbps, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"The samples of {name!r} are no numbers ({error}).") from error
    if load.ndim != 1 or load.size < 2:
        raise InputError(
            f"The samples of {name!r} have shape {load.shape}; give 2 or more in a row."
        )
    wrong = np.flatnonzero(~(np.isfinite(load) & (load >= 0)))
    if wrong.size:
        raise InputError(
            f"Sample {wrong[0]} of {name!r} is {load[wrong[0]]:g}; it must be a number >= 0."
        )
    return load


def _period(name: str, load: Floats) -> float:
    """Return the samples after which the load repeats: a peak of its autocorrelation."""
    centred = load - load.mean()
    size = load.size
    padded = np.fft.rfft(centred, 2 * size)
    alike = np.fft.irfft(np.abs(padded) ** 2)[:size] / np.arange(size, 0, -1)
    most = size // 3 + 1
    peaks = _peaks(alike[: most + 1])
    if not peaks or alike[0] <= 0:
        raise InputError(
            f"The samples of {name!r} do not repeat three times; give period_s or more samples."
        )
    best = max(alike[place] for place in peaks)
    first = next(place for place in peaks if alike[place] >= 0.9 * best)
    return _refined(alike, size, first)


def _peaks(values: Floats) -> list[int]:
    """Places that are above their neighbours and above 0, the first and the last left out."""
    inner = (values[1:-1] >= values[:-2]) & (values[1:-1] > values[2:]) & (values[1:-1] > 0)
    return (np.flatnonzero(inner) + 1).tolist()


def _refined(alike: Floats, size: int, first: int) -> float:
    """Use multiples of a period, whose peaks tell it more finely than whole samples."""
    period = float(first)
    times = 2
    while times * period < size * 2 / 3:
        around = round(times * period)
        reach = max(1, first // 4)
        window = alike[around - reach : around + reach + 1]
        period = (around - reach + int(window.argmax())) / times
        times *= 2
    return period
