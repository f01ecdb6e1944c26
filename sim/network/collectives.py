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
from heapq import heappop, heappush
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from apportion.checks import choice, number, whole
from apportion.errors import InputError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from apportion.sim.network.interconnect import Dimension, Span
    from apportion.sim.network.profile import Exchange


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


class _Dimensions:
    """Dimensions that serve one message at a time, and pass it on to the next one.

    A message is its number, in the order of issue, and the seconds that it takes in each dimension.
    """

    def __init__(self, last_first: Sequence[bool]) -> None:
        self._last_first = last_first
        self._waiting: list[list[tuple[int, list[float]]]] = [[] for _ in last_first]
        self._busy = [False] * len(last_first)
        self._ends: list[tuple[float, int, int, list[float]]] = []  # when, dimension, message
        self.over_s: dict[int, float] = {}

    def issue(self, now_s: float, message: int, seconds: list[float]) -> None:
        """Let a message queue for the innermost dimension."""
        self._come(now_s, 0, (message, seconds))

    def run(self, until_s: float) -> None:
        """Serve all that ends before a time."""
        while self._ends and self._ends[0][0] < until_s:
            self._step()

    def wait_for(self, message: int) -> float:
        """Serve until a message is through, and return when that is."""
        while message not in self.over_s:
            self._step()
        return self.over_s[message]

    def _step(self) -> None:
        now_s, dimension, message, seconds = heappop(self._ends)
        self._busy[dimension] = False
        self._come(now_s, dimension + 1, (message, seconds))
        self._serve(now_s, dimension)

    def _come(self, now_s: float, dimension: int, message: tuple[int, list[float]]) -> None:
        if dimension == len(self._busy):
            self.over_s[message[0]] = now_s
            return
        self._waiting[dimension].append(message)
        self._serve(now_s, dimension)

    def _serve(self, now_s: float, dimension: int) -> None:
        waiting = self._waiting[dimension]
        if self._busy[dimension] or not waiting:
            return
        chosen = max(waiting) if self._last_first[dimension] else min(waiting)
        waiting.remove(chosen)
        self._busy[dimension] = True
        message, seconds = chosen
        heappush(self._ends, (now_s + seconds[dimension], dimension, message, seconds))


def end_in_orders_s(
    parts: Iterable[tuple[float, Exchange, bool]],
    costs: Mapping[str, Sequence[Cost]],
    last_first: Sequence[bool],
) -> float:
    """Return when an iteration ends, as `apportion.sim.network.profile.timeline` has it.

    Parameters
    ----------
    parts
        Compute seconds, what is sent after them, and whether that is waited for.
    costs
        Of each collective, one for each dimension.
    last_first
        Whether the message that was issued last is the next one in a dimension, else the first.
    """
    dimensions, now_s, sent = _Dimensions(last_first), 0.0, 0
    for seconds, exchange, waited_for in parts:
        now_s += seconds
        if not exchange.size_bytes:
            continue
        dimensions.run(now_s)
        each_s = [cost.seconds(exchange.size_bytes) for cost in costs[exchange.collective]]
        dimensions.issue(now_s, sent, each_s)
        now_s = dimensions.wait_for(sent) if waited_for else now_s
        sent += 1
    return max([now_s, *map(dimensions.wait_for, range(sent))])
