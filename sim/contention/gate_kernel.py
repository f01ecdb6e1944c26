"""What gates decide, in arrays; see `mechanism.gates`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from apportion.mechanism.gates.gate import HOLD, START, TIE, next_turn, small_beside, start_cost
from apportion.sim.contention.arrays import (
    AT_MOST,
    AT_MOST_ON_A_PAIR,
    DUAL_FIRST,
    K_WAY,
    NEAR,
    SHIFTED,
    STARTUP,
    TRIED,
    UNDER_WAY,
    WHAT_IF,
)
from apportion.sim.contention.jit import jit, jit_borrowing
from apportion.sim.contention.sharing_kernel import cost_alone, first_end, put_on

if TYPE_CHECKING:
    from apportion.sim.contention.arrays import State
    from apportion.types import Int64s


_next_turn = jit_borrowing(next_turn)
_small_beside = jit_borrowing(small_beside)
_start_cost = jit_borrowing(start_cost)
_NEVER = -1
"""In place of the ends to wait for: it does not start."""


@jit_borrowing
def decide(state: State, new: int, now_s: float) -> float:
    """Return -infinity to start, infinity to hold, or a time; by the gate's number."""
    own, job = state.rules[0], state.jobs[new]
    links = state.links_of[job.links_at : job.links_at + job.n_links]
    if own.gate == SHIFTED:
        return _next_turn(now_s, job.shift_s, job.period_s) if job.period_s > 0 else START
    if own.gate == AT_MOST:
        starts = _busiest(state, links) < own.parameter
    elif own.gate == AT_MOST_ON_A_PAIR:
        starts = _most_on_a_pair(state, links) < own.parameter
    elif own.gate == K_WAY:
        starts = _best_now(state, job.bytes, now_s, links)
    elif own.gate == WHAT_IF:
        starts = _busiest(state, links) == 0 or _what_if(state, new, now_s)
    else:
        starts = _dual(state, job.bytes, now_s, links)
    return START if starts else HOLD


@jit_borrowing
def _busiest(state: State, links: Int64s) -> int:
    most = 0
    for link in links:
        most = max(most, state.on[link, 0])
    return most


@jit_borrowing
def _most_on_a_pair(state: State, links: Int64s) -> int:
    """Return the most transfers under way that use the same two links of a transfer."""
    on, most = state.on, 0
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
def _dual(state: State, size: float, now_s: float, links: Int64s) -> bool:
    if _busiest(state, links) > 1:
        return False
    own = state.rules[0]
    for link in links:
        if state.on[link, 0]:
            rest = _rest(state.jobs[state.on[link, 1]], now_s)
            if not _small_beside(size, rest, own.b, own.eta):
                return False
            if own.gate == DUAL_FIRST:
                return True
    return True


@jit
def _best_now(state: State, size: float, now_s: float, links: Int64s) -> bool:
    """Tell whether on every link a start now is better than one after any completion."""
    on, b, eta, rests = state.on, state.rules[0].b, state.rules[0].eta, state.rests
    for link in links:
        k = on[link, 0]
        for place in range(k):  # sorted, the least first
            rest, before = _rest(state.jobs[on[link, place + 1]], now_s), place - 1
            while before >= 0 and rests[before] > rest:
                rests[before + 1] = rests[before]
                before -= 1
            rests[before + 1] = rest
        now = _start_cost(0, size, rests, k, b, eta)
        for j in range(1, k + 1):
            if now >= _start_cost(j, size, rests, k, b, eta) * (1 - TIE):
                return False
    return True


@jit_borrowing
def _what_if(state: State, new: int, now_s: float) -> bool:
    """Compare the sums of ends of a start now, and of one after each completion."""
    jobs, near, n_near, rivals = state.jobs, state.lists[NEAR], reach(state, new), 0
    _mark_links_of(state, new)
    for place in range(n_near):
        other = jobs[near[place]]
        other.meets = _on_marked(state, other)
        rivals += other.meets
    near[n_near], jobs[new].meets = new, 0
    if state.rules[0].way:
        hold = _sum_of_ends(state, n_near, rivals, math.inf, now_s)
    else:
        hold = _sum_if_held(state, n_near, now_s)
    now = _sum_of_ends(state, n_near, 0, hold, now_s)
    if now >= hold * (1 - TIE):  # most often: to wait for all of them is better
        return False
    for wait in range(1, rivals):
        if now >= _sum_of_ends(state, n_near, wait, now, now_s) * (1 - TIE):
            return False
    return True


