"""Quotas of queues by GPU type, lent within cohorts, as Kueue's cluster queues have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from apportion.annotations import check_fields
from apportion.checks import number, whole
from apportion.errors import InputError, unknown_name, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.job_table import JobTable

_NO_LIMIT = float("inf")


@dataclass(frozen=True)
class ClusterQueues:
    """Whose quotas jobs count against, and what of them queues borrow from each other.

    Parameters
    ----------
    column
        Of the jobs table: names the queue of each job. Without a column ``entity`` all jobs are in
        one queue.
    quotas
        Nominal GPUs by queue and type. Types that are not told are not for that queue. ``None``:
        every queue has an equal part of every type, and the first by name one more of what is left.
    borrowing_limits
        By queue and type, how many GPUs above its quota it may use; any, where not told.
    lending_limits
        By queue and type, how many GPUs of its quota others may use; all, where not told.
    cohorts
        Name of the cohort of each queue, within which it borrows and lends; who is not told is by
        itself. ``None``: all are in one.
    strategy
        ``"StrictFIFO"``: the first of a queue that cannot be admitted keeps the others from it.
        ``"BestEffortFIFO"``: it is passed over. By queue, or one for all; ``"BestEffortFIFO"`` for
        queues that are not told.
    fair_weights
        By queue: its share under fair sharing is divided by that; 1, where not told.
    """

    column: str = "entity"
    quotas: Mapping[str, Mapping[str, int]] | None = field(default=None, hash=False)
    borrowing_limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    lending_limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    cohorts: Mapping[str, str] | None = field(default=None, hash=False)
    strategy: (
        Literal["StrictFIFO", "BestEffortFIFO"]
        | Mapping[str, Literal["StrictFIFO", "BestEffortFIFO"]]
    ) = field(default="BestEffortFIFO", hash=False)
    fair_weights: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_fields(self)
        for queue, weight in self.fair_weights.items():
            number(f"fair_weights of queue {written(queue)}", weight)
        for option in ("quotas", "borrowing_limits", "lending_limits"):
            for queue, by_type in (getattr(self, option) or {}).items():
                for kind, gpus in by_type.items():
                    whole(f"{option} of queue {written(queue)} on {written(kind)}", gpus, 0)

    def strict(self, queue: str) -> bool:
        """Tell whether nobody in a queue passes the first that cannot be admitted."""
        told = self.strategy
        return (told.get(queue) if isinstance(told, Mapping) else told) == "StrictFIFO"

    def ledger(self, jobs: JobTable) -> QuotaLedger:
        """Return the quotas of the queues that the jobs are in, nothing of them used.

        Raises
        ------
        InputError
            For a column, queue or type that there is not, and quotas above what the cluster has.
        """
        queue_of, names = self._members(jobs)
        types = list(jobs.accelerators)
        capacity = dict(zip(types, jobs.capacity.astype(int).tolist(), strict=True))
        quotas = _equal(sorted(set(names)), capacity) if self.quotas is None else self.quotas
        for name in names:
            if name not in quotas:
                raise unknown_name("queue, of which quotas tell nothing:", name, quotas)
        every = sorted(quotas)
        for option in ("borrowing_limits", "lending_limits", "strategy", "fair_weights"):
            told = getattr(self, option)
            for queue in told if isinstance(told, Mapping) else ():
                if queue not in quotas:
                    raise unknown_name(f"queue of {option}", queue, every)
                if isinstance(told[queue], Mapping):
                    _check_types(f"{option} of queue {written(queue)}", told[queue], types)
        for queue in every:
            _check_types(f"quotas of queue {written(queue)}", quotas[queue], types)
        for kind, most in capacity.items():
            told = sum(quotas[queue].get(kind, 0) for queue in every)
            if told > most:
                raise InputError(
                    f"Quotas on {written(kind)} are {told} GPUs in all, of queues "
                    f"{', '.join(map(written, every))}; the cluster has {most}."
                )
        place = np.array([every.index(name) for name in names], dtype=np.intp)
        return QuotaLedger(self, every, place[queue_of].tolist(), types, quotas)

    def _members(self, jobs: JobTable) -> tuple[np.ndarray, list[str]]:
        """Return the place of the queue of each job, and what these queues are called."""
        values = jobs.facts.get(self.column)
        if values is None:
            if self.column != "entity":
                raise unknown_name("column of queues", self.column, jobs.facts)
            return np.zeros(jobs.jobs, dtype=np.intp), ["default"]
        if self.column in jobs.texts:
            return np.asarray(values, dtype=np.intp), list(jobs.texts[self.column])
        numbers, place = np.unique(values, return_inverse=True)
        return place, [f"{each:g}" for each in numbers.tolist()]


def _equal(queues: list[str], capacity: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return equal parts of each type; the first queues have one GPU more, while any is left."""
    most = {kind: divmod(gpus, max(len(queues), 1)) for kind, gpus in capacity.items()}
    return {
        queue: {kind: part + (place < left) for kind, (part, left) in most.items()}
        for place, queue in enumerate(queues)
    }


