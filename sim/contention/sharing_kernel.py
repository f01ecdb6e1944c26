"""Rates of transfers, and what gates decide, in arrays; see `links` and `mechanism.gates`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.gates.built_in import TIE
from apportion.sim.contention.arrays import CLUSTER, FAIR
from apportion.sim.contention.jit import jit, jit_borrowing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = ["AT_MOST", "DUAL", "DUAL_FIRST", "K_WAY", "SHIFTED", "WHAT_IF", "decide", "rates_of"]

AT_MOST, DUAL, DUAL_FIRST, K_WAY, WHAT_IF, SHIFTED = range(6)
"""Numbers of the gates."""


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
    most = 0
    for link in range(on.size):
        on[link] = 0
    for place in range(count):
        job = jobs[flows[place]]
        for at in range(job.links_at, job.links_at + job.n_links):
            on[links_of[at]] += 1
            most = max(most, on[links_of[at]])
    if law[0] == FAIR:
        _share_fairly(flows, count, jobs, links_of, of_link, on, rates)
        return
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
    """Raise all rates together until a link is full or a transfer has enough, again and again."""
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


@jit_borrowing
def decide(
    new: int,
    now_s: float,
    flows: Ints,
    count: int,
    jobs: Any,
    links_of: Ints,
    on: Ints,
    law: Floats,
    of_link: Floats,
    gate: Floats,
) -> float:
    """Return -infinity to start, infinity to hold, or a time; by the gate's number."""
    kind, job = gate[0], jobs[new]
    links = links_of[job.links_at : job.links_at + job.n_links]
    if kind == SHIFTED:
        return _next_turn(now_s, job.shift_s, job.period_s)
    if kind == AT_MOST:
        starts = _busiest(links, on) < gate[1]
    elif kind == K_WAY:
        starts = _best_now(job.bytes, now_s, links, jobs, on, law)
    elif kind == WHAT_IF:
        starts = _what_if(new, now_s, flows, count, jobs, links_of, law, of_link)
    else:
        starts = _dual(job.bytes, now_s, links, jobs, on, law, kind == DUAL_FIRST)
    return -math.inf if starts else math.inf


@jit_borrowing
def _next_turn(now_s: float, shift_s: float, period_s: float) -> float:
    if period_s <= 0:
        return -math.inf
    turns = (now_s - shift_s) / period_s
    if abs(turns - np.rint(turns)) * period_s <= TIE * max(1.0, now_s):
        return -math.inf
    return shift_s + math.ceil(turns) * period_s


@jit_borrowing
def _busiest(links: Ints, on: Ints) -> int:
    most = 0
    for link in links:
        most = max(most, on[link, 0])
    return most


@jit_borrowing
def _rest(job: Any, now_s: float) -> float:
    """Bytes that a transfer under way still has to send."""
    rest: float = job.rest - job.rate * (now_s - job.since_s)
    return rest


@jit_borrowing
def _dual(
    size: float, now_s: float, links: Ints, jobs: Any, on: Ints, law: Floats, first: bool
) -> bool:
    if _busiest(links, on) > 1:
        return False
    share = law[1] / (2 * (law[1] + law[2])) * (1 - TIE)
    for link in links:
        if on[link, 0]:
            if not size < share * _rest(jobs[on[link, 1]], now_s):
                return False
            if first:
                return True
    return True


@jit
def _best_now(size: float, now_s: float, links: Ints, jobs: Any, on: Ints, law: Floats) -> bool:
    """Tell whether on every link a start now is better than one after any completion."""
    b, eta = law[1], law[2]
    for link in links:
        k = on[link, 0]
        rests = np.zeros(k + 1)
        for place in range(k):
            rests[place + 1] = _rest(jobs[on[link, place + 1]], now_s)
        rests.sort()
        now = begun_s = 0.0
        for j in range(k + 1):
            if j:
                together = k - j + 1
                begun_s += (rests[j] - rests[j - 1]) * (together * b + (together - 1) * eta)
            shared = 0.0
            for other in range(j + 1, k + 1):
                shared += min(size, rests[other] - rests[j])
            cost = begun_s + b * size + 2 * (b + eta) * shared
            if j == 0:
                now = cost
            elif now >= cost * (1 - TIE):
                return False
    return True


