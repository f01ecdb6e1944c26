"""Jobs, their workers and barriers, in the arrays of the compiled engine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from apportion.sim.contention.arrays import (
    ASK,
    BLOCK,
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
from apportion.sim.contention.jit import jit_borrowing, jit_entry

if TYPE_CHECKING:
    from apportion.sim.contention.arrays import State
    from apportion.types import Int64s


@jit_borrowing
def append(state: State, which: int, value: int) -> None:
    """Put a value at the end of a list of the state."""
    state.lists[which, state.counts[which]] = value
    state.counts[which] += 1


@jit_borrowing
def look_at(state: State, gpu: int) -> None:
    """Remember a GPU that may have something to begin."""
    if not state.lists[LOOKED_AT, gpu]:
        state.lists[LOOKED_AT, gpu] = 1
        append(state, LOOK, gpu)


@jit_borrowing
def look_near(state: State, block: int) -> None:
    """Look up when the next task of a block of GPUs ends."""
    first_s = math.inf
    for gpu in range(block * BLOCK, min((block + 1) * BLOCK, state.gpus.size)):
        first_s = min(first_s, state.gpus[gpu].end_s)
    state.near[block] = first_s


@jit_borrowing
def remove(state: State, which: int, value: int) -> None:
    """Take a value out of a list, the others in the same order."""
    kept = 0
    for place in range(state.counts[which]):
        if state.lists[which, place] != value:
            state.lists[which, kept] = state.lists[which, place]
            kept += 1
    state.counts[which] = kept


@jit_borrowing
def remove_from(row: Int64s, value: int) -> None:
    """Take a value out of a row whose first number is its length."""
    kept = 1
    for place in range(1, row[0] + 1):
        if row[place] != value:
            row[kept] = row[place]
            kept += 1
    row[0] = kept - 1


@jit_borrowing
def let_workers(state: State, job: Any, sent: int) -> None:
    """Let workers go on whose next task has waited for so many transfers."""
    for at in range(job.at, job.at + job.n):
        worker = state.workers[at]
        if worker.done < job.n_tasks and state.tasks[job.tasks_at + worker.done].needs == sent:
            worker.state = READY
            look_at(state, worker.gpu)


@jit_borrowing
def barrier_of(state: State, job: Any) -> int:
    """Return after which task a job sends next."""
    if job.sent < job.n_sends:
        barrier: int = state.sends[job.sends_at + job.sent].after
        return barrier
    everything: int = job.n_tasks
    return everything


@jit_borrowing
def begin_iteration(state: State, job: Any) -> None:
    """Let all workers begin anew."""
    job.sent = 0
    job.key = job.first * job.left + job.second
    job.lag = job.n if barrier_of(state, job) > 0 else 0
    for at in range(job.at, job.at + job.n):
        state.workers[at].done = 0
        state.workers[at].state = REST
    let_workers(state, job, 0)


@jit_borrowing
def sent_one(state: State, job: Any) -> None:
    """Let a job have sent one more message."""
    job.sent += 1
    job.flow = 0
    job.flow_s = job.ask_s = math.inf
    barrier, lag = barrier_of(state, job), 0
    for at in range(job.at, job.at + job.n):
        lag += state.workers[at].done < barrier
    job.lag = lag
    let_workers(state, job, job.sent)


@jit_borrowing
def pass_barriers(state: State, number: int, now_s: float) -> None:
    """Go on where all workers have come to the next barrier."""
    job, counts = state.jobs[number], state.counts
    while job.lag == 0 and job.flow == 0:
        if job.sent == job.n_sends:
            job.left -= 1
            if job.left == 0:
                job.here = 0
                counts[HERE] -= 1
                job.done_s = now_s
                append(state, DONE, number)
                for at in range(job.at, job.at + job.n):
                    remove_from(state.residents[state.workers[at].gpu], at)
                return
            begin_iteration(state, job)
            continue
        send = state.sends[job.sends_at + job.sent]
        if send.bytes > 0 and (job.n_links > 0 or send.most < math.inf):
            job.bytes = job.rest = send.bytes
            job.most, job.rate, job.asked = send.most, 0.0, 0
            if job.n_links > 0:
                job.flow = WAITS
                append(state, WAITING, number)
                counts[NEW] = 1
            else:
                job.flow, job.since_s = SENDING, now_s
                append(state, UNDER_WAY, number)
                counts[SHARE] = 1
            return
        sent_one(state, job)


@jit_borrowing
def take_off(state: State, number: int) -> None:
    """Let a transfer leave its links."""
    job = state.jobs[number]
    remove(state, UNDER_WAY, number)
    for link in state.links_of[job.links_at : job.links_at + job.n_links]:
        remove_from(state.on[link], number)
    state.counts[SHARE] = state.counts[ASK] = 1


@jit_borrowing
def foresee_nothing(state: State) -> None:
    """Forget when transfers under way would end if no other started."""
    for place in range(state.counts[UNDER_WAY]):
        state.jobs[state.lists[UNDER_WAY, place]].foreseen_s = 0.0


@jit_entry
def take_away(state: State, number: int) -> None:
    """Take a job off its GPUs and links."""
    job = state.jobs[number]
    job.here = 0
    state.counts[HERE] -= 1
    for at in range(job.at, job.at + job.n):
        gpu = state.workers[at].gpu
        remove_from(state.residents[gpu], at)
        if state.gpus[gpu].worker == at:
            state.gpus[gpu].end_s, state.gpus[gpu].worker = math.inf, -1
            look_at(state, gpu)
            look_near(state, gpu // BLOCK)
    if job.flow == WAITS:
        remove(state, WAITING, number)
    elif job.flow:
        take_off(state, number)
        foresee_nothing(state)
    remove(state, PENDING, number)
    job.flow = 0
