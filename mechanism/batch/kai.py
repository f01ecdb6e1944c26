"""Queues with deserved GPUs, fair shares of the rest, and reclaim, as in the KAI scheduler."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from apportion.annotations import check_fields
from apportion.checks import number, seconds, whole
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.batch.reclaim import QueueRules, ReclaimCycle
from apportion.mechanism.decider import Decider
from apportion.mechanism.job_table import EntityUse
from apportion.mechanism.queue import InQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.mechanism.decider import About


@dataclass(frozen=True)
class FairShareScheduler(Decider):
    """Jobs of the queue that has least of its fair share come first, and take from who has more.

    A queue is an ``entity``; without that column all jobs are in one. Within a queue the highest
    ``priority`` (a column; 0 without it) comes first, then who was submitted first. A job takes the
    fastest type on which it is free; one that finds none takes GPUs from queues above their fair
    shares, while its queue stays within its own, or from jobs of lower priority in its queue.
    Who loses its GPUs waits again in its place, with the steps it has done.

    Parameters
    ----------
    name, source
        In the registry.
    deserved
        GPUs of a queue that it has whenever it asks for them (quota); 0, where not told.
    limits
        The most GPUs that a queue may have; any, where not told.
    over_quota_weights
        The rest is divided in proportion to these; 1, where not told.
    queue_priorities
        Of the rest queues of higher priority have all they ask for first; 0, where not told.
    k_value
        How much less of the rest those get who have had much (time-based fair share); 0: no less.
    half_life_s
        After which half of what was used is forgotten, seconds; infinite for never.
    usage_every_s
        If past use counts and somebody waits, shares are worked out anew so often, seconds.
    non_preemptible_from
        Jobs of this priority and above keep their GPUs, and only run within what their queue
        deserves.
    """

    works_by: ClassVar[tuple[str, ...]] = ("queue",)
    works_how: ClassVar[str] = "gives queues their fair shares, which works by a queue"

    name: str = "kai"
    source: str = ""
    deserved: Mapping[str, int] = field(default_factory=dict, hash=False)
    limits: Mapping[str, int] = field(default_factory=dict, hash=False)
    over_quota_weights: Mapping[str, float] = field(default_factory=dict, hash=False)
    queue_priorities: Mapping[str, float] = field(default_factory=dict, hash=False)
    k_value: float = 0.0
    half_life_s: float = math.inf
    usage_every_s: float = 60.0
    non_preemptible_from: float = 100.0

    def __post_init__(self) -> None:
        check_fields(self)
        for option in ("deserved", "limits"):
            for queue, gpus in getattr(self, option).items():
                whole(f"{option} of queue {written(queue)}", gpus, 0)
        for queue, weight in self.over_quota_weights.items():
            number(f"over_quota_weights of queue {written(queue)}", weight)
        number("k_value", self.k_value)
        seconds("half_life_s", self.half_life_s, strict=True, infinite=True)
        seconds("usage_every_s", self.usage_every_s, strict=True)

    def check_queues(self, queues: Sequence[str]) -> None:
        """Refuse what is said of a queue that has neither jobs nor deserved GPUs.

        Queues without jobs may be told what they deserve: jobs of theirs may come another day.
        """
        known = dict.fromkeys([*queues, *self.deserved])
        for option in ("limits", "over_quota_weights", "queue_priorities"):
            for queue in getattr(self, option):
                if queue not in known:
                    raise unknown_name(f"queue of {option}", queue, known)

    def make(self, about: About) -> InFairShareQueues:
        """Return what serves the jobs of a run."""
        return InFairShareQueues(self, about)


class InFairShareQueues(InQueue):
    """Serves the jobs of a run by fair shares; see `InQueue`."""

    def __init__(self, decider: FairShareScheduler, about: About) -> None:
        super().__init__(decider, about)
        self._told, jobs = decider, about.jobs
        place = jobs.facts.get("entity")
        self._queues = jobs.entities or ("default",)
        decider.check_queues(self._queues)
        self._queue_of = [0] * jobs.jobs if place is None else place.astype(int).tolist()
        self._rules = QueueRules(
            [decider.deserved.get(queue, 0) for queue in self._queues],
            [decider.limits.get(queue, math.inf) for queue in self._queues],
            [decider.queue_priorities.get(queue, 0.0) for queue in self._queues],
            decider.non_preemptible_from,
        )
        priority = jobs.facts.get("priority")
        self._priority: list[float] = (
            [0.0] * jobs.jobs if priority is None else np.nan_to_num(priority).tolist()
        )
        self._use: EntityUse | None = None
        if decider.k_value and place is not None:
            self._use = jobs.entity_use = EntityUse(jobs, decider.half_life_s)
        self._waits = False
        for job in range(jobs.jobs):
            self._check(job)

    def _check(self, job: int) -> None:
        """Refuse a job that its queue can never run."""
        rules, gpus, queue = self._rules, int(self._jobs.scale[job]), self._queue_of[job]
        option, most, deserved = "limits", rules.limits[queue], rules.deserved[queue]
        if self._priority[job] >= rules.non_preemptible_from and deserved < most:
            option, most = "deserved", deserved
        if gpus > most:
            least = f"{rules.non_preemptible_from:g}"
            why = f", and jobs of priority {least} and above run within that only"
            name = written(self._queues[queue])
            raise InputError(
                f"J{self._job(job)[1:]} asks for {gpus} GPUs, and queue {name} has {most:g} by "
                f"{option}{why if option == 'deserved' else ''}: give it more, or less to this job."
            )

    def _wanted(self, now_s: float) -> dict[int, int]:
        """Return the types of those that run from now on."""
        held = {job: kind for job, (kind, _) in self._devices.held.items()}
        active = self._jobs.active.tolist()
        cycle = ReclaimCycle(
            *(self._rules, self._jobs, self._queue_of, self._priority),
            {job: held[job] for job in active if job in held},
            self._shares(active, now_s),
        )
        running = cycle.run()
        self._waits = len(running) < len(active)
        return running

    def _shares(self, active: list[int], now_s: float) -> list[int]:
        """Return the fair shares of the queues, GPUs."""
        told, jobs = self._told, self._jobs
        requested, used = [0] * len(self._queues), [0.0] * len(self._queues)
        for job in active:
            requested[self._queue_of[job]] += int(jobs.scale[job])
        gpus = int(jobs.capacity.sum())
        if self._use is not None and now_s > 0:
            # What all GPUs have been worth since the start, forgotten as use is.
            rate = math.log(2.0) / told.half_life_s
            worth_s = -math.expm1(-rate * now_s) / rate if rate else now_s
            used = (self._use.by_entity(now_s) / (gpus * worth_s)).tolist()
            used += [0.0] * (len(self._queues) - len(used))
        rules = self._rules
        demands = [
            QueueDemand(
                int(min(requested[place], rules.limits[place])),
                rules.deserved[place],
                told.over_quota_weights.get(queue, 1.0),
                rules.priorities[place],
                used[place],
            )
            for place, queue in enumerate(self._queues)
        ]
        return fair_shares(gpus, demands, told.k_value)

    def valid_for_s(self, now_s: float) -> float:
        """Return when shares may have changed by what is used, seconds from now."""
        return self._told.usage_every_s if self._use is not None and self._waits else np.inf


_ROUNDING = 1e-9
"""GPUs: shares are divided again and again, and 2.9999999999 of them are 3."""


class QueueDemand(NamedTuple):
    """What a queue asks for and is entitled to.

    Attributes
    ----------
    requested
        GPUs of its jobs that run or wait, no more than its limit.
    deserved
        GPUs that it has before anything is divided by weights.
    weight
        Of its part of the rest.
    priority
        Queues of higher priority have of the rest what they ask for before others have any.
    used
        Part of all GPU time that it has had.
    """

    requested: int
    deserved: int = 0
    weight: float = 1.0
    priority: float = 0.0
    used: float = 0.0


def fair_shares(gpus: int, demands: Sequence[QueueDemand], k: float = 0.0) -> list[int]:
    """Divide GPUs among queues, as the KAI scheduler does in its documents on fairness.

    Every queue has what it deserves and asks for, which may be more than there is in sum. The rest
    is divided in proportion to max(0, w + k (w - u)), w the weight over those of all that want
    more, u what was used; by priority, in whole GPUs, and again while somebody gets all that it
    asks for. The GPUs that are left of the rounding go one by one to the largest fractions, of
    higher priorities first, of equal ones to who is first.

    Parameters
    ----------
    gpus
        How many there are.
    demands
        Of the queues.
    k
        How much past use matters.

    Returns
    -------
    list of int
        GPUs of each queue.
    """
    shares = [min(each.deserved, each.requested) for each in demands]
    left = gpus - sum(shares)
    fractions: dict[int, float] = {}
    priorities = sorted({each.priority for each in demands}, reverse=True)
    for priority in priorities:
        equal = [place for place, each in enumerate(demands) if each.priority == priority]
        left = _by_weight(left, demands, equal, shares, fractions, k)
    for place in sorted(fractions, key=lambda q: (-demands[q].priority, -fractions[q], q)):
        if left > 0:
            shares[place] += 1
            left -= 1
    return shares


def _by_weight(
    left: int,
    demands: Sequence[QueueDemand],
    queues: Sequence[int],
    shares: list[int],
    fractions: dict[int, float],
    k: float,
) -> int:
    """Give queues of one priority their parts in `shares`; return how many GPUs are left."""
    again = True
    while again and left > 0:
        again, there = False, left
        parts = _parts(demands, [q for q in queues if shares[q] < demands[q].requested], k)
        for queue, part in parts.items():
            ideal, missing = there * part, demands[queue].requested - shares[queue]
            if missing <= ideal + _ROUNDING:
                gets = missing
                again = again or missing < ideal - _ROUNDING
                fractions.pop(queue, None)
            else:
                gets = math.floor(ideal + _ROUNDING)
                if ideal - gets > _ROUNDING:
                    fractions[queue] = round(ideal - gets, 9)
            shares[queue] += gets
            left -= gets
    return left


def _parts(demands: Sequence[QueueDemand], queues: Sequence[int], k: float) -> dict[int, float]:
    """Return which part of a round queues get that want more, 1 in sum, if anybody gets any."""
    weights = sum(demands[queue].weight for queue in queues)
    if not weights:
        return {}
    normal = {queue: demands[queue].weight / weights for queue in queues}
    raw = {q: max(0.0, w + k * (w - demands[q].used)) for q, w in normal.items()}
    total = sum(raw.values())
    return {queue: part / total for queue, part in raw.items() if part > 0}
