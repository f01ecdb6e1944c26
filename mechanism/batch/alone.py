"""When a batch scheduler starts each job of its queue, and nothing else: no steps, no devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from apportion.mechanism.batch.serving import SERVES, Line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.mechanism.batch.scheduler import BatchScheduler


@dataclass(frozen=True)
class QueuedJobs:
    """Jobs by number, in the order in which they are served: that of arrival.

    Attributes
    ----------
    arrival_s
        When each comes, seconds.
    gpus
        Of its gang.
    left_s
        For how long each still has to run, on any of its types.
    limit_s
        For how long it runs at most as its user says, from now on; NaN without that.
    types
        Places of the types on which it can run, the preferred first.
    """

    arrival_s: Sequence[float]
    gpus: Sequence[int]
    left_s: Sequence[float]
    limit_s: Sequence[float]
    types: Sequence[list[int]]


class _Alone:
    """What `Line` asks of a queue, told by lists."""

    def __init__(self, decider: BatchScheduler, jobs: QueuedJobs, capacity: Sequence[int]) -> None:
        self.chooses: str = decider.chooses
        self.depth = decider.depth
        self.whole, self.capacity = decider.gpus_per_reservation, [*capacity]
        self.scale, self.now_s = jobs.gpus, 0.0
        self._types = jobs.types
        said = zip(jobs.limit_s, jobs.left_s, strict=True)
        self.taken_s = [left if math.isnan(limit) else limit for limit, left in said]
        self.ends_s: dict[int, float] = {}

    def types(self, job: int) -> list[int]:
        """Return the types on which a job can run, the preferred first."""
        return self._types[job]

    def start(self, job: int, now_s: float) -> None:
        """Let a job run: until when it is taken to."""
        self.ends_s[job] = now_s + self.taken_s[job]

    def seconds(self, job: int, kind: int) -> float:
        """Return what a job is taken to need from now on."""
        ends_s = self.ends_s.get(job)
        return self.taken_s[job] if ends_s is None else max(ends_s - self.now_s, 0.0)


def starts_alone(
    decider: BatchScheduler,
    jobs: QueuedJobs,
    capacity: Sequence[int],
    now_s: float,
    running: Mapping[int, int],
    asked: int,
) -> list[float]:
    """Return when each of the first jobs starts: as `simulate` has it, without its record.

    For schedulers that are a `BatchScheduler` without an order of their own, whose jobs start
    without cost, where no network and no placement makes a gang slower or wait. Times are equal to
    the last digit if they are whole seconds; otherwise they differ by rounding errors.

    Parameters
    ----------
    decider
        Serves the queue.
    jobs
        Who runs and waits, and who comes later.
    capacity
        GPUs of each type.
    now_s
        When the run begins, seconds.
    running
        The types of the jobs that run.
    asked
        How many of the jobs are asked about; the others are in their way. It is over when all
        of them have started.

    Returns
    -------
    list of float
        The first `asked` starts, seconds; `now_s` for those that run, infinite for never.
    """
    serves, queue = SERVES[decider.backfill], _Alone(decider, jobs, capacity)
    starts = [math.inf] * len(jobs.gpus)
    ends: list[tuple[float, int]] = []
    on: dict[int, int] = {}

    def start(job: int, kind: int) -> None:
        starts[job], on[job] = now_s, kind
        queue.start(job, now_s)
        heappush(ends, (now_s + jobs.left_s[job], job))

    for job, kind in running.items():
        start(job, kind)
    waiting, comes, count = list[int](), 0, len(jobs.gpus)
    left = asked - len(running)
    while True:
        while comes < count and jobs.arrival_s[comes] <= now_s:
            if comes not in running:
                waiting.append(comes)
            comes += 1
        queue.now_s = now_s
        served = dict(serves(Line(queue, now_s, on, waiting))) if waiting else {}
        for job, kind in served.items():
            start(job, kind)
            left -= job < asked
        if served:
            waiting = [job for job in waiting if job not in served]
        if not left:
            return starts[:asked]
        next_s = jobs.arrival_s[comes] if comes < count else math.inf
        now_s = min(ends[0][0] if ends else math.inf, next_s)
        if now_s == math.inf:
            return starts[:asked]
        while ends and ends[0][0] <= now_s:
            del on[heappop(ends)[1]]
