"""Transfers that share links: Eq 5 as a rate, followed exactly from change to change.

T = a + k b M + (k - 1) eta M:  a byte costs c(k) = k b + (k - 1) eta seconds, after a seconds
of latency in which none is sent. k of a transfer is the greatest number of running transfers
on any of its links; it counts from its start, latency included, to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.oracles.whole_choices import Number

LinkName = str | int
OVER = ("task", "cluster")


@dataclass(frozen=True)
class Law:
    """Latency a (s), seconds per byte b, seconds per byte that each further transfer adds, eta.

    ``over`` is "task" (k over the links of the transfer, as released) or "cluster" (over all
    links, as the text can be read). ``cost`` replaces c(k) by another law.
    """

    a: Number = 0
    b: Number = 1
    eta: Number = 0
    over: str = "task"
    cost: Callable[[int], Fraction] | None = None

    def per_byte(self, k: int) -> Fraction:
        """c(k) = k b + (k - 1) eta."""
        return self.cost(k) if self.cost else k * Fraction(self.b) + (k - 1) * Fraction(self.eta)

    def seconds(self, size: Number, k: int = 1) -> Fraction:
        """Eq 5: a + k b M + (k - 1) eta M."""
        return Fraction(self.a) + self.per_byte(k) * Fraction(size)


@dataclass(frozen=True)
class Transfer:
    """A running transfer: whose it is, its links in order, latency and bytes that are left."""

    owner: int
    links: tuple[LinkName, ...]
    latency: Fraction
    rest: Fraction

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return self.latency == self.rest == 0


@dataclass
class Network:
    """The running transfers; time passes by ``advance``."""

    law: Law
    running: list[Transfer] = field(default_factory=list)

    def start(self, owner: int, links: Sequence[LinkName], size: Number) -> None:
        """Begin a transfer of so many bytes."""
        self.running.append(Transfer(owner, tuple(links), Fraction(self.law.a), Fraction(size)))

    def on(self, link: LinkName) -> list[Transfer]:
        """Transfers that run on a link."""
        return [t for t in self.running if link in t.links]

    def k(self, transfer: Transfer) -> int:
        """The k of Eq 5 for a running transfer."""
        everywhere = {x for t in self.running for x in t.links}
        links = transfer.links if self.law.over == "task" else everywhere
        return max((len(self.on(x)) for x in links), default=1)

    def until_change(self) -> Fraction | None:
        """Time to the first end of a latency or of a transfer, if nothing starts before."""
        return min((self._left(t) for t in self.running), default=None)

    def _left(self, t: Transfer) -> Fraction:
        return t.latency or t.rest * self.law.per_byte(self.k(t))

    def advance(self, seconds: Fraction) -> None:
        """Let time pass, no further than to the first change."""
        after = []
        for t in self.running:
            cost = self.law.per_byte(self.k(t))
            if t.latency:
                after.append(replace(t, latency=t.latency - seconds))
            else:
                after.append(replace(t, rest=t.rest - seconds / cost if cost else Fraction(0)))
        self.running = after

    def take_ended(self) -> list[Transfer]:
        """Remove the transfers with nothing left, in the order of their starts."""
        ended = [t for t in self.running if t.over]
        self.running = [t for t in self.running if not t.over]
        return ended

    def copy(self) -> Network:
        """A network of its own that goes on from here."""
        return Network(self.law, list(self.running))


@dataclass(frozen=True)
class Start:
    """A transfer to come: when, on what links, how many bytes."""

    at: Fraction
    links: tuple[LinkName, ...]
    size: Fraction


def completions(network: Network, starts: Sequence[Start] = ()) -> dict[int, Fraction]:
    """When each transfer ends, from now on; the i-th of ``starts`` has the owner -1 - i."""
    net, now, ends = network.copy(), Fraction(0), {}
    todo = sorted(((s.at, i, s) for i, s in enumerate(starts)), key=lambda x: x[:2])
    while todo or net.running:
        while todo and todo[0][0] <= now:
            _, i, start = todo.pop(0)
            net.start(-1 - i, start.links, start.size)
        for t in net.take_ended():
            ends[t.owner] = now
        steps = [todo[0][0] - now] if todo else []
        change = net.until_change()
        if change is not None:
            steps.append(change)
        if steps:
            net.advance(min(steps))
            now += min(steps)
    return ends


def fluid_iteration(
    compute: Number,
    size: Number,
    links: Sequence[LinkName],
    others: Sequence[Sequence[LinkName]],
    law: Law,
) -> Fraction:
    """Seconds of an iteration if every job with traffic always sends: t_f + t_b + a + c(k) M.

    k is the number of jobs, this one too, on the busiest of its links; no links, no transfer.
    """
    if not links:
        return Fraction(compute)
    k = 1 + max(sum(x in theirs for theirs in others) for x in links)
    return Fraction(compute) + law.seconds(size, k)
