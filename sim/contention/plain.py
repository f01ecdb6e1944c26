"""The engine of iterations: GPUs, links and what happens on them, event by event.

Everything is exact in continuous time. Nothing happens between events: a task of a GPU ends, a
transfer's first or last byte moves, a job gets ready, or a gate wants to be asked. What happens in
one instant has one order, that of `apportion.sim.contention.engine`.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.sim.contention.engine import SoFar, check_links, instant_s
from apportion.sim.contention.plain_links import Transfers
from apportion.sim.contention.plain_state import (
    ASK,
    FIRST_BYTE,
    READY,
    TASKS,
    OnGPUs,
    Transfer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.gates import Gate
    from apportion.sim.contention.engine import Turn
    from apportion.sim.contention.iteration import Iteration
    from apportion.sim.contention.record import Timeline
    from apportion.sim.network.link_sharing import LinkSharing
    from apportion.types import Ints


class PlainEngine:
    """Lets iterations run on GPUs and links, see `Engine`.

    Parameters
    ----------
    gpus, links
        How many there are.
    sharing
        How transfers share links.
    gate
        When they may start.
    timeline
        Takes down who computes and who sends, if anybody wants to know.
    names
        What users call the jobs, by number, for errors; by default their numbers.
    """

    def __init__(
        self,
        gpus: int,
        links: int,
        sharing: LinkSharing,
        gate: Gate,
        timeline: Timeline | None = None,
        names: Sequence[object] = (),
    ) -> None:
        check_links(sharing, links)
        self._links, self._timeline = links, timeline
        self.events = 0
        self._jobs: dict[int, OnGPUs] = {}  # those that are done or gone included
        self._here = 0
        self._heap: list[tuple[float, int, int, Any, Any]] = []
        self._count = 0  # of events ever planned: of equal times, first planned first served
        self._ready: list[list[tuple[tuple[int, int], int, OnGPUs]]] = [[] for _ in range(gpus)]
        self._busy: list[OnGPUs | None] = [None] * gpus
        self._look: set[int] = set()  # GPUs that may have something to begin
        self._finished: list[tuple[int, float]] = []
        self._ended: list[tuple[OnGPUs, float, list[int]]] = []  # tasks of an instant
        self._transfers = Transfers(links, sharing, gate, self._plan, timeline, names)

    # ---------------------------------------------------------------- who is there

    def add(
        self,
        job: int,
        iteration: Iteration,
        times: int,
        gpus: Sequence[int],
        links: Sequence[int],
        turn: Turn,
        ready_s: float,
    ) -> None:
        """Put a job on GPUs, see `Engine`."""
        check_links(None, self._links, job, links)
        new = OnGPUs(job, iteration, times, list(gpus), tuple(links))
        new.turn = turn
        self._jobs[job] = new
        self._here += 1
        self._plan(ready_s, READY, new)

    def drop(self, job: int) -> None:
        """Take a job off its GPUs, see `Engine`."""
        gone = self._jobs[job]
        self._here -= 1
        gone.here = False
        if self._timeline is not None:
            self._timeline.dropped(job)
        for gpu in gone.gpus:
            self._ready[gpu] = [each for each in self._ready[gpu] if each[2] is not gone]
            if self._busy[gpu] is gone:
                self._busy[gpu] = None
                self._look.add(gpu)
        if gone.transfer is not None:
            self._transfers.drop(gone.transfer)

    def so_far(self, jobs: Ints) -> SoFar:
        """Return what jobs have done, see `Engine`."""
        there = [*map(self._jobs.__getitem__, jobs.tolist())]
        return SoFar(
            np.array([job.left for job in there], dtype=float),
            np.array([job.computed_s for job in there], dtype=float),
            np.array([job.moved for job in there], dtype=float),
        )

    # ---------------------------------------------------------------- time goes by

    def run(
        self,
        now_s: float,
        until_s: float,
        *,
        to_completion: bool,
        more_come: bool = False,
    ) -> tuple[float, list[tuple[int, float]]]:
        """Let jobs run, see `Engine`.

        Raises
        ------
        SolveError
            If they would stand still for ever; it says who waits for what.
        """
        heap, transfers = self._heap, self._transfers
        self._finished = []
        last_s = until_s + instant_s(until_s)
        while True:
            soon_s = now_s + instant_s(now_s)
            self._take_in(now_s, soon_s)
            over = until_s <= soon_s
            if to_completion and self._finished:
                return (max(now_s, until_s) if over else now_s), self._finished
            if over:
                return until_s, self._finished
            transfers.settle(now_s)
            if self._look:
                self._begin_tasks(now_s)
            if not heap and self._here and not more_come:
                raise transfers.standstill(now_s)
            if not heap or heap[0][0] > last_s:
                return until_s, self._finished
            now_s = max(heap[0][0], now_s)

    def _take_in(self, now_s: float, until_s: float) -> None:
        """Take in all events of an instant."""
        heap = self._heap
        while heap and heap[0][0] <= until_s:
            when_s, _, kind, subject, detail = heappop(heap)
            if kind == TASKS:
                if subject.here:
                    self._end_tasks(subject, detail, now_s)
            elif kind == ASK:
                self._transfers.ask_again(when_s, self.events)
            elif kind == READY:
                if subject.here:
                    self._begin_iteration(subject)
                    self._pass_barriers(subject, now_s)
            elif subject.job.here and subject.stamp == detail:
                if kind == FIRST_BYTE:
                    self._transfers.first_byte(subject, now_s)
                else:
                    self._end_transfer(subject, now_s)
        if self._ended:
            self._add_up()

    def _add_up(self) -> None:
        """Add what has ended GPU by GPU: sums do not depend on which tasks began together."""
        ended = self._ended
        if len(ended) > 1:
            by_gpu = [(job.gpus[at], each_s, job) for job, each_s, some in ended for at in some]
            ended = [(job, each_s, [gpu]) for gpu, each_s, job in sorted(by_gpu)]
        for job, each_s, workers in ended:
            for _ in workers:
                job.computed_s += each_s
        self._ended.clear()

    def _plan(self, when_s: float, kind: int, subject: Any, detail: Any = None) -> None:
        self._count += 1
        heappush(self._heap, (when_s, self._count, kind, subject, detail))

    # ---------------------------------------------------------------- jobs

    def _begin_iteration(self, job: OnGPUs) -> None:
        job.sent = 0
        job.done = [0] * len(job.gpus)
        job.set_key()
        job.lag = len(job.gpus) if job.barrier() else 0
        self._let_workers(job, 0)

    def _let_workers(self, job: OnGPUs, sent: int) -> None:
        """Let workers go on whose next task has waited for so many transfers."""
        needs, key, gpus, ready = job.iteration.needs, job.key, job.gpus, self._ready
        if sent and sent not in needs:
            return
        tasks = len(needs)
        for worker, done in enumerate(job.done):
            if done < tasks and needs[done] == sent:
                ready[gpus[worker]].append((key, worker, job))
        self._look.update(gpus)

    def _pass_barriers(self, job: OnGPUs, now_s: float) -> None:
        """Go on where all workers have come to the next barrier."""
        while not job.lag and job.transfer is None:
            sends = job.iteration.sends
            if job.sent == len(sends):
                job.left -= 1
                if self._timeline is not None:
                    self._timeline.iterated(job.number, now_s)
                if job.left:
                    self._begin_iteration(job)
                    continue
                job.here = False
                self._here -= 1
                self._finished.append((job.number, now_s))
                return
            send = sends[job.sent]
            if send.size and (job.links or math.isfinite(send.most)):
                job.transfer = Transfer(job, send)
                self._transfers.wants(job.transfer, now_s)
                return
            self._sent_one(job)

    def _sent_one(self, job: OnGPUs) -> None:
        job.sent += 1
        job.transfer = None
        job.set_lag()
        self._let_workers(job, job.sent)

    # ---------------------------------------------------------------- GPUs

    def _begin_tasks(self, now_s: float) -> None:
        """Let idle GPUs begin the task of the job whose turn it is; equal ones end as one event."""
        together: dict[tuple[OnGPUs, int], list[int]] = {}
        all_ready, busy = self._ready, self._busy
        for gpu in sorted(self._look):
            ready = all_ready[gpu]
            if not ready or busy[gpu] is not None:
                continue
            first = 0 if len(ready) == 1 else ready.index(min(ready))
            _, worker, job = ready.pop(first)
            busy[gpu] = job
            group = (job, job.done[worker])
            if group in together:
                together[group].append(worker)
            else:
                together[group] = [worker]
        self._look.clear()
        for (job, task), workers in together.items():
            self._plan(now_s + job.iteration.gpu_s[task], TASKS, job, workers)
            if self._timeline is not None:
                for worker in workers:
                    self._timeline.begins(job.number, job.gpus[worker], task, now_s)

    def _end_tasks(self, job: OnGPUs, workers: list[int], now_s: float) -> None:
        """Let workers that began together go on."""
        done, needs, barrier, sent = job.done, job.iteration.needs, job.barrier(), job.sent
        task = done[workers[0]] + 1
        goes_on = task < len(needs) and needs[task] <= sent
        self.events += len(workers)
        self._ended.append((job, job.iteration.gpu_s[task - 1], workers))
        gpus, ready, busy, key = job.gpus, self._ready, self._busy, job.key
        for worker in workers:
            gpu = gpus[worker]
            done[worker] = task
            busy[gpu] = None
            if goes_on:
                ready[gpu].append((key, worker, job))
            if self._timeline is not None:
                self._timeline.ends(job.number, gpu, now_s)
        self._look.update(gpus if len(workers) == len(gpus) else [gpus[at] for at in workers])
        if task == barrier:
            job.lag -= len(workers)
            if not job.lag:
                self._pass_barriers(job, now_s)

    def _end_transfer(self, transfer: Transfer, now_s: float) -> None:
        job = transfer.job
        self.events += 1
        job.moved += transfer.rate * (now_s - transfer.since_s)
        self._transfers.take_off(transfer)
        if self._timeline is not None:
            self._timeline.sent(job.number, now_s)
        self._sent_one(job)
        self._pass_barriers(job, now_s)
