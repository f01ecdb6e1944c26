"""What `WhatIf` decides, in arrays: ends of transfers are played out, or told by bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from apportion.mechanism.gates.gate import TIE
from apportion.sim.contention.arrays import NEAR, STARTUP, TRIED, UNDER_WAY
from apportion.sim.contention.jit import jit_borrowing
from apportion.sim.contention.sharing_kernel import cost_alone, first_end, put_on, rest_of

if TYPE_CHECKING:
    from apportion.sim.contention.arrays import State
    from apportion.types import Int64s


_NEVER = -1
"""In place of the ends to wait for: it does not start."""


@jit_borrowing
def what_if(state: State, new: int, links: Int64s, now_s: float) -> bool:
    """Compare the sums of ends of a start now, and of one after each completion."""
    own_links_only = state.rules[0].way == 0
    if own_links_only:
        if not _are_foreseen(state, links, now_s):
            _foresee(state, new, now_s)
        if _is_late(state, new, links, now_s):
            return False
    jobs, near, n_near, rivals = state.jobs, state.lists[NEAR], reach(state, new), 0
    _mark_links_of(state, new)
    for place in range(n_near):
        other = jobs[near[place]]
        other.meets = _on_marked(state, other)
        rivals += other.meets
    near[n_near], jobs[new].meets = new, 0
    if own_links_only:
        hold = _sum_if_held(state, n_near, now_s)
    else:
        hold = _sum_of_ends(state, n_near, rivals, math.inf, now_s)
    now = _sum_of_ends(state, n_near, 0, hold, now_s)
    if now >= hold * (1 - TIE):  # most often: to wait for all of them is better
        return False
    for wait in range(1, rivals):
        if now >= _sum_of_ends(state, n_near, wait, now, now_s) * (1 - TIE):
            return False
    return True


@jit_borrowing
def _are_foreseen(state: State, links: Int64s, now_s: float) -> bool:
    """Tell whether it is foreseen when transfers on links end if nobody starts.

    Ends are foreseen for all decisions until the next start near them; if one of them starts up,
    which sends later than it is taken to, for those of one instant.
    """
    jobs, on, flows, latest = state.jobs, state.on, state.lists[UNDER_WAY], True
    for link in links:
        for place in range(1, on[link, 0] + 1):
            job = jobs[on[link, place]]
            if job.foreseen_s <= 0:
                return False
            latest &= job.as_of_s == now_s
    if not latest:
        for place in range(state.counts[UNDER_WAY]):
            if jobs[flows[place]].flow == STARTUP:
                return False
    return True


@jit_borrowing
def _foresee(state: State, new: int, now_s: float) -> None:
    """Foresee when those near a transfer end if nobody starts."""
    n_near = reach(state, new)
    state.lists[NEAR, n_near] = new
    _sum_of_ends(state, n_near, _NEVER, math.inf, now_s)


@jit_borrowing
def _is_late(state: State, new: int, links: Int64s, now_s: float) -> bool:
    """Tell, by bounds, whether a start now is surely worse than one when all rivals have ended.

    The rivals are those on its links, and nobody ends earlier than foreseen. So until the first of
    them ends, a byte costs it no less than its busiest link, and until the last one no less than
    two transfers on a link: `end_s` is no later than its end. Till then each rival sends no faster
    than beside one more, so it ends that much later than foreseen, or more.
    """
    jobs, rivals, beside = state.jobs, state.lists[NEAR], state.lists[TRIED]
    rules, count, most, factor = state.rules[0], 0, 0, math.inf
    first_s, last_s = math.inf, 0.0
    for link in links:
        k = state.on[link, 0]
        most, factor = max(most, k), min(factor, state.links[link].factor)
        for at in range(1, k + 1):
            number, place = state.on[link, at], 0
            while place < count and rivals[place] != number:
                place += 1
            if place == count:
                rivals[count], beside[count] = number, k
                count += 1
                rest_s = jobs[number].foreseen_s - now_s
                first_s, last_s = min(first_s, rest_s), max(last_s, rest_s)
            beside[place] = max(beside[place], k)
    b, eta = rules.b * factor, rules.eta * factor
    two, crowded, alone = 2 * b + eta, (most + 1) * b + most * eta, cost_alone(state, jobs[new])
    end_s = jobs[new].bytes * crowded
    if end_s > first_s:
        rest = jobs[new].bytes - first_s / crowded
        end_s = first_s + rest * two
        if end_s > last_s:
            end_s = last_s + (rest - (last_s - first_s) / two) * alone
    later_s = end_s - last_s - jobs[new].bytes * alone
    for place in range(count):
        rest_s, k = jobs[rivals[place]].foreseen_s - now_s, beside[place]
        shared_s = min(end_s, rest_s)
        crowded_s = min(end_s, first_s)
        sent = crowded_s / ((k + 1) * b + k * eta) + (shared_s - crowded_s) / two
        lacks = rest_of(jobs[rivals[place]], now_s) - sent - (rest_s - shared_s) / b
        if lacks > 0:
            more_s = end_s - shared_s
            later_s += min(lacks * two, more_s + max(lacks - more_s / two, 0.0) * b)
    return bool(later_s >= 0)


@jit_borrowing
def _sum_if_held(state: State, n_near: int, now_s: float) -> float:
    """Sum the ends if the last of `NEAR` starts when all that it meets have ended, as foreseen.

    Nobody is on its links by then, so all others end when they would without it.
    """
    jobs, near, free_s = state.jobs, state.lists[NEAR], 0.0
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
        jobs[near[place]].rest_then = rest_of(jobs[near[place]], now_s)
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
