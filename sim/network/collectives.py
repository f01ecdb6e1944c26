"""Seconds that a collective operation takes, in the alpha-beta model.

A message of S bytes takes alpha + S / B: a latency, and its length over the bandwidth. Every
cost below is of the same form, so a `Cost` holds the two factors.

Ring and halving-doubling: Thakur, Rabenseifner and Gropp (2005), "Optimization of Collective
Communication Operations in MPICH", sections 4.1 to 4.5. Hierarchical: ASTRA-sim (ISPASS 2020),
section III, and its analytical network model.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from apportion.checks import whole
from apportion.errors import InputError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.sim.network.interconnect import Dimension, Span

__all__ = [
    "COLLECTIVES",
    "Cost",
    "halving_doubling",
    "hierarchical",
    "phases",
    "point_to_point",
    "ring",
]

COLLECTIVES: Mapping[str, int] = MappingProxyType(
    {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1}
)
"""Collectives, and how often each passes over the data: an all-reduce scatters, then gathers."""


class Cost(NamedTuple):
    """Seconds as a function of bytes: ``latency_s + size_bytes * s_per_byte``."""

    latency_s: float
    s_per_byte: float

    def seconds(self, size_bytes: float) -> float:
        """Seconds for so many bytes; nothing to send takes no time."""
        return self.latency_s + size_bytes * self.s_per_byte if size_bytes else 0.0


def point_to_point(dimension: Dimension, units: int = 2, distance: int = 1) -> Cost:
    """One message between two units of a dimension: hops * latency + S / B."""
    hops = dimension.hops(whole("units", units, 1), distance)
    return Cost(hops * dimension.latency_s, 1 / dimension.bytes_per_s(units))


def ring(collective: str, peers: int, dimension: Dimension) -> Cost:
    """Run a collective around a ring: c (n - 1) alpha + c (n - 1) / n * S / B.

    c is 2 for an all-reduce and 1 for the others. S is what every peer holds in full: before a
    reduce-scatter and an all-to-all, after an all-gather. An all-to-all sends S / n to each of the
    others in turn, each time at the latency of a neighbor.

    Raises
    ------
    InputError
        For an unknown collective, or less than one peer.
    """
    if collective not in COLLECTIVES:
        raise unknown_name("collective", collective, COLLECTIVES)
    _check_peers(peers)
    steps = COLLECTIVES[collective] * (peers - 1)
    return Cost(steps * dimension.alpha_s, steps / peers / dimension.bytes_per_s(peers))


def halving_doubling(peers: int, dimension: Dimension) -> Cost:
    """All-reduce by recursive halving and doubling: 2 log2(n) alpha + 2 (n - 1) / n * S / B.

    Raises
    ------
    InputError
        If the number of peers is no power of two.
    """
    _check_peers(peers)
    if peers & (peers - 1):
        raise InputError(
            f"Halving-doubling among {peers} peers; their number must be a power of two."
        )
    steps = 2 * (peers.bit_length() - 1)
    share = 2 * (peers - 1) / peers
    return Cost(steps * dimension.alpha_s, share / dimension.bytes_per_s(peers))


def phases(collective: str, spans: Iterable[Span]) -> tuple[Cost, ...]:
    """Run a collective over several dimensions, inner to outer, by a ring in each.

    An all-reduce scatters inwards and gathers on the way back, so that the bytes that reach a
    dimension are divided by the units of all dimensions inside; likewise its two halves. An
    all-to-all exchanges everything anew in every dimension (derived: no reduction, nothing
    shrinks). Where machines or racks hold different parts of the gang, the widest sets the steps
    and the narrowest the division (`Span`).

    Returns
    -------
    tuple of Cost
        What each dimension is busy for with a message of the whole collective.
    """
    costs, divided = [], 1
    for span in spans:
        cost = ring(collective, span.units, span.dimension)
        costs.append(Cost(cost.latency_s, cost.s_per_byte / divided))
        if collective != "all_to_all":
            divided *= span.narrowest
    return tuple(costs)


def hierarchical(collective: str, spans: Iterable[Span]) -> Cost:
    """Cost of one collective alone: its `phases` one after the other."""
    costs = phases(collective, spans)
    return Cost(sum(cost.latency_s for cost in costs), sum(cost.s_per_byte for cost in costs))


def _check_peers(peers: int) -> None:
    """Refuse a collective among nobody."""
    if peers < 1:
        raise InputError(f"A collective among {peers} peers; there must be at least one.")
