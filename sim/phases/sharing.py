"""Max-min fair shares of several links, of flows that want no more than their demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

__all__ = ["max_min_rates", "rates_by_priority"]

ROUNDING = 1e-12
"""Part of a capacity or demand that is taken for nothing."""


def max_min_rates(
    demands: Sequence[float],
    links_of: Sequence[Sequence[Hashable]],
    capacities: Mapping[Hashable, float],
) -> list[float]:
    """Share links by progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2).

    All rates rise alike. A flow stops at its demand, or when one of its links is full. No rate can
    then rise without another falling that is not above it.

    Parameters
    ----------
    demands
        The most that each flow can use, Gb/s.
    links_of
        Links of each flow, which sends at one rate over all of them; without any it has its demand.
    capacities
        Of the links, Gb/s.

    Returns
    -------
    list of float
        Gb/s of each flow.
    """
    rates = [0.0] * len(demands)
    rising = [flow for flow, demand in enumerate(demands) if demand > 0]
    left = {link: capacities[link] for flow in rising for link in links_of[flow]}
    while rising:
        users: dict[Hashable, int] = {}
        for flow in rising:
            for link in links_of[flow]:
                users[link] = users.get(link, 0) + 1
        rise = min(demands[flow] - rates[flow] for flow in rising)
        rise = min([rise, *(left[link] / count for link, count in users.items())])
        for flow in rising:
            rates[flow] += rise
        for link, count in users.items():
            left[link] -= rise * count
        full = {link for link in users if left[link] <= ROUNDING * capacities[link]}
        rising = [
            flow
            for flow in rising
            if demands[flow] - rates[flow] > ROUNDING * demands[flow]
            and full.isdisjoint(links_of[flow])
        ]
    return rates


def rates_by_priority(
    demands: Sequence[float],
    links_of: Sequence[Sequence[Hashable]],
    capacities: Mapping[Hashable, float],
    priorities: Sequence[float],
) -> list[float]:
    """Share links by strict priority: flows of each share by `max_min_rates` what those above left.

    Parameters
    ----------
    demands, links_of, capacities
        As in `max_min_rates`.
    priorities
        Of the flows; the largest send first.

    Returns
    -------
    list of float
        Gb/s of each flow; 0 where nothing is left.
    """
    if len(set(priorities)) < 2:
        return max_min_rates(demands, links_of, capacities)
    rates = [0.0] * len(demands)
    left = {link: capacities[link] for links in links_of for link in links}
    for priority in sorted(set(priorities), reverse=True):
        flows = [flow for flow, each in enumerate(priorities) if each == priority]
        shared = max_min_rates(
            [demands[flow] for flow in flows], [links_of[flow] for flow in flows], left
        )
        for flow, rate in zip(flows, shared, strict=True):
            rates[flow] = rate
            for link in links_of[flow]:
                left[link] -= rate
        for link, gbps in left.items():
            if gbps <= ROUNDING * capacities[link]:
                left[link] = 0.0
    return rates
