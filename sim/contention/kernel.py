"""The engine of iterations in arrays, compiled if numba is there.

It does what `apportion.sim.contention.plain` does, stage by stage, in the order of
`apportion.sim.contention.engine`. A look at all blocks of GPUs and all transfers finds the next
event: with some dozens of them that is quicker than a heap.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from apportion.sim.contention.arrays import (
    ASK,
    BLOCK,
    DONE,
    EVENTS,
    HERE,
    LOOK,
    LOOKED_AT,
    NAMED,
    NEW,
    PENDING,
    READY,
    REST,
    RUNNING,
    SENDING,
    SHARE,
    SHIFTED,
    SINCE,
    STARTUP,
    UNDER_WAY,
    WAITING,
)
from apportion.sim.contention.engine import IN_VAIN, INSTANT_S
from apportion.sim.contention.jit import jit_borrowing, jit_entry
from apportion.sim.contention.kernel_jobs import (
    barrier_of,
    begin_iteration,
    foresee_nothing,
    look_at,
    look_near,
    pass_barriers,
    remove,
    sent_one,
    take_off,
)
from apportion.sim.contention.kernel_links import ask_gate, share

if TYPE_CHECKING:
    from apportion.sim.contention.arrays import State

REACHED, STANDSTILL, PUT_OFF, PAUSED = range(4)
"""Why `advance` comes back: the time is reached or somebody is done, nothing would happen, the gate
puts off its answer for ever, or there have been so many events as it was to let happen."""


@jit_borrowing
def _move(state: State, number: int, now_s: float) -> None:
    """Take in the first byte of a transfer, or its last one."""
    job = state.jobs[number]
    if job.flow == STARTUP:
        job.flow, job.since_s, job.flow_s = SENDING, now_s, math.inf
        state.counts[SHARE] = 1
        foresee_nothing(state)
        return
    state.counts[EVENTS] += 1
    job.moved += job.rate * (now_s - job.since_s)
    take_off(state, number)
    sent_one(state, job)
    pass_barriers(state, number, now_s)


@jit_borrowing
def _end_task(state: State, number: int, now_s: float) -> None:
    """Let the worker on a GPU go on."""
    gpu, tasks = state.gpus[number], state.tasks
    worker = state.workers[gpu.worker]
    job = state.jobs[worker.job]
    gpu.end_s, gpu.worker = math.inf, -1
    look_at(state, number)
    state.counts[EVENTS] += 1
    job.computed_s += tasks[job.tasks_at + worker.done].seconds
    worker.done += 1
    goes_on = worker.done < job.n_tasks and tasks[job.tasks_at + worker.done].needs <= job.sent
    worker.state = READY if goes_on else REST
    if worker.done == barrier_of(state, job):
        job.lag -= 1
        if job.lag == 0:
            pass_barriers(state, worker.job, now_s)


@jit_borrowing
def _begin_tasks(state: State, now_s: float) -> float:
    """Let idle GPUs begin the task of the job whose turn it is; return when the first ends."""
    jobs, workers, residents = state.jobs, state.workers, state.residents
    next_s = math.inf
    for place in range(state.counts[LOOK]):
        gpu = state.lists[LOOK, place]
        state.lists[LOOKED_AT, gpu] = 0
        if state.gpus[gpu].worker >= 0:
            continue
        best, key, whose = -1, 0, 0
        for slot in range(1, residents[gpu, 0] + 1):
            at = residents[gpu, slot]
            if workers[at].state == READY:
                number = workers[at].job
                own = jobs[number].key
                if best < 0 or own < key or (own == key and number < whose):
                    best, key, whose = at, own, number
        if best >= 0:
            worker = workers[best]
            worker.state = RUNNING
            end_s = now_s + state.tasks[jobs[whose].tasks_at + worker.done].seconds
            state.gpus[gpu].end_s, state.gpus[gpu].worker = end_s, best
            state.near[gpu // BLOCK] = min(state.near[gpu // BLOCK], end_s)
            next_s = min(next_s, end_s)
    state.counts[LOOK] = 0
    return next_s


@jit_borrowing
def _may_be_named(state: State) -> int:
    """Return of how many that wait the gate may have named a time: of none, but for shifts."""
    named: int = state.counts[WAITING] if state.rules[0].gate == SHIFTED else 0
    return named


@jit_borrowing
def _next_s(state: State, next_s: float) -> float:
    """Return when the next event is, of those that are not on GPUs or the next one there."""
    jobs, lists, counts = state.jobs, state.lists, state.counts
    for place in range(counts[UNDER_WAY]):
        next_s = min(next_s, jobs[lists[UNDER_WAY, place]].flow_s)
    for place in range(_may_be_named(state)):
        next_s = min(next_s, jobs[lists[WAITING, place]].ask_s)
    for place in range(counts[PENDING]):
        next_s = min(next_s, jobs[lists[PENDING, place]].begin_s)
    return next_s


@jit_borrowing
def _take_in(state: State, now_s: float) -> float:
    """Take in all events of an instant; return when the next task ends of those under way."""
    jobs, gpus, lists, counts = state.jobs, state.gpus, state.lists, state.counts
    next_s = math.inf
    until_s = now_s + max(INSTANT_S, now_s * 2.0**-47)
    for block in range(state.near.size):
        if state.near[block] <= until_s:
            for gpu in range(block * BLOCK, min((block + 1) * BLOCK, gpus.size)):
                if gpus[gpu].end_s <= until_s:
                    _end_task(state, gpu, now_s)
            look_near(state, block)
        next_s = min(next_s, state.near[block])
    for place in range(counts[UNDER_WAY] - 1, -1, -1):
        number = lists[UNDER_WAY, place]
        if jobs[number].flow_s <= until_s:
            _move(state, number, now_s)
    named = 0
    for place in range(_may_be_named(state)):
        if jobs[lists[WAITING, place]].ask_s <= until_s:
            counts[ASK] = named = 1
    if named:
        counts[NAMED] = counts[NAMED] + 1 if counts[EVENTS] == counts[SINCE] else 1
        counts[SINCE] = counts[EVENTS]
    for place in range(counts[PENDING] - 1, -1, -1):
        number = lists[PENDING, place]
        if jobs[number].begin_s <= until_s:
            remove(state, PENDING, number)
            begin_iteration(state, jobs[number])
            pass_barriers(state, number, now_s)
    return next_s


@jit_entry
def advance(
    state: State, now_s: float, until_s: float, to_completion: bool, most: int
) -> tuple[float, int]:
    """Let jobs run to a time, or until some are done; return when that is, and why."""
    counts = state.counts
    last_s = until_s + max(INSTANT_S, until_s * 2.0**-47)
    while True:
        next_s = _take_in(state, now_s)
        over = until_s <= now_s + max(INSTANT_S, now_s * 2.0**-47)
        if to_completion and counts[DONE]:
            return (max(now_s, until_s) if over else now_s), REACHED
        if counts[NAMED] > IN_VAIN:
            return now_s, PUT_OFF
        if over:
            return until_s, REACHED
        if counts[ASK] or counts[NEW]:
            ask_gate(state, now_s)
        if counts[SHARE]:
            share(state, now_s)
        if counts[LOOK]:
            next_s = min(next_s, _begin_tasks(state, now_s))
        next_s = _next_s(state, next_s)
        if next_s == math.inf and counts[HERE]:
            return now_s, STANDSTILL
        if next_s > last_s or next_s == math.inf:
            return until_s, REACHED
        now_s = max(next_s, now_s)
        if counts[EVENTS] >= most:
            return now_s, PAUSED
