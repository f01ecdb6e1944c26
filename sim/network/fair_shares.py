"""Max-min fair shares of links, those of a higher priority first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROUNDING = 1e-12
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
    rates = [0.0] * len(demands)
    left = {link: capacities[link] for links in links_of for link in links}
    if len(set(priorities)) < 2:
        _fill(range(len(demands)), demands, links_of, left, rates)
        return rates
    for priority in sorted(set(priorities), reverse=True):
        flows = [flow for flow, each in enumerate(priorities) if each == priority]
        _fill(flows, demands, links_of, left, rates)
        for link, rest in left.items():
            left[link] = rest if rest > ROUNDING * capacities[link] else 0.0
    return rates


def _fill(
    flows: Iterable[int],
    demands: Sequence[float],
    links_of: Sequence[Iterable[Any]],
    left: dict[Any, float],
    rates: list[float],
) -> None:
    """Raise the rates of some flows together, and take them from what is left of links."""
    rising = list(flows)
    while rising:
        users: dict[Any, int] = {}
        for flow in rising:
            for link in links_of[flow]:
                users[link] = users.get(link, 0) + 1
        fair = {link: left[link] / count for link, count in users.items()}
        most = []
        for flow in rising:
            own = demands[flow]
            for link in links_of[flow]:
                own = min(own, fair[link])
            most.append(own)
        level = min(most)
        rising, before = [], rising
        for flow, own in zip(before, most, strict=True):
            if own > level * (1 + ROUNDING):
                rising.append(flow)
                continue
            rates[flow] = level
            for link in links_of[flow]:
                left[link] = max(left[link] - level, 0.0)