@jit_borrowing
def _sum_if_held(state: State, n_near: int, now_s: float) -> float:
    """Sum the ends if the last of `NEAR` starts when all that it meets have ended.

    Nobody is on its links by then, so all others end when they would without it. That is foreseen
    once for all decisions until the next start near them; if one of them starts up, which sends
    later than it is taken to, for those of one instant.
    """
    jobs, near, known, latest, starts_up = state.jobs, state.lists[NEAR], True, True, False
    for place in range(n_near):
        job = jobs[near[place]]
        known &= job.foreseen_s > 0
        latest &= job.as_of_s == now_s
        starts_up |= job.flow == STARTUP
    if not known or (starts_up and not latest):
        _sum_of_ends(state, n_near, _NEVER, math.inf, now_s)
    free_s = 0.0
    for place in range(n_near):
        if jobs[near[place]].meets:
            free_s = max(free_s, jobs[near[place]].foreseen_s - now_s)
    new = jobs[near[n_near]]
    total_s: float = _foreseen(state, n_near, now_s) + free_s + new.bytes * cost_alone(state, new)
    return total_s


@jit_borrowing
def _foreseen(state: State, n_near: int, now_s: float) -> float:
    """Sum the ends of those of `NEAR` if no other starts."""
    total_s = 0.0
    for place in range(n_near):
        total_s += state.jobs[state.lists[NEAR, place]].foreseen_s - now_s
    return total_s


@jit_borrowing
def _mark_links_of(state: State, number: int) -> None:
    """Mark the links of a transfer as reached, and no others."""
    for link in range(state.links.size):
        state.links[link].reached = 0
    _reach_links_of(state, number)


@jit_borrowing
def _on_marked(state: State, job: Any) -> int:
    """Tell whether a transfer uses a link that is reached: 1 or 0."""
    for at in range(job.links_at, job.links_at + job.n_links):
        if state.links[state.links_of[at]].reached:
            return 1
    return 0


@jit_borrowing
def reach(state: State, new: int) -> int:
    """List those as `NEAR` that share links with a transfer, or with one that does, and so on.

    Return how many they are. `reached` then tells of every link whether one of them uses it.
    """
    jobs, flows, count = state.jobs, state.lists[UNDER_WAY], 0
    _mark_links_of(state, new)
    for place in range(state.counts[UNDER_WAY]):
        jobs[flows[place]].near = 0
    grows = True
    while grows:
        grows = False
        for place in range(state.counts[UNDER_WAY]):
            job = jobs[flows[place]]
            if job.near:
                continue
            job.near = _on_marked(state, job)
            if job.near:
                grows = True
                _reach_links_of(state, flows[place])
    for place in range(state.counts[UNDER_WAY]):
        if jobs[flows[place]].near:
            state.lists[NEAR, count] = flows[place]
            count += 1
    return count


@jit_borrowing
def _reach_links_of(state: State, number: int) -> None:
    """Remember that the links of a transfer are reached."""
    job = state.jobs[number]
    for at in range(job.links_at, job.links_at + job.n_links):
        state.links[state.links_of[at]].reached = 1


@jit_borrowing
def _sum_of_ends(state: State, n_near: int, wait: int, enough: float, now_s: float) -> float:
    """Sum the ends of transfers if the last of `NEAR` starts after so many that it meets.

    A sum that is above `enough` in any case need not be complete: where the cost of a byte depends
    on how many share links, one more lets nobody end earlier than foreseen. If it starts `_NEVER`,
    the ends of the others are what is foreseen.
    """
    jobs, near, tried = state.jobs, state.lists[NEAR], state.lists[TRIED]
    new, running, ends_s = near[n_near], n_near if wait else n_near + 1, state.rests
    way, others_s, alone = state.rules[0].way, -math.inf, cost_alone(state, jobs[new])
    if way == 0 and wait != _NEVER:
        others_s = _foreseen(state, n_near, now_s)
    for link in range(state.links.size):
        state.links[link].used = 0
    for place in range(n_near):
        jobs[near[place]].rest_then = _rest(jobs[near[place]], now_s)
    jobs[new].rest_then = jobs[new].bytes
    for place in range(running):
        tried[place] = near[place]
        put_on(state, tried[place], 1)
    at_s = total_s = 0.0
    while running:
        step_s = first_end(state, tried, running)
        at_s += step_s
        stay = ended = 0
        for place in range(running):
            job = jobs[tried[place]]
            if ends_s[place] <= step_s * (1 + TIE):
                total_s += at_s
                ended += job.meets
                if tried[place] == new:
                    alone = 0.0
                elif wait == _NEVER:
                    job.foreseen_s, job.as_of_s = now_s + at_s, now_s
                else:
                    others_s -= job.foreseen_s - now_s
                put_on(state, tried[place], -1)
            else:
                job.rest_then -= job.rate_then * step_s
                tried[stay] = tried[place]
                stay += 1
        running = stay
        new_s = at_s + jobs[new].rest_then * alone if alone else 0.0
        least_s = max(total_s, total_s + others_s + new_s)
        if least_s * (1 - TIE) > enough:
            return least_s
        if wait and wait != _NEVER:
            wait = max(wait - ended, 0)
            if not wait:
                tried[running] = new
                put_on(state, new, 1)
                running += 1
    return total_s
