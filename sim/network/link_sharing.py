"""How transfers share links: at a cost per byte that grows with their number, or fairly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from apportion.annotations import explained
from apportion.checks import LARGEST_NUMBER, choice, listed, number
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Sized

    from apportion.mechanism.gates import Flow

SLOWEST = 1e-18
"""Least bytes/s of a transfer: with less, its end would be no time to reckon with."""

ROUNDING = 1e-9
"""Part of its highest rate by which a transfer may be above it."""


class LinkSharing(Protocol):
    """Says how many bytes/s each of the transfers under way gets.

    Attributes
    ----------
    s_per_byte, penalty_s_per_byte
        b and eta as gates know them, see `apportion.mechanism.gates.LinksView`.

    Notes
    -----
    ``check(links)``, if it is there, refuses what does not fit so many links. ``separable = True``
    says that transfers which no links and no others join do not matter to each other.
    """

    @property
    def s_per_byte(self) -> float:
        """Seconds of a byte of a transfer that is alone."""
        ...

    @property
    def penalty_s_per_byte(self) -> float:
        """Seconds that each further transfer adds to it beside its share."""
        ...

    def rates(self, flows: Sequence[Flow]) -> list[float]:
        """Return the bytes/s of every transfer, given all that are under way.

        Each is above 0, finite, and no more than the transfer can use.
        """
        ...


@dataclass(frozen=True)
class SharedCost:
    """A byte costs ``k b + (k - 1) eta`` seconds where k transfers share a link.

    A transfer of M bytes to which nothing changes so takes ``a + k b M + (k - 1) eta M`` seconds
    (Wang et al., Equation 5, by default with its figures for 10 Gb Ethernet). Of several links the
    slowest counts.

    Parameters
    ----------
    s_per_byte
        b.
    penalty_s_per_byte
        eta. The text has no figure; 2.35e-10 is in the released code.
    startup_s
        a.
    counted_over
        What k is the most of: ``"task"``, the links of the transfer itself, as in the released
        code; or ``"cluster"``, all links, as the text can be read.
    slower
        By how much links are slower than others, by number, such as oversubscribed uplinks of
        racks: a factor to both b and eta.

    Raises
    ------
    InputError
        For numbers out of range.
    """

    s_per_byte: float = 8.53e-10
    penalty_s_per_byte: float = 2.35e-10
    startup_s: float = 6.69e-4
    counted_over: str = "task"
    slower: tuple[tuple[int, float], ...] = ()

    @explained
    def __post_init__(self) -> None:
        number("s_per_byte", self.s_per_byte, strict=True)
        number("penalty_s_per_byte", self.penalty_s_per_byte)
        number("startup_s", self.startup_s)
        choice("counted_over", self.counted_over, ("task", "cluster"))
        for link, factor in self.slower:
            number(f"The factor of link {link}", factor, strict=True)

    @property
    def local(self) -> bool:
        """Whether rates hang on the links of a transfer alone."""
        return self.counted_over == "task"

    separable = local

    def cost(self, transfers: int) -> float:
        """Seconds of a byte where so many transfers share a link."""
        return transfers * self.s_per_byte + (transfers - 1) * self.penalty_s_per_byte

    def check(self, links: int) -> None:
        """Refuse a slower link that is not there."""
        check_there("slower names", [link for link, _ in self.slower], links)

    def rates(self, flows: Sequence[Flow]) -> list[float]:
        """Return 1 over the cost of a byte, or the highest rate of a transfer if that is less."""
        on: dict[int, list[Flow]] = {}
        for flow in flows:
            for link in flow.links:
                on.setdefault(link, []).append(flow)
        if not self.local:
            on = dict.fromkeys(on, max(on.values(), key=len, default=[]))
        return self.local_rates(flows, on)

    def local_rates(
        self, flows: Sequence[Flow], on_link: Mapping[int, Sized] | Sequence[Sized]
    ) -> list[float]:
        """Return the rates of some transfers, given those on each link."""
        factor, rates = dict(self.slower), []
        for flow in flows:
            if not flow.links:
                rates.append(flow.most)
                continue
            cost = self.cost(max([len(on_link[link]) for link in flow.links]))
            if factor:
                costs = [self.cost(len(on_link[on])) * factor.get(on, 1.0) for on in flow.links]
                cost = max(costs)
            rates.append(min(1 / cost, flow.most))
        return rates


ETHERNET_10G = SharedCost()
"""10 Gb Ethernet as measured by Wang et al."""


@dataclass(frozen=True)
class FairSharing:
    """Links of given bytes/s are shared max-min fairly, and nobody gets more than it can use.

    Parameters
    ----------
    capacity
        Bytes/s of each link, by number.

    Raises
    ------
    InputError
        For a link without capacity.
    """

    capacity: tuple[float, ...]

    @explained
    def __post_init__(self) -> None:
        if not self.capacity:
            raise InputError("There is no link: capacity must have one number of bytes/s for each.")
        for link, most in enumerate(self.capacity):
            number(f"Bytes/s of link {link}", most, strict=True)

    @property
    def s_per_byte(self) -> float:
        """Seconds of a byte on the slowest link."""
        return 1 / min(self.capacity)

    @property
    def penalty_s_per_byte(self) -> float:
        """Nothing is lost by sharing."""
        return 0.0

    @property
    def startup_s(self) -> float:
        """The first byte moves at once."""
        return 0.0

    separable = True

    def check(self, links: int) -> None:
        """Refuse links without a capacity."""
        if len(self.capacity) < links:
            raise InputError(
                f"Link {len(self.capacity)} has no capacity; each of the {links} links must have "
                f"its bytes/s."
            )

    def rates(self, flows: Sequence[Flow]) -> list[float]:
        """Raise all rates together, see `max_min_rates`."""
        most, links_of = [flow.most for flow in flows], [flow.links for flow in flows]
        return max_min_rates(most, links_of, self.capacity)


def check_there(what: str, links: Sequence[int], count: int) -> None:
    """Refuse links that are not there.

    Raises
    ------
    InputError
        Naming the first, and how many there are.
    """
    for link in links:
        if not 0 <= link < count:
            raise InputError(
                f"{what} link {link}, which is not there; there are {count} links, numbered from 0."
            )


def checked_law(sharing: Any) -> LinkSharing:
    """Return a law of one's own if it says what gates and loads ask of it.

    Raises
    ------
    InputError
        If it has no ``rates(flows)``, or a figure of it is missing or out of range.
    """
    name = type(sharing).__name__
    if isinstance(sharing, type) or not callable(getattr(sharing, "rates", None)):
        raise InputError(f"sharing={written(sharing)} has no rates(flows); see LinkSharing.")
    for figure, strict in (("s_per_byte", True), ("penalty_s_per_byte", False)):
        if not hasattr(sharing, figure):
            raise InputError(f"The law {name!r} of sharing links has no {figure}; see LinkSharing.")
        number(f"{figure} of the law {name!r}", getattr(sharing, figure), strict=strict)
    number(f"startup_s of the law {name!r}", getattr(sharing, "startup_s", 0.0))
    law: LinkSharing = sharing
    return law


def checked_rates(
    sharing: LinkSharing, flows: Sequence[Flow], names: Sequence[object] = ()
) -> list[float]:
    """Return what a law of one's own says, if transfers can be sent at these rates.

    Parameters
    ----------
    sharing
        The law.
    flows
        Transfers under way.
    names
        What users call the jobs, by number; by default their numbers.

    Raises
    ------
    InputError
        Naming the law and the first transfer whose rate is missing or cannot be.
    """
    law = f"the law {type(sharing).__name__!r} of sharing links"
    rates = listed(f"What {law} gives", sharing.rates(flows), "a list of bytes/s")
    for flow, rate in zip(flows, rates, strict=False):
        if type(rate) is float and SLOWEST <= rate <= min(flow.most, LARGEST_NUMBER):
            continue
        what = f"The rate, bytes/s, that {law} gives the transfer of {_sender(flow, names)}"
        most = min(flow.most * (1 + ROUNDING), LARGEST_NUMBER)
        number(what, rate, least=SLOWEST, most=most)
    if len(rates) < len(flows):
        raise InputError(
            f"The transfer of {_sender(flows[len(rates)], names)} has no rate: {law} gives "
            f"{len(rates)} for {len(flows)} transfers."
        )
    if len(rates) > len(flows):
        raise InputError(
            f"What {law} gives are {len(rates)} rates for {len(flows)} transfers, the last that of "
            f"{_sender(flows[-1], names)}; there must be one for each."
        )
    return [float(rate) for rate in rates]


def _sender(flow: Flow, names: Sequence[object]) -> str:
    called = written(names[flow.job]) if names else str(flow.job)
    over = f" over the links {', '.join(map(str, flow.links))}" if flow.links else ""
    return f"job {called}{over}"


FULL = 1e-12
"""Part of a rate or of a capacity that is taken for nothing."""


def max_min_rates(
    demands: Sequence[float],
    links_of: Sequence[Iterable[Any]],
    capacities: Mapping[Any, float] | Sequence[float],
    priorities: Sequence[float] = (),
) -> list[float]:
    """Share links by progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2).

    All rates rise alike. A flow stops at its demand, or when one of its links is full. No rate can
    then rise without another falling that is not above it. Flows of a priority so share what those
    of higher ones have left.

    Parameters
    ----------
    demands
        The most that each flow can use, in the unit of the capacities.
    links_of
        Links of each flow, which sends at one rate over all of them; without any it has its demand.
    capacities
        Of the links, by name or number.
    priorities
        Of the flows; the largest send first. All are alike by default.

    Returns
    -------
    list of float
        The rate of each flow; 0 where nothing is left.
    """
    rates, left = [0.0] * len(demands), {on: capacities[on] for each in links_of for on in each}
    ranks = list(priorities) or [0.0] * len(demands)
    for rank in sorted(set(ranks), reverse=True):
        rising = [flow for flow, each in enumerate(ranks) if each == rank]
        while rising:
            users = Counter(link for flow in rising for link in links_of[flow])
            fair = {link: left[link] / count for link, count in users.items()}
            most = [
                min([demands[flow], *(fair[link] for link in links_of[flow])]) for flow in rising
            ]
            level = min(most)
            before, rising = rising, []
            for flow, own in zip(before, most, strict=True):
                if own > level * (1 + FULL):
                    rising.append(flow)
                    continue
                rates[flow] = level
                for link in links_of[flow]:
                    left[link] = max(left[link] - level, 0.0)
        left = {
            link: rest if rest > FULL * capacities[link] else 0.0 for link, rest in left.items()
        }
    return rates
