"""What gates decide, in arrays; see `mechanism.gates`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.gates.built_in import TIE
from apportion.sim.contention.arrays import FAIR
from apportion.sim.contention.jit import jit, jit_borrowing
from apportion.sim.contention.sharing_kernel import rates_by_cost, rates_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim.contention.arrays import Scratch

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = [
    *("AT_MOST", "AT_MOST_ON_A_PAIR", "DUAL", "DUAL_FIRST", "K_WAY", "SHIFTED", "WHAT_IF"),
    *("decide", "reach"),
]

AT_MOST, DUAL, DUAL_FIRST, K_WAY, WHAT_IF, SHIFTED, AT_MOST_ON_A_PAIR = range(7)
"""Numbers of the gates."""


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
    room: Scratch,
) -> float:
    """Return -infinity to start, infinity to hold, or a time; by the gate's number."""
    kind, job = gate[0], jobs[new]
    links = links_of[job.links_at : job.links_at + job.n_links]
    if kind == SHIFTED:
        return _next_turn(now_s, job.shift_s, job.period_s)
    if kind == AT_MOST:
        starts = _busiest(links, on) < gate[1]
    elif kind == AT_MOST_ON_A_PAIR:
        starts = _most_on_a_pair(links, on) < gate[1]
    elif kind == K_WAY:
        starts = _best_now(job.bytes, now_s, links, jobs, on, law, room.rests)
    elif kind == WHAT_IF:
        starts = _busiest(links, on) == 0 or _what_if(
            new, now_s, flows, count, jobs, links_of, law, of_link, room
        )
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
def _most_on_a_pair(links: Ints, on: Ints) -> int:
    """Return the most transfers under way that use the same two links of a transfer."""
    most = 0
    for first in range(links.size):
        for second in range(first):
            both = 0
            for place in range(1, on[links[first], 0] + 1):
                for other in range(1, on[links[second], 0] + 1):
                    both += on[links[first], place] == on[links[second], other]
            most = max(most, both)
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
def _best_now(
    size: float, now_s: float, links: Ints, jobs: Any, on: Ints, law: Floats, rests: Floats
) -> bool:
    """Tell whether on every link a start now is better than one after any completion."""
    b, eta = law[1], law[2]
    for link in links:
        k = on[link, 0]
        for place in range(k):  # sorted, the least first
            rest, before = _rest(jobs[on[link, place + 1]], now_s), place - 1
            while before >= 0 and rests[before] > rest:
                rests[before + 1] = rests[before]
                before -= 1
            rests[before + 1] = rest
        now = begun_s = last = 0.0
        for j in range(k + 1):
            if j:
                together = k - j + 1
                begun_s += (rests[j - 1] - last) * (together * b + (together - 1) * eta)
                last = rests[j - 1]
            shared = 0.0
            for other in range(j, k):
                shared += min(size, rests[other] - last)
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
    room: Scratch,
) -> bool:
    """Compare the sums of ends of a start now, and of one after each completion."""
    n_near = reach(new, flows, count, jobs, links_of, room)
    rivals = 0
    for place in range(n_near):
        room.meets[place] = _meet(jobs[room.near[place]], jobs[new], links_of)
        rivals += room.meets[place]
    room.near[n_near], room.meets[n_near] = new, 0
    now = math.inf
    for wait in range(rivals + 1):
        cost = _sum_of_ends(n_near, wait, now, now_s, jobs, links_of, law, of_link, room)
        if wait == 0:
            now = cost
        elif now >= cost * (1 - TIE):
            return False
    return True


@jit_borrowing
def _meet(one: Any, other: Any, links_of: Ints) -> int:
    """Tell whether two transfers share a link: 1 or 0."""
    for at in range(one.links_at, one.links_at + one.n_links):
        for there in range(other.links_at, other.links_at + other.n_links):
            if links_of[at] == links_of[there]:
                return 1
    return 0


@jit_borrowing
def reach(new: int, flows: Ints, count: int, jobs: Any, links_of: Ints, room: Scratch) -> int:
    """Write those that share links with a transfer, or with one that does, and so on, into `near`.

    Return how many they are. `reached` then tells of every link whether one of them uses it.
    """
    reached, near = room.reached, room.near
    for link in range(reached.size):
        reached[link] = 0
    for at in range(jobs[new].links_at, jobs[new].links_at + jobs[new].n_links):
        reached[links_of[at]] = 1
    for place in range(count):
        room.found[place] = 0
    grows = True
    while grows:
        grows = False
        for place in range(count):
            if room.found[place]:
                continue
            job, touches = jobs[flows[place]], 0
            for at in range(job.links_at, job.links_at + job.n_links):
                touches |= reached[links_of[at]]
            if touches:
                room.found[place] = 1
                grows = True
                for at in range(job.links_at, job.links_at + job.n_links):
                    reached[links_of[at]] = 1
    n_near = 0
    for place in range(count):
        if room.found[place]:
            near[n_near] = flows[place]
            n_near += 1
    return n_near


@jit_borrowing
def _put_on(job: Any, step: int, links_of: Ints, used: Ints) -> None:
    """Count one more or one less transfer on its links."""
    for at in range(job.links_at, job.links_at + job.n_links):
        used[links_of[at]] += step


@jit_borrowing
def _sum_of_ends(
    n_near: int,
    wait: int,
    enough: float,
    now_s: float,
    jobs: Any,
    links_of: Ints,
    law: Floats,
    of_link: Floats,
    room: Scratch,
) -> float:
    """Sum the ends of transfers if the last of `near` starts after so many that it meets.

    A sum that is above `enough` in any case need not be complete.
    """
    rest, ids, which, used = room.rests, room.ids, room.which, room.used
    fair = law[0] == FAIR
    for link in range(used.size):
        used[link] = 0
    for place in range(n_near):
        rest[place] = _rest(jobs[room.near[place]], now_s)
    rest[n_near] = jobs[room.near[n_near]].bytes
    running = n_near if wait else n_near + 1
    for place in range(running):
        which[place], ids[place] = place, room.near[place]
        _put_on(jobs[ids[place]], 1, links_of, used)
    at_s = total_s = 0.0
    while running:
        if fair:
            rates_of(ids, running, jobs, links_of, law, of_link, used, room.rates)
        else:
            rates_by_cost(ids, running, jobs, links_of, law, of_link, used, room.rates)
        step_s = math.inf
        for place in range(running):
            step_s = min(step_s, rest[which[place]] / room.rates[place])
        at_s += step_s
        stay = ended = 0
        for place in range(running):
            each, rate = which[place], room.rates[place]
            if rest[each] / rate <= step_s * (1 + TIE):
                total_s += at_s
                ended += room.meets[each]
                _put_on(jobs[ids[place]], -1, links_of, used)
            else:
                rest[each] -= rate * step_s
                which[stay], ids[stay] = each, ids[place]
                stay += 1
        running = stay
        if total_s * (1 - TIE) > enough:
            return total_s
        if wait:
            wait -= ended
            if wait <= 0:
                wait = 0
                which[running], ids[running] = n_near, room.near[n_near]
                _put_on(jobs[ids[running]], 1, links_of, used)
                running += 1
    return total_s
