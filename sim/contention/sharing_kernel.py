"""Rates of transfers in arrays, see `apportion.sim.network.link_sharing`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.sim.contention.arrays import CLUSTER, FAIR
from apportion.sim.contention.jit import jit, jit_borrowing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = ["rates_by_cost", "rates_of"]


@jit_borrowing
def rates_of(
    flows: Ints,
    count: int,
    jobs: Any,
    links_of: Ints,
    law: Floats,
    of_link: Floats,
    on: Ints,
    rates: Floats,
) -> None:
    """Write the bytes/s of transfers under way together into `rates`; `on` is room for counts."""
    for link in range(on.size):
        on[link] = 0
    for place in range(count):
        job = jobs[flows[place]]
        for at in range(job.links_at, job.links_at + job.n_links):
            on[links_of[at]] += 1
    if law[0] == FAIR:
        _share_fairly(flows, count, jobs, links_of, of_link, on, rates)
    else:
        rates_by_cost(flows, count, jobs, links_of, law, of_link, on, rates)


@jit_borrowing
def rates_by_cost(
    flows: Ints,
    count: int,
    jobs: Any,
    links_of: Ints,
    law: Floats,
    of_link: Floats,
    on: Ints,
    rates: Floats,
) -> None:
    """Write the bytes/s of transfers of which so many are on each link."""
    most = 0
    if law[0] == CLUSTER:
        for place in range(count):
            job = jobs[flows[place]]
            for at in range(job.links_at, job.links_at + job.n_links):
                most = max(most, on[links_of[at]])
    for place in range(count):
        job = jobs[flows[place]]
        cost = 0.0
        for at in range(job.links_at, job.links_at + job.n_links):
            link = links_of[at]
            k = most if law[0] == CLUSTER else on[link]
            cost = max(cost, (k * law[1] + (k - 1) * law[2]) * of_link[link])
        rates[place] = min(1 / cost, job.most) if cost > 0 else job.most


@jit
def _share_fairly(
    flows: Ints, count: int, jobs: Any, links_of: Ints, capacity: Floats, on: Ints, rates: Floats
) -> None:
    """Raise all rates together, again and again, as `max_min_rates` does."""
    left = capacity.copy()
    share = np.empty(count)
    open_ = np.ones(count, dtype=np.bool_)
    remaining = count
    while remaining:
        level = math.inf
        for place in range(count):
            if open_[place]:
                job = jobs[flows[place]]
                share[place] = job.most
                for at in range(job.links_at, job.links_at + job.n_links):
                    link = links_of[at]
                    share[place] = min(share[place], left[link] / on[link])
                level = min(level, share[place])
        for place in range(count):
            if open_[place] and share[place] <= level * (1 + 1e-12):
                open_[place] = False
                remaining -= 1
                rates[place] = level
                job = jobs[flows[place]]
                for at in range(job.links_at, job.links_at + job.n_links):
                    left[links_of[at]] = max(left[links_of[at]] - level, 0.0)
                    on[links_of[at]] -= 1
