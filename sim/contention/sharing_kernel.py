"""Rates of transfers in arrays, see `apportion.sim.network.link_sharing`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.sim.contention.arrays import CLUSTER, FAIR
from apportion.sim.contention.jit import jit, jit_borrowing

if TYPE_CHECKING:
    from apportion.sim.contention.arrays import State
    from apportion.types import Int64s


@jit_borrowing
def rates_of(state: State, flows: Int64s, count: int) -> None:
    """Write the bytes/s that transfers would get if they were under way together."""
    for link in range(state.links.size):
        state.links[link].used = 0
    for place in range(count):
        put_on(state, flows[place], 1)
    if state.rules[0].way == FAIR:
        _share_fairly(state, flows, count)
    else:
        rates_by_cost(state, flows, count)


@jit_borrowing
def rates_by_cost(state: State, flows: Int64s, count: int) -> None:
    """Write the bytes/s of transfers of which so many as `used` says are on each link."""
    if state.rules[0].way == CLUSTER:
        price_as_one(state)
    for place in range(count):
        job = state.jobs[flows[place]]
        job.rate_then = rate_by_cost(state, job)


@jit_borrowing
def first_end(state: State, flows: Int64s, count: int) -> float:
    """Write in how many seconds transfers that are on their links end at the rates of now.

    Return in how many the first does. `rests` has them place by place, from `rest_then`.
    """
    way, first_s = state.rules[0].way, math.inf
    if way == FAIR:
        rates_of(state, flows, count)
    elif way == CLUSTER:
        price_as_one(state)
    for place in range(count):
        job = state.jobs[flows[place]]
        if way != FAIR:
            job.rate_then = rate_by_cost(state, job)
        state.rests[place] = job.rest_then / job.rate_then
        first_s = min(first_s, state.rests[place])
    return first_s


@jit_borrowing
def price_as_one(state: State) -> None:
    """Let a byte cost on each link what it costs where most transfers are."""
    links, most = state.links, 0
    for link in range(links.size):
        most = max(most, links[link].used)
    for link in range(links.size):
        links[link].cost = _cost(state, link, most)


@jit_borrowing
def rate_by_cost(state: State, job: Any) -> float:
    """Return the bytes/s of a transfer at what a byte costs on its links now."""
    cost = 0.0
    for at in range(job.links_at, job.links_at + job.n_links):
        cost = max(cost, state.links[state.links_of[at]].cost)
    rate: float = min(1 / cost, job.most) if cost > 0 else job.most
    return rate


@jit_borrowing
def rest_of(job: Any, now_s: float) -> float:
    """Return the bytes that a transfer under way still has to send."""
    rest: float = job.rest - job.rate * (now_s - job.since_s)
    return rest


@jit_borrowing
def cost_alone(state: State, job: Any) -> float:
    """Return the seconds that a byte of a transfer takes if nobody else is on its links."""
    cost: float = 1 / job.most
    for at in range(job.links_at, job.links_at + job.n_links):
        cost = max(cost, _cost(state, state.links_of[at], 1))
    return cost


@jit_borrowing
def put_on(state: State, number: int, step: int) -> None:
    """Count one more or one less transfer on its links."""
    job, links = state.jobs[number], state.links
    for at in range(job.links_at, job.links_at + job.n_links):
        link = state.links_of[at]
        links[link].used += step
        links[link].cost = _cost(state, link, links[link].used)


@jit_borrowing
def _cost(state: State, link: int, k: int) -> float:
    """Seconds that a byte takes on a link if so many transfers share it."""
    rules = state.rules[0]
    cost: float = (k * rules.b + (k - 1) * rules.eta) * state.links[link].factor
    return cost


@jit
def _share_fairly(state: State, flows: Int64s, count: int) -> None:
    """Raise all rates together, again and again, as `max_min_rates` does."""
    jobs, links, links_of = state.jobs, state.links, state.links_of
    left, share = np.empty(links.size), np.empty(count)
    for link in range(links.size):
        left[link] = links[link].factor
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
                    share[place] = min(share[place], left[link] / links[link].used)
                level = min(level, share[place])
        for place in range(count):
            if open_[place] and share[place] <= level * (1 + 1e-12):
                open_[place] = False
                remaining -= 1
                job = jobs[flows[place]]
                job.rate_then = level
                for at in range(job.links_at, job.links_at + job.n_links):
                    left[links_of[at]] = max(left[links_of[at]] - level, 0.0)
                    links[links_of[at]].used -= 1
