"""Transfers that wait for the gate, and those under way, in the arrays of the compiled engine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from apportion.sim.contention.arrays import (
    ASK,
    NEW,
    ROUND,
    SENDING,
    SHARE,
    STARTUP,
    UNDER_WAY,
    WAITING,
)
from apportion.sim.contention.gate_kernel import DUAL_FIRST, K_WAY, WHAT_IF, decide, reach
from apportion.sim.contention.jit import jit, jit_borrowing
from apportion.sim.contention.kernel_jobs import append
from apportion.sim.contention.sharing_kernel import rates_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.sim.contention.arrays import Scratch

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = ["ask_gate", "share"]


@jit_borrowing
def _sort_waiting(jobs: Any, lists: Ints, counts: Ints) -> None:
    """Sort the transfers that wait by the turn of their jobs."""
    row = lists[WAITING]
    for place in range(1, counts[WAITING]):
        number, before = row[place], place - 1
        key = jobs[number].key
        while before >= 0 and (
            jobs[row[before]].key > key or (jobs[row[before]].key == key and row[before] > number)
        ):
            row[before + 1] = row[before]
            before -= 1
        row[before + 1] = number


@jit_borrowing
def ask_gate(
    now_s: float,
    jobs: Any,
    sends: Any,
    links_of: Ints,
    on: Ints,
    lists: Ints,
    counts: Ints,
    law: Floats,
    of_link: Floats,
    gate: Floats,
    asked: Ints,
    room: Scratch,
) -> None:
    """Ask about transfers in the order of the jobs: the new ones, or, after an end, all.

    All are asked about after a start, too, if that may make the gate let another one in. Where all
    have been asked about already, only those to which something that began since makes a
    difference: the others would be told the same.
    """
    _sort_waiting(jobs, lists, counts)
    everybody = counts[ASK]
    counts[ASK] = counts[NEW] = 0
    opens_at_starts = gate[0] == K_WAY or gate[0] == WHAT_IF or gate[0] == DUAL_FIRST
    all_asked, again = 0, True
    counts[ROUND] += 1  # what began in earlier calls is no news
    while again:
        there = counts[WAITING]
        counts[ROUND] += 1
        _ask_about(
            *(
                everybody,
                all_asked,
                opens_at_starts,
                now_s,
                jobs,
                sends,
                links_of,
                on,
                lists,
                counts,
                law,
            ),
            *(of_link, gate, asked, room),
        )
        again = opens_at_starts and counts[WAITING] < there
        all_asked, everybody = everybody, 1


@jit_borrowing
def _hears_of(job: Any, links_of: Ints, since: int, asked: Ints) -> bool:
    """Tell whether a transfer that began since a round makes a difference to another."""
    for at in range(job.links_at, job.links_at + job.n_links):
        if asked[links_of[at]] >= since:
            return True
    return False


@jit
def _tell(
    number: int,
    jobs: Any,
    links_of: Ints,
    lists: Ints,
    counts: Ints,
    gate: Floats,
    asked: Ints,
    room: Scratch,
) -> None:
    """Remember on which links a start makes a difference: its own, or all that are connected."""
    job = jobs[number]
    for at in range(job.links_at, job.links_at + job.n_links):
        asked[links_of[at]] = counts[ROUND]
    if gate[0] == WHAT_IF:
        reach(number, lists[UNDER_WAY], counts[UNDER_WAY], jobs, links_of, room)
        for link in range(asked.size):
            if room.reached[link]:
                asked[link] = counts[ROUND]


@jit_borrowing
def _ask_about(
    everybody: int,
    all_asked: int,
    opens_at_starts: bool,
    now_s: float,
    jobs: Any,
    sends: Any,
    links_of: Ints,
    on: Ints,
    lists: Ints,
    counts: Ints,
    law: Floats,
    of_link: Floats,
    gate: Floats,
    asked: Ints,
    room: Scratch,
) -> None:
    """Ask about those that wait, or the new ones of them, one by one."""
    kept = 0
    for place in range(counts[WAITING]):
        number = lists[WAITING, place]
        job = jobs[number]
        lists[WAITING, kept] = number
        kept += 1
        if job.asked and not everybody:
            continue
        if all_asked and not _hears_of(job, links_of, counts[ROUND] - 1, asked):
            continue
        job.asked = 1
        flows, under_way = lists[UNDER_WAY], counts[UNDER_WAY]
        when_s = decide(
            *(number, now_s, flows, under_way, jobs, links_of, on, law, of_link, gate, room)
        )
        job.ask_s = when_s
        if when_s > now_s:
            continue
        kept -= 1
        job.ask_s = math.inf
        startup_s = sends[job.sends_at + job.sent].startup_s
        job.flow, job.since_s = SENDING, now_s
        if startup_s > 0:
            job.flow, job.flow_s = STARTUP, now_s + startup_s
        append(UNDER_WAY, number, lists, counts)
        for at in range(job.links_at, job.links_at + job.n_links):
            row = on[links_of[at]]
            row[0] += 1
            row[row[0]] = number
        if opens_at_starts:
            _tell(number, jobs, links_of, lists, counts, gate, asked, room)
        counts[SHARE] = 1
    counts[WAITING] = kept


@jit_borrowing
def share(
    now_s: float,
    jobs: Any,
    links_of: Ints,
    lists: Ints,
    counts: Ints,
    law: Floats,
    of_link: Floats,
    used: Ints,
    rates: Floats,
) -> None:
    """Give every transfer under way its rate; touch only those whose rate changes."""
    counts[SHARE] = 0
    flows, under_way = lists[UNDER_WAY], counts[UNDER_WAY]
    rates_of(flows, under_way, jobs, links_of, law, of_link, used, rates)
    for place in range(counts[UNDER_WAY]):
        job = jobs[lists[UNDER_WAY, place]]
        if job.flow != SENDING or rates[place] == job.rate:
            continue
        job.moved += job.rate * (now_s - job.since_s)
        job.rest = max(job.rest - job.rate * (now_s - job.since_s), 0.0)
        job.rate, job.since_s = rates[place], now_s
        job.flow_s = now_s + job.rest / job.rate
