"""Gates that decide whether a transfer may begin: SRSF(n), AdaDUAL, the k-way rule, what-if.

A gate reads the network and the transfer that asks, and answers now or not now; it changes
nothing. m is the greatest number of running transfers on a link of the asking one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tests.oracles.one_link import begins_now
from tests.oracles.shared_links import LinkName, Network, Start, completions


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


def never(net: Network, asking: Asking) -> bool:
    """Admit none: what waits stands still."""
    return False


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


def k_way(net: Network, asking: Asking) -> bool:
    """Begin iff the closed rule of one link says so on every link of the transfer."""
    return all(begins_now(asking.size, [t.rest for t in net.on(x)], net.law) for x in asking.links)


def what_if(net: Network, asking: Asking) -> bool:
    """Begin iff now is strictly better than after the end of any transfer that shares a link.

    Sums of completion times from now of all running transfers and this one, followed exactly, with
    no further arrivals. The ends are those without this transfer.
    """
    ends = completions(net)
    rivals = {t.owner for x in asking.links for t in net.on(x)}
    now = _cost(net, asking, Fraction(0))
    return all(now < _cost(net, asking, ends[owner]) for owner in rivals)


def _cost(net: Network, asking: Asking, at: Fraction) -> Fraction:
    return sum(completions(net, [Start(at, asking.links, asking.size)]).values(), Fraction(0))