def _check_types(what: str, by_type: Mapping[str, int], types: Sequence[str]) -> None:
    for kind in by_type:
        if kind not in types:
            raise unknown_name(f"type in {what}:", kind, types)


class QuotaLedger:
    """What is used of the quotas, and what a queue may have of them now.

    A queue keeps for itself what it does not lend; the rest of its quota is the cohort's. All
    places are of queues, in order of their names, and of types.

    Attributes
    ----------
    queues
        Names.
    queue_of
        Place of the queue of each job, length (jobs,).
    nominal, used
        GPUs by queue and type; nominal is -1 for types that are not for a queue.
    """

    def __init__(
        self,
        told: ClusterQueues,
        queues: Sequence[str],
        queue_of: Sequence[int],
        types: Sequence[str],
        quotas: Mapping[str, Mapping[str, int]],
    ) -> None:
        self.queues, self.queue_of = queues, queue_of
        self.nominal = [[quotas[queue].get(kind, -1) for kind in types] for queue in queues]
        self.used = [[0] * len(types) for _ in queues]
        borrows, lends = told.borrowing_limits, told.lending_limits
        self._limit = [
            [borrows.get(queue, {}).get(kind, _NO_LIMIT) for kind in types] for queue in queues
        ]
        lent = [[lends.get(queue, {}).get(kind, _NO_LIMIT) for kind in types] for queue in queues]
        self._own = [
            [max(quota - most, 0) for quota, most in zip(row, limits, strict=True)]
            for row, limits in zip(self.nominal, lent, strict=True)
        ]
        # Who is told no cohort has one of its own, whatever others call theirs.
        told_of = dict.fromkeys(queues, "") if told.cohorts is None else told.cohorts
        names = [(queue in told_of, told_of.get(queue, queue)) for queue in queues]
        self._with = [[other for other, name in enumerate(names) if name == own] for own in names]
        self._weight = [told.fair_weights.get(queue, 1.0) for queue in queues]
        lends_all = [
            sum(max(quota, 0) - own for quota, own in zip(*rows, strict=True))
            for rows in zip(self.nominal, self._own, strict=True)
        ]
        self._lendable = [sum(lends_all[each] for each in others) for others in self._with]

    def cohort(self, queue: int) -> list[int]:
        """Return the queues of the cohort of a queue, itself included."""
        return self._with[queue]

    def use(self, job: int, kind: int, gpus: int) -> None:
        """Count GPUs of a job; negative for those that it gives back."""
        self.used[self.queue_of[job]][kind] += gpus

    def borrows(self, queue: int, kind: int, more: int = 0) -> bool:
        """Tell whether a queue is above its quota of a type, or would be with more GPUs."""
        return self.used[queue][kind] + more > max(self.nominal[queue][kind], 0)

    def above(self, queue: int) -> int:
        """Return how many GPUs a queue has above its quotas, of all types."""
        rows = zip(self.used[queue], self.nominal[queue], strict=True)
        return sum(max(used - max(nominal, 0), 0) for used, nominal in rows)

    def share(self, queue: int) -> tuple[bool, float]:
        """Return the share of a queue, of which the larger of two has had more than is fair.

        GPUs above its quotas over all that queues of its cohort lend, over its weight: Kueue's
        dominant resource share with GPUs as the only resource (KEP 1714). A queue of weight 0 is
        behind all others once it borrows; what is in front tells that.
        """
        lendable, weight = self._lendable[queue], self._weight[queue]
        ratio = self.above(queue) / lendable if lendable else 0.0
        return (weight == 0 and ratio > 0, ratio / weight if weight else ratio)

    def available(self, queue: int, kind: int) -> float:
        """Return how many more GPUs of a type a queue may have now; below 0 if it has too many."""
        every = [(self._own[each][kind], self.used[each][kind]) for each in self._with[queue]]
        in_cohort = sum(max(used - own, 0) for own, used in every)
        return self._room(queue, kind, in_cohort, self.used[queue][kind])

    def largest(self, queue: int, kind: int) -> float:
        """Return how many GPUs of a type a queue may have while the others have none."""
        return self._room(queue, kind, 0, 0)

    def _room(self, queue: int, kind: int, in_cohort: float, used: int) -> float:
        nominal = self.nominal[queue][kind]
        if nominal < 0:
            return 0
        own = self._own[queue][kind]
        lent = sum(
            max(self.nominal[each][kind], 0) - self._own[each][kind] for each in self._with[queue]
        )
        room = max(own - used, 0) + lent - in_cohort
        return min(room, nominal + self._limit[queue][kind] - used)
