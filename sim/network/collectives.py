"""Seconds that a collective operation takes, in the alpha-beta model.

A message of S bytes takes alpha + S / B: a latency, and its length over the bandwidth. Every
cost below is of the same form, so a `Cost` holds the two factors.

Ring and halving-doubling: Thakur, Rabenseifner and Gropp (2005), "Optimization of Collective
Communication Operations in MPICH", sections 4.1 to 4.5. By algorithm and number of nodes: Wang,
Chu et al. (2020), Table I. Hierarchical: ASTRA-sim (ISPASS 2020),
section III, and its analytical network model.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from apportion.checks import choice, number, whole
from apportion.errors import InputError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from apportion.sim.network.interconnect import Dimension, Span

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


ALL_REDUCES: Mapping[str, Callable[[int, float, float, float], tuple[float, float]]] = (
    MappingProxyType(
        {
            "binary_tree": lambda n, alpha, beta, gamma: (
                2 * alpha * math.log2(n),
                (2 * beta + gamma) * math.log2(n),
            ),
            "recursive_doubling": lambda n, alpha, beta, gamma: (
                alpha * math.log2(n),
                (beta + gamma) * math.log2(n),
            ),
            "halving_doubling": lambda n, alpha, beta, gamma: (
                2 * alpha * math.log2(n),
                2 * beta - (2 * beta + gamma) / n + gamma,
            ),
            "ring": lambda n, alpha, beta, gamma: (
                2 * (n - 1) * alpha,
                2 * (n - 1) / n * beta + (n - 1) / n * gamma,
            ),
        }
    )
)
"""Latency and seconds per byte by algorithm, of N, alpha, beta and gamma: Table I of Wang et al."""


def all_reduce_cost(
    algorithm: str, nodes: int, *, alpha_s: float, beta_s: float, gamma_s: float
) -> Cost:
    """Return a and b of an all-reduce that takes ``a + b M`` seconds for M bytes.

    Parameters
    ----------
    algorithm
        Out of `ALL_REDUCES`.
    nodes
        N.
    alpha_s
        Latency of a message, seconds.
    beta_s
        Seconds to send a byte.
    gamma_s
        Seconds to add up two bytes.

    Raises
    ------
    InputError
        For an unknown algorithm, less than one node, or negative seconds.
    """
    choice("all-reduce algorithm", algorithm, ALL_REDUCES)
    whole("nodes", nodes, 1)
    for name, value in (("alpha_s", alpha_s), ("beta_s", beta_s), ("gamma_s", gamma_s)):
        number(name, value)
    return Cost(*ALL_REDUCES[algorithm](nodes, alpha_s, beta_s, gamma_s))


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
    return all_reduce("halving_doubling", peers, dimension)


def all_reduce(algorithm: str, peers: int, dimension: Dimension) -> Cost:
    """All-reduce by any algorithm of `ALL_REDUCES`; that of adding up bytes takes no time.

    Those of trees and of doubling take as many steps as for the next power of two, up to which the
    others wait.

    Raises
    ------
    InputError
        For an unknown algorithm, or less than one peer.
    """
    _check_peers(peers)
    choice("all-reduce algorithm", algorithm, ALL_REDUCES)
    if algorithm == "ring":
        return ring("all_reduce", peers, dimension)
    padded = 2 ** (peers - 1).bit_length()
    s_per_byte = 1 / dimension.bytes_per_s(peers)
    return all_reduce_cost(
        algorithm, padded, alpha_s=dimension.alpha_s, beta_s=s_per_byte, gamma_s=0.0
    )


def phases(collective: str, spans: Iterable[Span]) -> tuple[Cost, ...]:
    """Run a collective over several dimensions, inner to outer, by a ring in each.

    An all-reduce goes by the algorithm of the dimension (`Dimension.all_reduce`).

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
        if collective == "all_reduce":
            cost = all_reduce(span.dimension.all_reduce, span.units, span.dimension)
        else:
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
