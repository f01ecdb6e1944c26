"""Who loses GPUs to a job that is not admitted otherwise, as in Kueue's classic preemption.

Or to a queue that has less than its fair share, as Kueue's fair sharing has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from apportion.annotations import check_fields
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.mechanism.batch.cluster_queues import QuotaLedger


@dataclass(frozen=True)
class QuotaEvictions:
    """Whom a job may take GPUs from that cannot be admitted otherwise.

    It asks for no more than the quota of its queue, unless it may borrow or shares are fair.

    Parameters
    ----------
    within_cluster_queue
        Of its own queue: nobody, jobs of lower priority, or these and jobs of the same priority
        that were submitted later.
    reclaim_within_cohort
        Of queues of its cohort that are above their quota: nobody, jobs of lower priority, or any.
    borrow_within_cohort
        ``"LowerPriority"``: such jobs of lower priority may go even if its queue then borrows.
    max_priority_threshold
        Only jobs of no more than this priority go for a queue that then borrows; ``None``: any.
    fair_sharing
        Strategies of Kueue's fair sharing, which admits first whose queue has the smallest share
        with it, and evicts from the queue with the largest. Others' jobs go if the share of the
        job's queue, with it, is ``"LessThanOrEqualToFinalShare"`` of theirs, without the one that
        goes, or ``"LessThanInitialShare"``, with it. Empty: no fair sharing. Of two the second is
        asked where the first is not enough.
    """

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    borrow_within_cohort: Literal["Never", "LowerPriority"] = "Never"
    max_priority_threshold: float | None = None
    fair_sharing: tuple[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"], ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "fair_sharing", tuple(self.fair_sharing))
        if self.fair_sharing[1:] not in ((), ("LessThanInitialShare",)) or (
            len(set(self.fair_sharing)) < len(self.fair_sharing)
        ):
            raise InputError(
                f"fair_sharing is {list(self.fair_sharing)}; valid: either strategy, or "
                f"LessThanOrEqualToFinalShare before LessThanInitialShare."
            )
        borrows = self.borrow_within_cohort != "Never"
        if borrows and (self.fair_sharing or self.reclaim_within_cohort == "Never"):
            raise InputError(
                "borrow_within_cohort is about jobs that reclaim_within_cohort lets go, without "
                f"fair sharing; reclaim_within_cohort is {self.reclaim_within_cohort!r} and "
                f"fair_sharing {list(self.fair_sharing)}."
            )
        if self.max_priority_threshold is not None and not borrows:
            raise InputError(
                "max_priority_threshold is about borrow_within_cohort, which is 'Never'; valid: "
                "'LowerPriority'."
            )

    @property
    def any(self) -> bool:
        """Whether anyone may lose anything."""
        return (self.within_cluster_queue, self.reclaim_within_cohort) != ("Never", "Never")


class Evictions:
    """Finds out at a moment who would have to go.

    Parameters
    ----------
    policy
        Whom jobs may take GPUs from.
    ledger
        Quotas and use; as before when a question is answered.
    gpus, priority
        Of jobs, by number.
    running
        Type of each job that runs.
    admitted_s
        Since when.
    """

    def __init__(
        self,
        policy: QuotaEvictions,
        ledger: QuotaLedger,
        gpus: Sequence[int],
        priority: Sequence[float],
        running: Mapping[int, int],
        admitted_s: Mapping[int, float],
    ) -> None:
        self._policy, self._ledger, self._gpus = policy, ledger, gpus
        self._priority, self._running, self._admitted_s = priority, running, admitted_s

    def of(self, job: int, kind: int) -> list[int]:
        """Return who has to go for a job to be admitted on a type; nobody if that is not enough."""
        ledger, queue, gpus = self._ledger, self._ledger.queue_of[job], self._gpus[job]
        nominal, used = ledger.nominal[queue][kind], ledger.used[queue][kind]
        may_borrow = self._policy.borrow_within_cohort != "Never"
        if gpus > nominal and not may_borrow:
            return []
        own, others = self._candidates(job, kind)
        ways = [(own, True)]
        if others and used + gpus <= nominal:
            ways = [(others + own, True)]
        elif may_borrow:
            low = [each for each in others if self._below_threshold(each, job)]
            ways = [(low + own, True), (others + own, False)]
        elif others and used < nominal:
            ways = [(others + own, False), *ways]
        for candidates, borrows in ways:
            found = self._least(job, kind, candidates, borrows=borrows)
            if found:
                return found
        return []

    def _below_threshold(self, other: int, job: int) -> bool:
        """Tell whether a job of another queue goes even if the job's own queue then borrows."""
        most, priority = self._policy.max_priority_threshold, self._priority[other]
        return priority < self._priority[job] and (most is None or priority <= most)

    def _candidates(self, job: int, kind: int) -> tuple[list[int], list[int]]:
        """Return whom it may evict, of its queue and of others; the first to go in front."""
        ledger, policy, priority = self._ledger, self._policy, self._priority
        queue, own, others = ledger.queue_of[job], [], []
        for each, on in self._running.items():
            if on != kind:
                continue
            lower = priority[each] < priority[job]
            if ledger.queue_of[each] == queue:
                newer = priority[each] == priority[job] and each > job
                how = policy.within_cluster_queue
                if (lower and how != "Never") or (newer and how == "LowerOrNewerEqualPriority"):
                    own.append(each)
            elif (
                (policy.reclaim_within_cohort == "Any")
                or (lower and policy.reclaim_within_cohort == "LowerPriority")
            ) and self._lends(ledger.queue_of[each], queue, kind):
                others.append(each)
        return sorted(own, key=self._turn), sorted(others, key=self._turn)

    def _lends(self, other: int, queue: int, kind: int) -> bool:
        """Tell whether another queue is above its quota, in the same cohort."""
        return other in self._ledger.cohort(queue) and self._ledger.borrows(other, kind)

    def _turn(self, job: int) -> tuple[float, float, int]:
        """Return what orders candidates: lowest priority, then who was admitted last."""
        return self._priority[job], -self._admitted_s[job], -job

    def _least(self, job: int, kind: int, candidates: list[int], *, borrows: bool) -> list[int]:
        """Take candidates in turn until the job fits, and leave those that are not needed."""
        ledger, gone = self._ledger, list[int]()
        queue = ledger.queue_of[job]
        for each in candidates:
            theirs = ledger.queue_of[each]
            if theirs != queue and not ledger.borrows(theirs, kind):
                continue
            ledger.use(each, kind, -self._gpus[each])
            gone.append(each)
            if self._fits(job, kind, borrows=borrows):
                break
        return self._needed(job, kind, gone, borrows=borrows)

    def _needed(self, job: int, kind: int, gone: list[int], *, borrows: bool) -> list[int]:
        """Give all back who went, and return those without whom the job does not fit."""
        ledger = self._ledger
        fits = bool(gone) and self._fits(job, kind, borrows=borrows)
        needed = gone if fits else []
        for each in gone[::-1]:
            ledger.use(each, kind, self._gpus[each])
            if fits and self._fits(job, kind, borrows=borrows):
                needed = [other for other in needed if other != each]
            elif fits:
                ledger.use(each, kind, -self._gpus[each])
        if not fits:
            return []
        for each in needed:
            ledger.use(each, kind, self._gpus[each])
        return needed

    def _fits(self, job: int, kind: int, *, borrows: bool) -> bool:
        queue, gpus = self._ledger.queue_of[job], self._gpus[job]
        if not borrows and self._ledger.borrows(queue, kind, gpus):
            return False
        return gpus <= self._ledger.available(queue, kind)


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
