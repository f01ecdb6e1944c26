"""Transfers that wait for the gate, and those under way, in the arrays of the compiled engine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from apportion.sim.contention.arrays import (
    ASK,
    DUAL_FIRST,
    K_WAY,
    NEAR,
    NEW,
    ROUND,
    SENDING,
    SHARE,
    STARTUP,
    UNDER_WAY,
    WAITING,
    WHAT_IF,
)
from apportion.sim.contention.gate_kernel import decide
from apportion.sim.contention.jit import jit, jit_borrowing
from apportion.sim.contention.kernel_jobs import append
from apportion.sim.contention.sharing_kernel import rates_of
from apportion.sim.contention.what_if_kernel import reach

if TYPE_CHECKING:
    from apportion.sim.contention.arrays import State

_NEW_ONES, _ALL, _HEARS = range(3)
"""About which transfers to ask: new ones, all, or all to which a start makes a difference."""


@jit_borrowing
def _sort_waiting(state: State) -> None:
    """Sort the transfers that wait by the turn of their jobs."""
    jobs, row = state.jobs, state.lists[WAITING]
    for place in range(1, state.counts[WAITING]):
        number, before = row[place], place - 1
        key = jobs[number].key
        while before >= 0 and (
            jobs[row[before]].key > key or (jobs[row[before]].key == key and row[before] > number)
        ):
            row[before + 1] = row[before]
            before -= 1
        row[before + 1] = number


@jit_borrowing
def ask_gate(state: State, now_s: float) -> None:
    """Ask about transfers in the order of the jobs: the new ones, or, after an end, all.

    All are asked about after a start, too, if that may make the gate let another one in. Where all
    have been asked about already, only those to which something that began since makes a
    difference: the others would be told the same.
    """
    counts, about = state.counts, state.counts[ASK]
    _sort_waiting(state)
    counts[ASK] = counts[NEW] = 0
    counts[ROUND] += 1  # what began in earlier calls is no news
    again = True
    while again:
        there = counts[WAITING]
        counts[ROUND] += 1
        _ask_about(state, now_s, about)
        again = _opens_at_starts(state) and counts[WAITING] < there
        about = min(about + 1, _HEARS)


@jit_borrowing
def _opens_at_starts(state: State) -> bool:
    """Tell whether the gate may let another one in when one has started."""
    return state.rules[0].gate in (K_WAY, WHAT_IF, DUAL_FIRST)


@jit_borrowing
def _hears_of(state: State, job: Any) -> bool:
    """Tell whether a transfer that began since the round before makes a difference to another."""
    since = state.counts[ROUND] - 1
    for link in state.links_of[job.links_at : job.links_at + job.n_links]:
        if state.links[link].asked >= since:
            return True
    return False


@jit
def _tell(state: State, number: int) -> None:
    """Remember on which links a start makes a difference: its own, or all that are connected.

    There no end is foreseen any more.
    """
    job, links, now = state.jobs[number], state.links, state.counts[ROUND]
    for at in range(job.links_at, job.links_at + job.n_links):
        links[state.links_of[at]].asked = now
    if state.rules[0].gate == WHAT_IF:
        for place in range(reach(state, number)):
            state.jobs[state.lists[NEAR, place]].foreseen_s = 0.0
        for link in range(links.size):
            if links[link].reached:
                links[link].asked = now


@jit_borrowing
def _ask_about(state: State, now_s: float, about: int) -> None:
    """Ask about those that wait, or the new ones of them, one by one."""
    waiting, kept = state.lists[WAITING], 0
    for place in range(state.counts[WAITING]):
        number = waiting[place]
        job = state.jobs[number]
        waiting[kept] = number
        kept += 1
        knows = job.asked if about == _NEW_ONES else about == _HEARS and not _hears_of(state, job)
        if knows:
            continue
        job.asked = 1
        job.ask_s = decide(state, number, now_s)
        if job.ask_s <= now_s:
            kept -= 1
            _start(state, number, now_s)
            if _opens_at_starts(state):
                _tell(state, number)
    state.counts[WAITING] = kept


@jit_borrowing
def _start(state: State, number: int, now_s: float) -> None:
    """Put a transfer on its links."""
    job = state.jobs[number]
    job.ask_s = math.inf
    startup_s = state.sends[job.sends_at + job.sent].startup_s
    job.flow, job.since_s = SENDING, now_s
    if startup_s > 0:
        job.flow, job.flow_s = STARTUP, now_s + startup_s
    append(state, UNDER_WAY, number)
    for link in state.links_of[job.links_at : job.links_at + job.n_links]:
        row = state.on[link]
        row[0] += 1
        row[row[0]] = number
    state.counts[SHARE] = 1


@jit_borrowing
def share(state: State, now_s: float) -> None:
    """Give every transfer under way its rate; touch only those whose rate changes."""
    state.counts[SHARE] = 0
    flows, count = state.lists[UNDER_WAY], state.counts[UNDER_WAY]
    rates_of(state, flows, count)
    for place in range(count):
        job = state.jobs[flows[place]]
        if job.flow != SENDING or job.rate_then == job.rate:
            continue
        job.moved += job.rate * (now_s - job.since_s)
        job.rest = max(job.rest - job.rate * (now_s - job.since_s), 0.0)
        job.rate, job.since_s = job.rate_then, now_s
        job.flow_s = now_s + job.rest / job.rate
