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
