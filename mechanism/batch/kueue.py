"""Quotas, borrowing and eviction: jobs are admitted to cluster queues, as Kueue does it."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from apportion.annotations import check_fields
from apportion.errors import InputError, written
from apportion.mechanism.batch.cluster_queues import ClusterQueues
from apportion.mechanism.batch.evictions import Evictions, FairEvictions, QuotaEvictions
from apportion.mechanism.decider import Decider
from apportion.mechanism.queue import InQueue

if TYPE_CHECKING:
    from apportion.mechanism.batch.cluster_queues import QuotaLedger
    from apportion.mechanism.decider import About


@dataclass(frozen=True)
class QuotaScheduler(Decider):
    """Jobs are admitted within quotas of their queue, and what other queues of its cohort lend.

    A job is admitted on one type, which it keeps until it is done or evicted; who is evicted waits
    again in its place, with the steps it has done. Order within a queue: the highest ``priority``
    (a column of the jobs table; 0 without it), then who was submitted first.

    Parameters
    ----------
    name, source
        In the registry.
    queues
        Quotas and limits.
    evictions
        Who may lose GPUs to whom; by default nobody.
    when_can_borrow
        Types are tried the fastest first. ``"Borrow"``: the first on which the job can be admitted
        is taken. ``"TryNextFlavor"``: the first on which it can be without borrowing, or, if there
        is none, the first.
    """

    works_by: ClassVar[tuple[str, ...]] = ("queue",)
    works_how: ClassVar[str] = "admits jobs to queues with quotas, which works by a queue"

    name: str = "kueue"
    source: str = ""
    queues: ClusterQueues = field(default_factory=ClusterQueues)
    evictions: QuotaEvictions = field(default_factory=QuotaEvictions)
    when_can_borrow: Literal["Borrow", "TryNextFlavor"] = "Borrow"

    def __post_init__(self) -> None:
        check_fields(self)

    def make(self, about: About) -> InClusterQueues:
        """Return what admits the jobs of a run."""
        return InClusterQueues(self, about)


class InClusterQueues(InQueue):
    """Admits the jobs of a run; see `InQueue`."""

    def __init__(self, decider: QuotaScheduler, about: About) -> None:
        super().__init__(decider, about)
        self.decider, self.jobs = decider, about.jobs
        decider.queues.ledger(about.jobs)  # what cannot be is refused before anything runs
        self._admitted_s: dict[int, float] = {}

    def _wanted(self, now_s: float) -> dict[int, int]:
        """Return the types of those that run from now on."""
        held = {job: kind for job, (kind, _) in self._devices.held.items()}
        before = {job: held[job] for job in self._jobs.active.tolist() if job in held}
        since_s = {job: self._admitted_s.get(job, -np.inf) for job in before}
        running = _Admission(self, before, since_s, now_s).cycles()
        self._admitted_s = {
            job: since_s[job] if before.get(job) == kind else now_s for job, kind in running.items()
        }
        return running

    def options(self, job: int, ledger: QuotaLedger) -> list[int]:
        """Return the types on which a job can be admitted at all, the fastest first.

        Raises
        ------
        InputError
            If there is none.
        """
        jobs, queue = self._jobs, ledger.queue_of[job]
        gpus, kinds = int(jobs.scale[job]), jobs.fastest_first(job)
        found = [each for each in kinds if gpus <= ledger.largest(queue, each)]
        if not found:
            most = ", ".join(
                f"{ledger.largest(queue, each):g} of {written(jobs.accelerators[each])}"
                for each in kinds
            )
            raise InputError(
                f"J{self._job(job)[1:]} asks for {gpus} GPUs, and queue "
                f"{written(ledger.queues[queue])} has {most or 'no type it runs on'} at most: give "
                f"it larger quotas or a cohort to borrow from, or less to this job."
            )
        return found


class _Entry(NamedTuple):
    """A way to admit a job."""

    borrows: bool
    turn: tuple[float, int]
    kind: int
    evicts: tuple[int, ...]

    @property
    def job(self) -> int:
        return self.turn[1]


class _Admission:
    """What happens at a moment, in cycles that may admit the first of each queue."""

    def __init__(
        self, run: InClusterQueues, running: dict[int, int], since_s: dict[int, float], now_s: float
    ) -> None:
        decider, jobs = run.decider, run.jobs
        self._run, self._decider, self._now_s = run, decider, now_s
        self._ledger = decider.queues.ledger(jobs)
        self._gpus: list[int] = jobs.scale.tolist()
        priority = jobs.facts.get("priority")
        self._priority: list[float] = (
            [0.0] * jobs.jobs if priority is None else np.nan_to_num(priority).tolist()
        )
        self._running, self._since_s = dict(running), dict(since_s)
        for job, kind in running.items():
            self._ledger.use(job, kind, self._gpus[job])
        self._waiting: list[list[tuple[float, int]]] = [[] for _ in self._ledger.queues]
        for job in jobs.active.tolist():
            if job not in running:
                self._waits(job)
        self._options = {
            job: run.options(job, self._ledger) for queue in self._waiting for _, job in queue
        }
        fair = bool(decider.evictions.fair_sharing)
        self._turn_of = self._fair_turn if fair else tuple
        self._evictions = (FairEvictions if fair else Evictions)(
            *(decider.evictions, self._ledger, self._gpus, self._priority),
            *(self._running, self._since_s),
        )
        self._evicted: set[int] = set()
        # Of each queue, how many of the first have been tried in vain.
        self._passed = [0] * len(self._waiting)

    def cycles(self) -> dict[int, int]:
        """Admit whoever can be, and return the types of those that run then."""
        while True:
            heads = [
                queue[passed][1]
                for queue, passed in zip(self._waiting, self._passed, strict=True)
                if passed < len(queue)
            ]
            if not heads:
                return self._running
            entries = []
            for job in heads:
                entry = self._entry(job)
                if entry is None:
                    self._pass(self._ledger.queue_of[job])
                else:
                    entries.append(entry)
            while entries:  # shares change with every job that is admitted
                entry = min(entries, key=self._turn_of)
                entries.remove(entry)
                self._admit(entry)

    def _fair_turn(self, entry: _Entry) -> tuple[object, ...]:
        """Return what orders ways under fair sharing: the share of the queue with the job."""
        ledger, job, kind = self._ledger, entry.job, entry.kind
        queue, gpus = ledger.queue_of[job], self._gpus[job]
        ledger.use(job, kind, gpus)
        turn = (ledger.borrows(queue, kind), ledger.share(queue), entry.turn)
        ledger.use(job, kind, -gpus)
        return turn

    def _waits(self, job: int) -> None:
        insort(self._waiting[self._ledger.queue_of[job]], (-self._priority[job], job))

    def _pass(self, queue: int) -> None:
        """Try the next of a queue, or nobody of it, until somebody is evicted."""
        if self._decider.queues.strict(self._ledger.queues[queue]):
            self._passed[queue] = len(self._waiting[queue])
        else:
            self._passed[queue] += 1

    def _entry(self, job: int) -> _Entry | None:
        """Return how a job can be admitted now."""
        ledger, gpus, queue = self._ledger, self._gpus[job], self._ledger.queue_of[job]
        turn, borrowed = (-self._priority[job], job), None
        for kind in self._options[job]:
            if gpus > ledger.available(queue, kind):
                continue
            entry = _Entry(ledger.borrows(queue, kind, gpus), turn, kind, ())
            if not entry.borrows or self._decider.when_can_borrow == "Borrow":
                return entry
            borrowed = borrowed or entry
        if borrowed is not None or job in self._evicted or not self._decider.evictions.any:
            return borrowed
        for kind in self._options[job]:
            evicts = self._evictions.of(job, kind)
            if evicts:
                return _Entry(ledger.borrows(queue, kind, gpus), turn, kind, tuple(evicts))
        return None

    def _admit(self, entry: _Entry) -> None:
        """Admit a job, unless those before it in this cycle have left no room for it."""
        job, kind, ledger = entry.job, entry.kind, self._ledger
        if any(self._running.get(each) != kind for each in entry.evicts):
            return
        for each in entry.evicts:
            ledger.use(each, kind, -self._gpus[each])
        queue = ledger.queue_of[job]
        if self._gpus[job] > ledger.available(queue, kind):
            for each in entry.evicts:
                ledger.use(each, kind, self._gpus[each])
            return
        self._waiting[queue].remove(entry.turn)
        self._running[job], self._since_s[job] = kind, self._now_s
        ledger.use(job, kind, self._gpus[job])
        for each in entry.evicts:
            del self._running[each]
            self._evicted.add(each)
            self._waits(each)
            self._options[each] = self._run.options(each, ledger)
        if entry.evicts:
            self._passed = [0] * len(self._waiting)
