"""Who loses GPUs to a queue that has less than its fair share, as Kueue's fair sharing has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.mechanism.batch.evictions import Evictions

if TYPE_CHECKING:
    from collections.abc import Iterable


class FairEvictions(Evictions):
    """Finds out who would have to go for shares to come nearer to each other; see `Evictions`.

    Candidates and their order within a queue are those of the classic preemption. Again and again
    the queue with the largest share loses one, the job's own one a job of lower priority; from
    queues that are within their quotas nobody goes. Shares are with the job in its queue. A job
    that its queue's quota of the type holds takes from others whatever the shares.
    """

    def of(self, job: int, kind: int) -> list[int]:
        """Return who has to go for a job to be admitted on a type; nobody if that is not enough."""
        ledger, queue, gpus = self._ledger, self._ledger.queue_of[job], self._gpus[job]
        if gpus > ledger.nominal[queue][kind] and self._policy.reclaim_within_cohort == "Never":
            return []
        own, others = self._candidates(job, kind)
        gone, put_off = list[int](), list[int]()
        ledger.use(job, kind, gpus)
        enough = self._by_first(job, kind, others + own, gone, put_off)
        if not enough and len(self._policy.fair_sharing) > 1:
            self._by_second(job, kind, put_off, gone)
        ledger.use(job, kind, -gpus)
        return self._needed(job, kind, gone, borrows=True)

    def _by_first(
        self, job: int, kind: int, candidates: list[int], gone: list[int], put_off: list[int]
    ) -> bool:
        """Let go who may by the first strategy, until the job fits; the others are put off."""
        ledger, queue = self._ledger, self._ledger.queue_of[job]
        freely = not ledger.borrows(queue, kind)
        left = self._by_queue(candidates)
        while (other := self._most_above(left, queue)) is not None:
            while left[other]:
                each = left[other].pop(0)
                if freely or other == queue or self._passes(each, kind, queue, other):
                    if self._goes(each, job, kind, gone):
                        return True
                    break  # another queue may have the largest share now
                put_off.append(each)
        return False

    def _by_second(self, job: int, kind: int, candidates: list[int], gone: list[int]) -> None:
        """Let go one more of each queue that had a larger share with it, until the job fits."""
        ledger, queue = self._ledger, self._ledger.queue_of[job]
        left = self._by_queue(candidates)
        while (other := self._most_above(left, queue)) is not None:
            each = left.pop(other)[0]
            if ledger.share(queue) < ledger.share(other) and self._goes(each, job, kind, gone):
                return

    def _passes(self, each: int, kind: int, queue: int, other: int) -> bool:
        """Tell whether the first strategy lets a job of another queue go."""
        ledger = self._ledger
        if self._policy.fair_sharing[0] == "LessThanInitialShare":
            return ledger.share(queue) < ledger.share(other)
        ledger.use(each, kind, -self._gpus[each])
        passes = ledger.share(queue) <= ledger.share(other)
        ledger.use(each, kind, self._gpus[each])
        return passes

    def _goes(self, each: int, job: int, kind: int, gone: list[int]) -> bool:
        """Take GPUs from a job; tell whether the one that asks fits now."""
        ledger, gpus = self._ledger, self._gpus[job]
        ledger.use(each, kind, -self._gpus[each])
        gone.append(each)
        ledger.use(job, kind, -gpus)
        fits = self._fits(job, kind, borrows=True)
        ledger.use(job, kind, gpus)
        return fits

    def _by_queue(self, jobs: Iterable[int]) -> dict[int, list[int]]:
        """Return jobs by their queues, in the order given."""
        found: dict[int, list[int]] = {}
        for each in jobs:
            found.setdefault(self._ledger.queue_of[each], []).append(each)
        return found

    def _most_above(self, left: dict[int, list[int]], queue: int) -> int | None:
        """Return the queue with the largest share that has candidates; another's before one's own.

        Of equal shares that whose first candidate would go first.
        """
        ledger = self._ledger
        asked = [
            each for each, jobs in left.items() if jobs and (each == queue or ledger.above(each))
        ]
        asked.sort(key=lambda each: (each == queue, self._turn(left[each][0])))
        return max(asked, key=ledger.share, default=None)
