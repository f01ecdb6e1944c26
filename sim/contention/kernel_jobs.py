"""Jobs, their workers and barriers, in the arrays of the compiled engine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from apportion.sim.contention.arrays import (
    ASK,
    DONE,
    HERE,
    LOOK,
    LOOKED_AT,
    NEW,
    PENDING,
    READY,
    REST,
    SENDING,
    SHARE,
    UNDER_WAY,
    WAITING,
    WAITS,
)
from apportion.sim.contention.jit import jit_borrowing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = [
    *("append", "barrier_of", "begin_iteration", "look_at", "pass_barriers", "remove"),
    *("sent_one", "take_away", "take_off"),
]


@jit_borrowing
def append(which: int, value: int, lists: Ints, counts: Ints) -> None:
    lists[which, counts[which]] = value
    counts[which] += 1


@jit_borrowing
def look_at(gpu: int, lists: Ints, counts: Ints) -> None:
    """Remember a GPU that may have something to begin."""
    if not lists[LOOKED_AT, gpu]:
        lists[LOOKED_AT, gpu] = 1
        append(LOOK, gpu, lists, counts)


@jit_borrowing
def remove(which: int, value: int, lists: Ints, counts: Ints) -> None:
    """Take a value out of a list, the others in the same order."""
    kept = 0
    for place in range(counts[which]):
        if lists[which, place] != value:
            lists[which, kept] = lists[which, place]
            kept += 1
    counts[which] = kept


@jit_borrowing
def remove_from(row: Ints, value: int) -> None:
    """Take a value out of a row whose first number is its length."""
    kept = 1
    for place in range(1, row[0] + 1):
        if row[place] != value:
            row[kept] = row[place]
            kept += 1
    row[0] = kept - 1


@jit_borrowing
def let_workers(job: Any, sent: int, workers: Any, tasks: Any, lists: Ints, counts: Ints) -> None:
    """Let workers go on whose next task has waited for so many transfers."""
    for at in range(job.at, job.at + job.n):
        worker = workers[at]
        if worker.done < job.n_tasks and tasks[job.tasks_at + worker.done].needs == sent:
            worker.state = READY
            look_at(worker.gpu, lists, counts)


@jit_borrowing
def barrier_of(job: Any, sends: Any) -> int:
    if job.sent < job.n_sends:
        barrier: int = sends[job.sends_at + job.sent].after
        return barrier
    everything: int = job.n_tasks
    return everything


@jit_borrowing
def begin_iteration(
    job: Any, workers: Any, tasks: Any, sends: Any, lists: Ints, counts: Ints
) -> None:
    """Let all workers begin anew."""
    job.sent = 0
    job.key = job.first * job.left + job.second
    job.lag = job.n if barrier_of(job, sends) > 0 else 0
    for at in range(job.at, job.at + job.n):
        workers[at].done = 0
        workers[at].state = REST
    let_workers(job, 0, workers, tasks, lists, counts)


@jit_borrowing
def sent_one(job: Any, workers: Any, tasks: Any, sends: Any, lists: Ints, counts: Ints) -> None:
    job.sent += 1
    job.flow = 0
    job.flow_s = job.ask_s = math.inf
    barrier, lag = barrier_of(job, sends), 0
    for at in range(job.at, job.at + job.n):
        lag += workers[at].done < barrier
    job.lag = lag
    let_workers(job, job.sent, workers, tasks, lists, counts)


@jit_borrowing
def pass_barriers(
    number: int,
    now_s: float,
    jobs: Any,
    workers: Any,
    tasks: Any,
    sends: Any,
    residents: Ints,
    lists: Ints,
    counts: Ints,
    done_s: Floats,
) -> None:
    """Go on where all workers have come to the next barrier."""
    job = jobs[number]
    while job.lag == 0 and job.flow == 0:
        if job.sent == job.n_sends:
            job.left -= 1
            if job.left == 0:
                job.here = 0
                counts[HERE] -= 1
                done_s[counts[DONE]] = now_s
                append(DONE, number, lists, counts)
                for at in range(job.at, job.at + job.n):
                    remove_from(residents[workers[at].gpu], at)
                return
            begin_iteration(job, workers, tasks, sends, lists, counts)
            continue
        send = sends[job.sends_at + job.sent]
        if send.bytes > 0 and (job.n_links > 0 or send.most < math.inf):
            job.bytes = job.rest = send.bytes
            job.most, job.rate, job.asked = send.most, 0.0, 0
            if job.n_links > 0:
                job.flow = WAITS
                append(WAITING, number, lists, counts)
                counts[NEW] = 1
            else:
                job.flow, job.since_s = SENDING, now_s
                append(UNDER_WAY, number, lists, counts)
                counts[SHARE] = 1
            return
        sent_one(job, workers, tasks, sends, lists, counts)


@jit_borrowing
def take_off(number: int, job: Any, links_of: Ints, on: Ints, lists: Ints, counts: Ints) -> None:
    """Let a transfer leave its links."""
    remove(UNDER_WAY, number, lists, counts)
    for at in range(job.links_at, job.links_at + job.n_links):
        remove_from(on[links_of[at]], number)
    counts[SHARE] = counts[ASK] = 1


@jit_borrowing
def take_away(
    number: int,
    jobs: Any,
    workers: Any,
    links_of: Ints,
    gpu_end_s: Floats,
    gpu_worker: Ints,
    residents: Ints,
    on: Ints,
    lists: Ints,
    counts: Ints,
) -> None:
    """Take a job off its GPUs and links."""
    job = jobs[number]
    job.here = 0
    counts[HERE] -= 1
    for at in range(job.at, job.at + job.n):
        gpu = workers[at].gpu
        remove_from(residents[gpu], at)
        if gpu_worker[gpu] == at:
            gpu_end_s[gpu], gpu_worker[gpu] = math.inf, -1
            look_at(gpu, lists, counts)
    if job.flow == WAITS:
        remove(WAITING, number, lists, counts)
    elif job.flow:
        take_off(number, job, links_of, on, lists, counts)
    remove(PENDING, number, lists, counts)
    job.flow = 0