@jit
def _what_if(
    new: int,
    now_s: float,
    flows: Ints,
    count: int,
    jobs: Any,
    links_of: Ints,
    law: Floats,
    of_link: Floats,
) -> bool:
    """Compare the sums of ends of a start now, and of one after each completion."""
    near, n_near = _reached(new, flows, count, jobs, links_of, of_link.size)
    meets = np.zeros(n_near + 1, dtype=np.bool_)
    rivals = 0
    for place in range(n_near):
        meets[place] = _meet(jobs[near[place]], jobs[new], links_of)
        rivals += meets[place]
    near[n_near] = new
    now = 0.0
    for wait in range(rivals + 1):
        cost = _sum_of_ends(near, n_near, meets, wait, now_s, jobs, links_of, law, of_link)
        if wait == 0:
            now = cost
        elif now >= cost * (1 - TIE):
            return False
    return True


@jit_borrowing
def _meet(one: Any, other: Any, links_of: Ints) -> bool:
    """Tell whether two transfers share a link."""
    for at in range(one.links_at, one.links_at + one.n_links):
        for there in range(other.links_at, other.links_at + other.n_links):
            if links_of[at] == links_of[there]:
                return True
    return False


@jit
def _reached(
    new: int, flows: Ints, count: int, jobs: Any, links_of: Ints, n_links: int
) -> tuple[Ints, int]:
    """Return those that share links with a transfer, or with one that does, and so on."""
    reached = np.zeros(n_links, dtype=np.bool_)
    for at in range(jobs[new].links_at, jobs[new].links_at + jobs[new].n_links):
        reached[links_of[at]] = True
    found = np.zeros(count, dtype=np.bool_)
    grows = True
    while grows:
        grows = False
        for place in range(count):
            job, touches = jobs[flows[place]], False
            for at in range(job.links_at, job.links_at + job.n_links):
                touches |= reached[links_of[at]]
            if touches and not found[place]:
                found[place] = grows = True
                for at in range(job.links_at, job.links_at + job.n_links):
                    reached[links_of[at]] = True
    near = np.empty(count + 1, dtype=np.int64)
    n_near = 0
    for place in range(count):
        if found[place]:
            near[n_near] = flows[place]
            n_near += 1
    return near, n_near


@jit
def _sum_of_ends(
    near: Ints,
    n_near: int,
    meets: Any,
    wait: int,
    now_s: float,
    jobs: Any,
    links_of: Ints,
    law: Floats,
    of_link: Floats,
) -> float:
    """Sum the ends of transfers if the last of `near` starts after so many that it meets."""
    rest = np.empty(n_near + 1)
    for place in range(n_near):
        rest[place] = _rest(jobs[near[place]], now_s)
    rest[n_near] = jobs[near[n_near]].bytes
    active = np.arange(n_near + 1)
    running = n_near if wait else n_near + 1
    at_s = total_s = 0.0
    ids, rates = np.empty(n_near + 1, dtype=np.int64), np.empty(n_near + 1)
    on = np.empty(of_link.size, dtype=np.int64)
    while running:
        for place in range(running):
            ids[place] = near[active[place]]
        rates_of(ids, running, jobs, links_of, law, of_link, on, rates)
        step_s = math.inf
        for place in range(running):
            step_s = min(step_s, rest[active[place]] / rates[place])
        at_s += step_s
        stay = ended = 0
        for place in range(running):
            each = active[place]
            if rest[each] / rates[place] <= step_s * (1 + TIE):
                total_s += at_s
                ended += meets[each]
            else:
                rest[each] -= rates[place] * step_s
                active[stay] = each
                stay += 1
        running = stay
        if wait:
            wait -= ended
            if wait <= 0:
                wait = 0
                active[running] = n_near
                running += 1
    return total_s
