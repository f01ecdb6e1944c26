"""What gates decide, in arrays; see `mechanism.gates`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.mechanism.gates.gate import HOLD, START, TIE, next_turn, small_beside, start_cost
from apportion.sim.contention.arrays import (
    AT_MOST,
    AT_MOST_ON_A_PAIR,
    DUAL_FIRST,
    K_WAY,
    SHIFTED,
    WHAT_IF,
)
from apportion.sim.contention.jit import jit, jit_borrowing
from apportion.sim.contention.sharing_kernel import rest_of
from apportion.sim.contention.what_if_kernel import what_if

if TYPE_CHECKING:
    from apportion.sim.contention.arrays import State
    from apportion.types import Int64s


_next_turn = jit_borrowing(next_turn)
_small_beside = jit_borrowing(small_beside)
_start_cost = jit_borrowing(start_cost)


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
        starts = _busiest(state, links) == 0 or what_if(state, new, links, now_s)
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
def _dual(state: State, size: float, now_s: float, links: Int64s) -> bool:
    if _busiest(state, links) > 1:
        return False
    own = state.rules[0]
    for link in links:
        if state.on[link, 0]:
            rest = rest_of(state.jobs[state.on[link, 1]], now_s)
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
            rest, before = rest_of(state.jobs[on[link, place + 1]], now_s), place - 1
            while before >= 0 and rests[before] > rest:
                rests[before + 1] = rests[before]
                before -= 1
            rests[before + 1] = rest
        now = _start_cost(0, size, rests, k, b, eta)
        for j in range(1, k + 1):
            if now >= _start_cost(j, size, rests, k, b, eta) * (1 - TIE):
                return False
    return True
