"""First come, first served, and who may pass: batch schedulers with and without backfilling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from apportion.annotations import check_fields
from apportion.checks import whole
from apportion.errors import InputError
from apportion.mechanism.batch.serving import SERVES, Line
from apportion.mechanism.decider import Decider
from apportion.mechanism.job_table import EntityUse
from apportion.mechanism.queue import InQueue

if TYPE_CHECKING:
    import pandas as pd

    from apportion.mechanism.about import About
    from apportion.mechanism.batch.multifactor import MultifactorPriority
    from apportion.types import Floats, Ints


@dataclass(frozen=True)
class BatchScheduler(Decider):
    """Jobs come in an order, by default that of arrival, and keep their GPUs until they are done.

    A job starts on the fastest type on which its gang is free, unless `chooses` says otherwise. Who
    may pass the first job that has to wait, the head, is said by `backfill`; how long a job takes
    is what its user says (``time_limit_s``), or, without that, what it takes.

    Parameters
    ----------
    name, source
        In the registry.
    backfill
        ``"none"``: nobody passes. ``"easy"``: whoever does not delay the head, which starts when
        enough GPUs of one of its types have become free (the shadow time): jobs on other types,
        jobs that end by then, and jobs on GPUs that the head will not need (Lifka, 1995).
        ``"conservative"``: whoever delays nobody in front of it, as every job in the queue has a
        reservation, made in order, at the earliest time that is left.
    chooses
        On which type a job has its reservation: ``"first_start"``, that on which it can start
        first, or ``"first_end"``, that on which it is expected to be done first: rather than start
        on a slow type a job waits for a fast one. Under ``"conservative"`` only.
    depth
        So many waiting jobs have a reservation, at most, under ``"conservative"``; those behind
        them wait.
    gpus_per_reservation
        A reservation of who has to wait takes multiples of this under ``"conservative"``: GPUs of
        a machine, where whole machines are reserved, as by Slurm. Until it ends nobody else may
        be on them. Exact for one machine of each type; with several it is a count, not a place.
    order
        Says the priorities of jobs, which are worked out anew whenever a job arrives or is done;
        ``None``: who was submitted first comes first.
    """

    works_by: ClassVar[tuple[str, ...]] = ("queue",)
    works_how: ClassVar[str] = "is a batch scheduler, which works by a queue"

    name: str
    source: str = ""
    backfill: Literal["none", "easy", "conservative"] = "none"
    chooses: Literal["first_start", "first_end"] = "first_start"
    depth: int = 100
    gpus_per_reservation: int = 1
    order: MultifactorPriority | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        whole("depth", self.depth, 1)
        whole("gpus_per_reservation", self.gpus_per_reservation, 1)
        if self.chooses == "first_end" and self.backfill != "conservative":
            raise InputError(
                f"chooses='first_end' needs reservations, which backfill={self.backfill!r} does "
                f"not make for every job; valid: backfill='conservative'."
            )

    def make(self, about: About) -> InBatch:
        """Return what serves the jobs of a run."""
        return InBatch(self, about)

    def knows_durations(self, jobs: pd.DataFrame) -> bool:
        """Whether it plans by what jobs take, as not every user has said a limit."""
        said = jobs.get("time_limit_s")
        return self.backfill != "none" and (said is None or bool(said.isna().any()))


class InBatch(InQueue):
    """Serves the jobs of a run in its order; see `InQueue`."""

    kept = (*InQueue.kept, "_use")

    def __init__(self, decider: BatchScheduler, about: About) -> None:
        super().__init__(decider, about)
        jobs = about.jobs
        limit_s = jobs.facts.get("time_limit_s", np.full(jobs.jobs, np.nan))
        self._limit_s: Floats = np.asarray(limit_s, dtype=float)
        self.capacity: list[int] = jobs.capacity.astype(int).tolist()
        self._serves, self.depth = SERVES[decider.backfill], decider.depth
        self.chooses: str = decider.chooses
        self.whole = decider.gpus_per_reservation
        self._order, self._use = decider.order, None
        if self._order is not None:
            self._use = jobs.entity_use = EntityUse(jobs, self._order.half_life_s)

    def _wanted(self, now_s: float) -> dict[int, int]:
        """Return the types of those that run, and of those that start now."""
        left = {job: kind for job, (kind, _) in self._devices.held.items()}
        running = {job: left[job] for job in self._jobs.active.tolist() if job in left}
        waiting = self.waiting(running, now_s).tolist()
        return running | dict(self._serves(Line(self, now_s, running, waiting)))

    def waiting(self, running: dict[int, int], now_s: float) -> Ints:
        """Return the active jobs that do not run, who comes first in front."""
        active = self._jobs.active
        waits = ~np.isin(active, np.array(list(running), dtype=np.intp))
        if self._order is None or self._use is None:
            return active[waits]
        priority = self._order.of(self._jobs, self._use, now_s)[waits]
        # Of equal priority in the order of submission, in which jobs are numbered.
        return active[waits][np.argsort(-priority, kind="stable")]

    @property
    def scale(self) -> Ints:
        """GPUs of the gang of each job; jobs may come."""
        return self._jobs.scale

    def types(self, job: int) -> list[int]:
        """Return the types on which a job can run, the fastest first."""
        return self._jobs.fastest_first(job)

    def seconds(self, job: int, kind: int) -> float:
        """Return what a job is taken to need from now on, on a type on which it can run."""
        jobs, limit_s = self._jobs, float(self._limit_s[job])
        if not math.isnan(limit_s):
            return max(limit_s - float(jobs.held_s[job].sum()), 0.0)
        return float(jobs.remaining[job] / jobs.speed[job, kind])
