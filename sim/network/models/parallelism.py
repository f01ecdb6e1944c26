"""What an iteration sends under each way of training in parallel, as templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.checks import listed, number, seconds, whole
from apportion.errors import InputError
from apportion.mechanism.time_shifts import CommunicationProfile

if TYPE_CHECKING:
    from collections.abc import Sequence

_HYBRID_PHASES = 6
_SILENT = (0, 2)


def data_parallel(
    name: str, *, forward_s: float, backward_s: float, gigabits: float, gbps: float
) -> CommunicationProfile:
    """Return the profile of data parallelism: silent forward and backward, then one all-reduce.

    Parameters
    ----------
    name
        Of the profile.
    forward_s, backward_s
        Compute, seconds.
    gigabits
        That the all-reduce sends over the link.
    gbps
        Gb/s at which it does.
    """
    silent_s = seconds("forward_s", forward_s) + seconds("backward_s", backward_s)
    return CommunicationProfile.in_turn(name, [(silent_s, 0.0), _sent("gigabits", gigabits, gbps)])


def pipeline_parallel(
    name: str,
    *,
    forward_s: float,
    backward_s: float,
    microbatches: int,
    activation_gigabits: float,
    embedding_gigabits: float,
    gbps: float,
) -> CommunicationProfile:
    """Return the profile of a pipeline: bursts of activations, then a large all-reduce.

    Each microbatch sends its activations forward and their gradients backward; the all-reduce is
    of the embedding, which the first and the last stage share.

    Parameters
    ----------
    name
        Of the profile.
    forward_s, backward_s
        Seconds of all microbatches together; bursts lie within them.
    microbatches
        Of an iteration.
    activation_gigabits
        Of one microbatch; its gradient is as large.
    embedding_gigabits
        That the all-reduce sends.
    gbps
        Gb/s at which all is sent.

    Raises
    ------
    InputError
        If a microbatch takes longer to send than to compute.
    """
    count = whole("microbatches", microbatches, 1)
    burst_s, rate = _sent("activation_gigabits", activation_gigabits, gbps)
    phases: list[tuple[float, float]] = []
    for what, pass_s in (("forward_s", forward_s), ("backward_s", backward_s)):
        each_s = seconds(what, pass_s) / count
        if burst_s > each_s * (1 + 1e-12):
            raise InputError(
                f"{name!r} sends the activations of a microbatch for {burst_s:g} s and computes "
                f"for {each_s:g} s ({what}); sending must not take longer."
            )
        phases += [(max(0.0, each_s - burst_s), 0.0), (burst_s, rate)] * count
    phases.append(_sent("embedding_gigabits", embedding_gigabits, gbps))
    return CommunicationProfile.in_turn(name, phases)


def tensor_parallel(
    name: str,
    *,
    loading_s: float,
    forward_s: float,
    backward_s: float,
    forward_gbps: float,
    backward_gbps: float,
) -> CommunicationProfile:
    """Return the profile of tensor parallelism: traffic all through forward and backward.

    Parameters
    ----------
    name
        Of the profile.
    loading_s
        Seconds between iterations in which data are loaded and nothing is sent.
    forward_s, backward_s
        Seconds of the two passes.
    forward_gbps, backward_gbps
        Gb/s wanted in them.
    """
    phases = [(loading_s, 0.0), (forward_s, forward_gbps), (backward_s, backward_gbps)]
    return CommunicationProfile.in_turn(name, phases)


def hybrid_parallel(
    name: str, *, phases_s: Sequence[float], gbps: Sequence[float]
) -> CommunicationProfile:
    """Return the profile of 3D parallelism: six phases, the first and the third silent.

    Parameters
    ----------
    name
        Of the profile.
    phases_s
        Seconds of the six phases.
    gbps
        Gb/s of the second, fourth, fifth and sixth.

    Raises
    ------
    InputError
        If there are not six phases and four rates.
    """
    lengths, rates = listed("phases_s", phases_s), listed("gbps", gbps)
    if len(lengths) != _HYBRID_PHASES or len(rates) != _HYBRID_PHASES - len(_SILENT):
        raise InputError(
            f"{name!r} has {len(lengths)} phases_s and {len(rates)} gbps; there must be 6 and 4."
        )
    for place in _SILENT:
        rates.insert(place, 0.0)
    return CommunicationProfile.in_turn(name, list(zip(lengths, rates, strict=True)))


def _sent(what: str, gigabits: float, gbps: float) -> tuple[float, float]:
    """Seconds and rate of a message at the full rate."""
    rate = number("gbps", gbps, strict=True)
    return number(what, gigabits) / rate, rate
