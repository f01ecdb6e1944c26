"""The engine of iterations in arrays, compiled if numba is there.

It does what `apportion.sim.contention.plain` does, stage by stage, in the order of
`apportion.sim.contention.engine`. A look at all GPUs and transfers finds the next event: with some
dozens of them that is quicker than a heap.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from apportion.sim.contention.arrays import (
    ASK,
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
    SINCE,
    STARTUP,
    UNDER_WAY,
    WAITING,
)
from apportion.sim.contention.engine import IN_VAIN, INSTANT_S
from apportion.sim.contention.jit import jit_borrowing
from apportion.sim.contention.kernel_jobs import (
    barrier_of,
    begin_iteration,
    look_at,
    pass_barriers,
    remove,
    sent_one,
    take_off,
)
from apportion.sim.contention.kernel_links import ask_gate, share

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.sim.contention.arrays import Scratch

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = ["PAUSED", "PUT_OFF", "REACHED", "STANDSTILL", "advance"]

REACHED, STANDSTILL, PUT_OFF, PAUSED = range(4)
"""Why `advance` comes back: the time is reached or somebody is done, nothing would happen, the gate
puts off its answer for ever, or there have been so many events as it was to let happen."""


@jit_borrowing
def _move(
    number: int,
    now_s: float,
    jobs: Any,
    workers: Any,
    tasks: Any,
    sends: Any,
    links_of: Ints,
    residents: Ints,
    on: Ints,
    lists: Ints,
    counts: Ints,
    done_s: Floats,
) -> None:
    """Take in the first byte of a transfer, or its last one."""
    job = jobs[number]
    if job.flow == STARTUP:
        job.flow, job.since_s, job.flow_s = SENDING, now_s, math.inf
        counts[SHARE] = 1
        return
    counts[EVENTS] += 1
    job.moved += job.rate * (now_s - job.since_s)
    take_off(number, job, links_of, on, lists, counts)
    sent_one(job, workers, tasks, sends, lists, counts)
    pass_barriers(number, now_s, jobs, workers, tasks, sends, residents, lists, counts, done_s)


@jit_borrowing
def _end_task(
    gpu: int,
    now_s: float,
    jobs: Any,
    workers: Any,
    tasks: Any,
    sends: Any,
    gpu_end_s: Floats,
    gpu_worker: Ints,
    residents: Ints,
    lists: Ints,
    counts: Ints,
    done_s: Floats,
) -> None:
    """Let the worker on a GPU go on."""
    worker = workers[gpu_worker[gpu]]
    number = worker.job
    job = jobs[number]
    gpu_end_s[gpu], gpu_worker[gpu] = math.inf, -1
    look_at(gpu, lists, counts)
    counts[EVENTS] += 1
    job.computed_s += tasks[job.tasks_at + worker.done].seconds
    worker.done += 1
    goes_on = worker.done < job.n_tasks and tasks[job.tasks_at + worker.done].needs <= job.sent
    worker.state = READY if goes_on else REST
    if worker.done == barrier_of(job, sends):
        job.lag -= 1
        if job.lag == 0:
            pass_barriers(
                number, now_s, jobs, workers, tasks, sends, residents, lists, counts, done_s
            )


@jit_borrowing
def _begin_tasks(
    now_s: float,
    jobs: Any,
    workers: Any,
    tasks: Any,
    gpu_end_s: Floats,
    gpu_worker: Ints,
    residents: Ints,
    lists: Ints,
    counts: Ints,
) -> float:
    """Let idle GPUs begin the task of the job whose turn it is; return when the first ends."""
    next_s = math.inf
    for place in range(counts[LOOK]):
        gpu = lists[LOOK, place]
        lists[LOOKED_AT, gpu] = 0
        if gpu_worker[gpu] >= 0:
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
            gpu_worker[gpu] = best
            gpu_end_s[gpu] = now_s + tasks[jobs[whose].tasks_at + worker.done].seconds
            next_s = min(next_s, gpu_end_s[gpu])
    counts[LOOK] = 0
    return next_s


@jit_borrowing
def _next_s(next_s: float, jobs: Any, lists: Ints, counts: Ints) -> float:
    """Return when the next event is, of those that are not on GPUs or the next one there."""
    for place in range(counts[UNDER_WAY]):
        next_s = min(next_s, jobs[lists[UNDER_WAY, place]].flow_s)
    for place in range(counts[WAITING]):
        ask_s = jobs[lists[WAITING, place]].ask_s
        next_s = min(next_s, ask_s)
    for place in range(counts[PENDING]):
        next_s = min(next_s, jobs[lists[PENDING, place]].begin_s)
    return next_s


@jit_borrowing
def _take_in(
    now_s: float,
    jobs: Any,
    workers: Any,
    tasks: Any,
    sends: Any,
    links_of: Ints,
    gpu_end_s: Floats,
    gpu_worker: Ints,
    residents: Ints,
    on: Ints,
    lists: Ints,
    counts: Ints,
    done_s: Floats,
) -> float:
    """Take in all events of an instant; return when the next task ends of those under way."""
    next_s = math.inf
    until_s = now_s + max(INSTANT_S, now_s * 2.0**-47)
    for gpu in range(gpu_end_s.size):
        if gpu_end_s[gpu] > until_s:
            next_s = min(next_s, gpu_end_s[gpu])
        else:
            _end_task(
                *(gpu, now_s, jobs, workers, tasks, sends, gpu_end_s, gpu_worker, residents),
                *(lists, counts, done_s),
            )
    for place in range(counts[UNDER_WAY] - 1, -1, -1):
        number = lists[UNDER_WAY, place]
        if jobs[number].flow_s <= until_s:
            _move(
                *(number, now_s, jobs, workers, tasks, sends, links_of, residents, on),
                *(lists, counts, done_s),
            )
    named = 0
    for place in range(counts[WAITING]):
        if jobs[lists[WAITING, place]].ask_s <= until_s:
            counts[ASK] = named = 1
    if named:
        counts[NAMED] = counts[NAMED] + 1 if counts[EVENTS] == counts[SINCE] else 1
        counts[SINCE] = counts[EVENTS]
    for place in range(counts[PENDING] - 1, -1, -1):
        number = lists[PENDING, place]
        job = jobs[number]
        if job.begin_s <= until_s:
            remove(PENDING, number, lists, counts)
            begin_iteration(job, workers, tasks, sends, lists, counts)
            pass_barriers(
                *(number, now_s, jobs, workers, tasks, sends, residents, lists, counts, done_s)
            )
    return next_s


@jit_borrowing
def advance(
    now_s: float,
    until_s: float,
    to_completion: bool,
    most: int,
    room: Scratch,
    jobs: Any,
    workers: Any,
    tasks: Any,
    sends: Any,
    links_of: Ints,
    gpu_end_s: Floats,
    gpu_worker: Ints,
    residents: Ints,
    on: Ints,
    lists: Ints,
    counts: Ints,
    done_s: Floats,
    law: Floats,
    of_link: Floats,
    gate: Floats,
    used: Ints,
    rates: Floats,
    asked: Ints,
) -> tuple[float, int]:
    """Let jobs run to a time, or until some are done; return when that is, and why."""
    last_s = until_s + max(INSTANT_S, until_s * 2.0**-47)
    while True:
        next_s = _take_in(
            *(now_s, jobs, workers, tasks, sends, links_of, gpu_end_s, gpu_worker, residents),
            *(on, lists, counts, done_s),
        )
        over = until_s <= now_s + max(INSTANT_S, now_s * 2.0**-47)
        if to_completion and counts[DONE]:
            return (max(now_s, until_s) if over else now_s), REACHED
        if counts[NAMED] > IN_VAIN:
            return now_s, PUT_OFF
        if over:
            return until_s, REACHED
        if counts[ASK] or counts[NEW]:
            ask_gate(
                *(now_s, jobs, sends, links_of, on, lists, counts, law, of_link, gate, asked, room)
            )
        if counts[SHARE]:
            share(now_s, jobs, links_of, lists, counts, law, of_link, used, rates)
        if counts[LOOK]:
            begun_s = _begin_tasks(
                *(now_s, jobs, workers, tasks, gpu_end_s, gpu_worker, residents, lists, counts)
            )
            next_s = min(next_s, begun_s)
        next_s = _next_s(next_s, jobs, lists, counts)
        if next_s == math.inf and counts[HERE]:
            return now_s, STANDSTILL
        if next_s > last_s or next_s == math.inf:
            return until_s, REACHED
        now_s = max(next_s, now_s)
        if counts[EVENTS] >= most:
            return now_s, PAUSED
