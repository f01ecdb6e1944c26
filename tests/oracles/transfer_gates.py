"""Gates that decide whether a transfer may begin: SRSF(n), AdaDUAL, the k-way rule.

A gate reads the network and the transfer that asks, and answers now or not now; it changes
nothing. m is the greatest number of running transfers on a link of the asking one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.oracles.shared_links import Law, LinkName, Network


@dataclass(frozen=True)
class Asking:
    """A transfer that wants to begin: its job, its links in the order of the job's GPUs, bytes."""

    owner: int
    links: tuple[LinkName, ...]
    size: Fraction


Gate = Callable[[Network, Asking], bool]


def busiest(net: Network, asking: Asking) -> int:
    """The m of the gates."""
    return max((len(net.on(x)) for x in asking.links), default=0)


def always(net: Network, asking: Asking) -> bool:
    """Admit every transfer at once."""
    return True


def srsf(n: int) -> Gate:
    """SRSF(n): begin iff m < n, counted by server (link of the task)."""
    return lambda net, asking: busiest(net, asking) < n


def srsf_between(n: int) -> Gate:
    """SRSF(n) of the text: begin iff fewer than n tasks use any link between two of the nodes."""

    def gate(net: Network, asking: Asking) -> bool:
        pairs = [(x, y) for x in asking.links for y in asking.links if x != y]
        return all(sum(x in t.links and y in t.links for t in net.running) < n for x, y in pairs)

    return gate


def adadual(check: str = "all") -> Gate:
    """AdaDUAL: m = 0 begins, m = 1 iff M_new / M_old_rest < b / (2 (b + eta)), m >= 2 waits.

    With m = 1 there can be another transfer on each link. "first" compares with that of the first
    link that has one (line 5 uses ">"), so it hangs on the order of links; "all" with each.
    """

    def gate(net: Network, asking: Asking) -> bool:
        if busiest(net, asking) > 1:
            return False
        old = [t for x in asking.links for t in net.on(x)]
        b, both = Fraction(net.law.b), Fraction(net.law.b) + Fraction(net.law.eta)
        return all(
            asking.size * 2 * both < b * t.rest for t in (old[:1] if check == "first" else old)
        )

    return gate


def added(size: Fraction, rests: Sequence[Fraction], law: Law, after: int = 0) -> Fraction:
    """What a transfer adds to the sum of ends on one link if it begins after the j-th rest R_j.

    With T_j the time at which R_j ends, and R_0 = 0:
    D_j = T_j + b M + 2 (b + eta) sum_(l > j) min(M, R_l - R_j).
    """
    ranked, both = sorted(rests), Fraction(law.b) + Fraction(law.eta)
    steps = [Fraction(0), *ranked]
    ends = range(1, after + 1)
    each = ((steps[i] - steps[i - 1]) * law.per_byte(len(ranked) - i + 1) for i in ends)
    waits = sum(each, Fraction(0))
    shared = sum((min(Fraction(size), r - steps[after]) for r in ranked[after:]), Fraction(0))
    return waits + Fraction(law.b) * Fraction(size) + 2 * both * shared


def begins_now(size: Fraction, rests: Sequence[Fraction], law: Law) -> bool:
    """Begin iff D_0 < D_j for all j >= 1: between ends the cost is concave in the start."""
    now = added(size, rests, law)
    return all(now < added(size, rests, law, j) for j in range(1, len(rests) + 1))
