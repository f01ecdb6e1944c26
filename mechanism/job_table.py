"""What a scheduler is told of the jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.scheduler import GangProgress
    from apportion.types import Floats, Ints


Number = TypeVar("Number", bound=np.generic)


def read_only(values: NDArray[Number]) -> NDArray[Number]:
    """Return a view that always shows the values as they are, and through which none is written."""
    view = values.view()
    view.flags.writeable = False
    return view


@dataclass(eq=False)
class JobTable:
    """Entries by number of the job, in order of arrival; to be read, never written, by schedulers.

    It has room for all jobs of a run, but only entries of jobs that have arrived mean anything to
    a scheduler. Whoever runs the jobs keeps `active`, `remaining`, `isolated_s` and `held_s` up to
    date: at a decision they are those of that moment. In a simulation numpy refuses to write to its
    arrays: a scheduler that wants other values takes a copy.

    Attributes
    ----------
    job_type
        What each job trains, length (jobs,).
    arrival_s
        When it was submitted, seconds, shape (jobs,), as all that follow unless said otherwise.
    scale
        GPUs of its gang.
    total, remaining
        Its steps, and those that are left.
    speed
        Steps/s that the scheduler believes it makes on each option with its gang, 0 where it cannot
        run, shape (jobs, options). What it really makes is nobody's to know in advance.
    capacity
        GPUs of each option, shape (options,).
    prices
        US dollars per GPU and hour of each option, NaN where unknown, shape (options,).
    facts
        Further columns of the workload that policies may ask for: ``weight``, ``deadline_s``,
        ``entity``, and those of one's own.
    texts
        What columns of texts say, by column, of which `facts` have the places.
    accelerators
        Names of the types that the options are, or are of.
    isolated_s
        Seconds that the steps done would have taken in an isolated 1/n share, n being the number
        of active jobs at the time.
    held_s
        Seconds that it has had devices of each option, shape (jobs, options).
    active
        Jobs that have arrived and are not done, ascending, shape (active jobs,).
    entity_use
        Counts what entities use, for a policy that asks for ``entity_used_s``; else ``None``.
    ids
        What the workload calls the jobs, for messages; empty where nobody tells.
    """

    job_type: Sequence[str]
    arrival_s: Floats
    scale: Ints
    total: Floats
    remaining: Floats
    speed: Floats
    capacity: Floats
    prices: Floats
    facts: Mapping[str, Floats]
    texts: Mapping[str, tuple[str, ...]]
    accelerators: tuple[str, ...]
    isolated_s: Floats
    held_s: Floats
    active: Ints = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    entity_use: EntityUse | None = field(default=None, repr=False)
    ids: Sequence[Hashable] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        self._to_do = self.remaining.copy()

    @property
    def jobs(self) -> int:
        """Number of jobs that there is room for."""
        return self.arrival_s.size

    @property
    def entities(self) -> tuple[str, ...]:
        """Names of the entities, of which the fact ``entity`` holds the places."""
        return self.texts.get("entity", ())

    @property
    def weight(self) -> Floats:
        """Priority weight of each job, shape (jobs,)."""
        return self.facts["weight"]

    @property
    def due_s(self) -> Floats:
        """When each job should be complete, seconds from the start; NaN without a deadline."""
        return self.arrival_s + self.facts.get("deadline_s", np.nan)

    def fastest_first(self, job: int) -> list[int]:
        """Return the types on which a job can run, the fastest first; of equals the first."""
        speed = self.speed[job]
        return [kind for kind in np.argsort(-speed, kind="stable").tolist() if speed[kind] > 0]

    def columns(self, now_s: float, asked: Container[str] | None = None) -> dict[str, Floats]:
        """Return the columns of the jobs table that policies may ask for, active jobs only.

        Where names are given, what takes work to tell is there only if it is one of them.
        """
        now = {
            "arrival_s": self.arrival_s,
            "steps_remaining": self.remaining,
            "total_steps": self.total,
            "isolated_elapsed_s": self.isolated_s,
        }
        columns = {name: values[self.active] for name, values in {**self.facts, **now}.items()}
        columns["elapsed_s"] = now_s - columns["arrival_s"]
        columns["now_s"] = np.zeros(self.active.size) + now_s
        columns["order"] = self.active.astype(float)
        if asked is None or "network_priority" in asked:
            columns["network_priority"] = self._network_priority()
        if self.entity_use is not None:
            columns["entity_used_s"] = self.entity_use.now(now_s)
        return columns

    def lost_s(self, jobs: Ints, at_start_s: Floats) -> Floats:
        """Return what jobs lose if they start or move now, seconds, of what that costs each.

        Nothing where they never ran and the column ``start_included`` says that their steps hold
        the first start, as durations of a log do.

        Parameters
        ----------
        jobs
            Their numbers, each once.
        at_start_s
            What a start costs, of all jobs.
        """
        included, lost_s = self.facts.get("start_included"), at_start_s[jobs]
        if included is None or not lost_s.any():
            return lost_s
        first = (included[jobs] > 0) & ~self.held_s[jobs].any(axis=1)
        return np.where(first, 0.0, lost_s)

    def _network_priority(self) -> Floats:
        """Seconds that the steps done take on the fastest option, over the seconds they took.

        0 for an active job that never ran (Dally, its priority of jobs). All that made a job slower
        than it can be counts as delay.
        """
        jobs = self.active
        held_s = self.held_s[jobs].sum(axis=1)
        least_s = (self._to_do[jobs] - self.remaining[jobs]) / self.speed[jobs].max(axis=1)
        priority = np.zeros(jobs.size)
        np.divide(least_s, held_s, out=priority, where=held_s > 0)
        return priority


class EntityUse:
    """GPU-seconds that each entity has had, of which those of long ago count less.

    With the half-life H, what was used at the time t counts 2^(-(now - t) / H): the integral of the
    GPUs that the entity's jobs held, so discounted.

    Parameters
    ----------
    jobs
        Its fact ``entity`` says whose job it is. Without it every job is an entity of its own.
    half_life_s
        H, seconds; infinite forgets nothing.

    Attributes
    ----------
    entity
        Place of the entity of each job, shape (jobs,).
    """

    def __init__(self, jobs: JobTable, half_life_s: float = math.inf) -> None:
        self._jobs, self._rate = jobs, math.log(2.0) / half_life_s
        own = np.arange(jobs.jobs, dtype=np.intp)
        entity = jobs.facts.get("entity")
        self.entity: Ints = own if entity is None else np.asarray(entity, dtype=np.intp)
        self._used: Floats = np.zeros(int(self.entity.max(initial=-1)) + 1)
        # What the table tells of the time before is as of when it is asked for first.
        self._used[self.entity] = jobs.facts.get("entity_used_s", 0.0)
        self._at_s: float | None = None

    def add(self, ran: GangProgress, now_s: float, end_s: float) -> None:
        """Count what gangs held from `now_s` on, until `end_s` at most."""
        held_s = ran.held_s * ran.times
        if self._rate:
            since_s = end_s - now_s - held_s
            held_s = (np.exp(-self._rate * since_s) - math.exp(-self._rate * (end_s - now_s))) / (
                self._rate
            )
        entity = self.entity[ran.gangs.job]
        new = np.bincount(entity, ran.gangs.gpus * held_s, self._used.size)
        if self._at_s is None:
            self._at_s = now_s
        self._used, self._at_s = self.by_entity(end_s) + new, end_s

    def now(self, now_s: float) -> Floats:
        """Return the GPU-seconds of the entity of each active job, shape (active jobs,)."""
        return self.by_entity(now_s)[self.entity[self._jobs.active]]

    def by_entity(self, now_s: float) -> Floats:
        """Return the GPU-seconds of every entity, shape (entities,)."""
        since_s = 0.0 if self._at_s is None else now_s - self._at_s
        return np.asarray(self._used * math.exp(-self._rate * since_s))
