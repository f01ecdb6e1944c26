"""Who starts and who loses its GPUs at a moment, when queues have fair shares."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from apportion.mechanism.job_table import JobTable

_NOTHING = 1e12
"""One over the share of a queue that may have nothing: behind all others, if it has any."""


class QueueRules(NamedTuple):
    """What is told of the queues; of each one value, in the same order.

    Attributes
    ----------
    deserved, limits
        GPUs; a limit may be infinite.
    priorities
        Of the queues.
    non_preemptible_from
        From which priority on jobs keep their GPUs and run within what is deserved only.
    """

    deserved: Sequence[int]
    limits: Sequence[float]
    priorities: Sequence[float]
    non_preemptible_from: float


class ReclaimCycle:
    """One moment of the KAI scheduler: allocate, reclaim and preempt, until nothing changes.

    Who is evicted takes GPUs from nobody at the same moment.

    Parameters
    ----------
    told
        Of the queues.
    jobs
        What is known of the jobs.
    queue_of, priority
        Of the jobs, by number.
    running
        Type of each job that runs.
    shares
        Fair shares of the queues, GPUs.

    Attributes
    ----------
    evicted
        Who has lost GPUs at this moment.
    """

    def __init__(
        self,
        told: QueueRules,
        jobs: JobTable,
        queue_of: Sequence[int],
        priority: Sequence[float],
        running: dict[int, int],
        shares: Sequence[int],
    ) -> None:
        self._queue_of, self._priority, self._running = queue_of, priority, running
        self._jobs, self._gpus, self._shares = jobs, jobs.scale.tolist(), shares
        self._free = jobs.capacity.astype(int).tolist()
        self._fixed_from = told.non_preemptible_from
        self._deserved, self._limit = told.deserved, told.limits
        self._rank = [-priority for priority in told.priorities]
        self._may_have = [
            min(most, max(deserved, share))
            for most, deserved, share in zip(self._limit, self._deserved, shares, strict=True)
        ]
        self._has, self._has_fixed = [0] * len(shares), [0] * len(shares)
        for job, kind in running.items():
            self._count(job, kind, 1)
        self._waiting: list[list[tuple[float, int]]] = [[] for _ in shares]
        for job in jobs.active.tolist():
            if job not in running:
                insort(self._waiting[queue_of[job]], (-priority[job], job))
        self.evicted: set[int] = set()

    def run(self) -> dict[int, int]:
        """Return the type of each job that runs then."""
        self._allocate()
        while self._take(self._reclaimed) or self._take(self._preempted):
            self._allocate()
        return self._running

    def _allocate(self) -> None:
        """Start whoever is free to, in turn."""
        for job in self._in_turn():
            gpus, types = self._gpus[job], self._jobs.fastest_first(job)
            kinds = [kind for kind in types if gpus <= self._free[kind]]
            if kinds and self._within(job, gpus):
                self._start(job, kinds[0])

    def _take(self, victims: Callable[[int, int], list[int]]) -> bool:
        """Start jobs that others make room for; tell whether there was any."""
        any_yet = False
        for job in self._in_turn():
            if job in self.evicted:
                continue
            for kind in self._jobs.fastest_first(job):
                gone = victims(job, kind)
                if gone:
                    for each in gone:
                        self._stop(each)
                    self._start(job, kind)
                    any_yet = True
                    break
        return any_yet

    def _in_turn(self) -> Iterator[int]:
        """Go through waiting jobs, each time the first of the queue that comes first then."""
        queued = [list(queue) for queue in self._waiting]
        while any(queued):
            heads = [each[0][1] for each in queued if each]
            job = min(heads, key=lambda each: self._order(self._queue_of[each], self._gpus[each]))
            queued[self._queue_of[job]].pop(0)
            yield job

    def _order(self, queue: int, more: int, fewer: int = 0) -> tuple[float, ...]:
        """Return what orders queues, with more GPUs for the job that asks, or fewer by who goes."""
        has, may_have = self._has[queue] - fewer, self._may_have[queue]
        fraction = [n / may_have if may_have else n * _NOTHING for n in (has + more, has)]
        return (
            *(has > self._shares[queue], has + more > self._deserved[queue], self._rank[queue]),
            *(fraction[0], fraction[1], may_have, queue),
        )

    def _reclaimed(self, job: int, kind: int) -> list[int]:
        """Return who of other queues goes for a job whose queue then has its fair share at most."""
        queue, gpus = self._queue_of[job], self._gpus[job]
        has = self._has[queue] + gpus
        if has > self._shares[queue] or not self._within(job, gpus):
            return []
        gone, fewer = list[int](), [0] * len(self._has)
        left = [each for each in self._victims(kind) if self._queue_of[each] != queue]
        while self._free[kind] + sum(self._gpus[each] for each in gone) < gpus:
            may = [each for each in left if self._above(self._queue_of[each], fewer, queue, has)]
            if not may:
                return []
            place = self._queue_of
            most = max({place[each] for each in may}, key=lambda q: self._order(q, 0, fewer[q]))
            each = next(each for each in may if place[each] == most)
            left.remove(each)
            gone.append(each)
            fewer[most] += self._gpus[each]
        return self._needed(job, kind, gone)

    def _above(self, other: int, fewer: list[int], queue: int, has: int) -> bool:
        """Tell whether a queue is above its fair share, or its quota if the other is within it."""
        left = self._has[other] - fewer[other]
        guaranteed = has <= self._deserved[queue] and left > self._deserved[other]
        return left > self._may_have[other] or guaranteed

    def _preempted(self, job: int, kind: int) -> list[int]:
        """Return who of lower priority in its queue goes for a job."""
        queue, gpus = self._queue_of[job], self._gpus[job]
        gone, freed = list[int](), 0
        for each in self._victims(kind):
            if self._queue_of[each] == queue and self._priority[each] < self._priority[job]:
                gone.append(each)
                freed += self._gpus[each]
                if gpus <= self._free[kind] + freed and self._within(job, gpus, freed):
                    return self._needed(job, kind, gone)
        return []

    def _needed(self, job: int, kind: int, gone: list[int]) -> list[int]:
        """Leave out who need not go."""
        needed, gpus, queue = list(gone), self._gpus[job], self._queue_of[job]
        for each in gone[::-1]:
            stay = [other for other in needed if other != each]
            freed = sum(self._gpus[other] for other in stay)
            own = sum(self._gpus[other] for other in stay if self._queue_of[other] == queue)
            if gpus <= self._free[kind] + freed and self._within(job, gpus, own):
                needed = stay
        return needed

    def _victims(self, kind: int) -> list[int]:
        """Return who may lose its GPUs of a type: lowest priority first, then submitted last."""
        every = [
            job
            for job, on in self._running.items()
            if on == kind and self._priority[job] < self._fixed_from
        ]
        return sorted(every, key=lambda job: (self._priority[job], -job))

    def _within(self, job: int, gpus: int, fewer: int = 0) -> bool:
        """Tell whether a queue may have so many more: within its limit, fixed ones in its quota."""
        queue = self._queue_of[job]
        fixed = self._priority[job] >= self._fixed_from
        return self._has[queue] - fewer + gpus <= self._limit[queue] and not (
            fixed and self._has_fixed[queue] + gpus > self._deserved[queue]
        )

    def _start(self, job: int, kind: int) -> None:
        self._waiting[self._queue_of[job]].remove((-self._priority[job], job))
        self._running[job] = kind
        self._count(job, kind, 1)

    def _stop(self, job: int) -> None:
        self._count(job, self._running.pop(job), -1)
        self.evicted.add(job)
        insort(self._waiting[self._queue_of[job]], (-self._priority[job], job))

    def _count(self, job: int, kind: int, sign: int) -> None:
        queue, gpus = self._queue_of[job], sign * self._gpus[job]
        self._has[queue] += gpus
        self._free[kind] -= gpus
        if self._priority[job] >= self._fixed_from:
            self._has_fixed[queue] += gpus
