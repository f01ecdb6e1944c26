"""What leases add to a job table: who waits and since when, who holds what, what was run where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.cluster import TIERS
from apportion.mechanism.scheduler import NOBODY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.job_table import JobTable
    from apportion.types import Bools, Floats

    Ints = NDArray[np.int64]


class LeasedJobs:
    """Columns beside those of a job table, with an entry for each of its jobs.

    Option ``type * 3 + tier`` is a tier of an accelerator type. Only entries of jobs that have been
    let in (`enter`) mean anything.

    Parameters
    ----------
    told
        The job table; jobs may be added to it.
    types
        Number of accelerator types.

    Attributes
    ----------
    type_code
        Job types as the scheduler's rule spells them, as positions in `job_types`, shape (jobs,),
        as all that follow.
    released_s
        When the job's present wait began: at its arrival, or when its last lease ended.
    compute_s
        Compute time of the steps that are done on its fastest type, without exposed communication,
        seconds.
    run_s
        Seconds that the job has run at each option, communication included, shape (jobs, options).
    tier
        Tier of the GPUs that it holds; -1 for none.
    kind
        Position of the accelerator type of the GPUs that it holds, or has held last; 0 at first.
    waiting
        Whether the job is here and holds no GPUs.
    slowdown
        Time of a step on the best placement at each option, everything being free, over its compute
        time on its fastest type; infinite where the gang can have none, shape (jobs, options).
    waiting_of_size
        How many jobs wait, by their GPUs.
    turned
        Jobs that have begun to wait, or wait no more, since they were ranked (`Ranking`).
    prefers_wider
        Whether any gang is faster at a tier than at a tighter one of the same type.
    job_types
        Names of the job types.
    """

    def __init__(self, told: JobTable, types: int = 1) -> None:
        self.told, self.types = told, types
        jobs, cells = told.jobs, (told.jobs, types * len(TIERS))
        self.type_code: Ints = np.zeros(jobs, dtype=np.int64)
        self.released_s: Floats = np.zeros(jobs)
        self.compute_s: Floats = np.zeros(jobs)
        self.run_s: Floats = np.zeros(cells)
        self.tier: Ints = np.zeros(jobs, dtype=np.int64)
        self.kind: Ints = np.zeros(jobs, dtype=np.intp)
        self.waiting: Bools = np.zeros(jobs, dtype=bool)
        self.slowdown: Floats = np.zeros(cells)
        self.job_types: list[str] = []
        self.prefers_wider = False
        self.entered = 0
        self.waiting_of_size: dict[int, int] = {}
        self.turned: set[int] = set()

    def ideal_s(self, jobs: Ints) -> Floats:
        """Compute time of some jobs from start to completion on their fastest types, seconds."""
        seconds: Floats = self.told.total[jobs] / self.told.speed[jobs].max(axis=1)
        return seconds

    def alone_slowdown(self, jobs: Ints) -> Floats:
        """Least time of a step over its compute time, shape (jobs,)."""
        least: Floats = self.slowdown[jobs].min(axis=1)
        return least

    def type_slowdown(self, jobs: Ints) -> Floats:
        """Least time of a step on each type over its compute time, shape (jobs, types)."""
        least: Floats = self.slowdown[jobs].reshape(-1, self.types, len(TIERS)).min(axis=2)
        return least

    def runs_on(self, jobs: Ints) -> Bools:
        """Tell on which types some jobs can run at some tier, shape (jobs, types)."""
        return np.isfinite(self.type_slowdown(jobs))

    def option(self, jobs: Any) -> Any:
        """Return the options of which jobs hold GPUs; one of a type with a tier of -1 for none."""
        return self.kind[jobs] * len(TIERS) + self.tier[jobs]

    def wait(self, job: int, *, waits: bool = True) -> None:
        """Let a job wait, or wait no more."""
        if self.waiting.item(job) == waits:
            return
        self.waiting[job] = waits
        self.turned.add(job)
        gpus = self.told.scale.item(job)
        count = self.waiting_of_size.get(gpus, 0) + (1 if waits else -1)
        if count:
            self.waiting_of_size[gpus] = count
        else:
            del self.waiting_of_size[gpus]

    def cells(self, jobs: Ints) -> Ints:
        """Return where in `run_s`, read as one row, jobs that hold GPUs have the present option."""
        found: Ints = jobs * self.run_s.shape[1] + self.option(jobs)
        return found

    def book(self, jobs: Ints, cells: Ints, compute_s: Floats, run_s: Floats) -> None:
        """Book progress of jobs in their cells, see `LeaseMechanism.ran`."""
        self.compute_s[jobs] += compute_s
        self.run_s.reshape(-1)[cells] += run_s

    @property
    def crowded(self) -> bool:
        """Whether any job waits."""
        return bool(self.waiting_of_size)

    def any_able(self, most_gpus: int) -> bool:
        """Whether any waiting job needs no more GPUs than so many."""
        return min(self.waiting_of_size, default=most_gpus + 1) <= most_gpus

    def able(self, most_gpus: int) -> Ints:
        """Return the waiting jobs that need no more GPUs than so many, ascending."""
        if min(self.waiting_of_size, default=most_gpus + 1) > most_gpus:
            return NOBODY
        here = self.told.active
        waiting = here[self.waiting.take(here)]
        able: Ints = waiting[self.told.scale.take(waiting) <= most_gpus]
        return able

    def enter(
        self, job: int, now_s: float, job_type: str, slowdown: Sequence[float] | Floats
    ) -> None:
        """Let in a job of the table that waits from now on."""
        if job_type not in self.job_types:
            self.job_types.append(job_type)
        self.type_code[job] = self.job_types.index(job_type)
        self.released_s[job], self.tier[job] = now_s, -1
        self.wait(job)
        self.set_slowdown(job, slowdown)
        self.entered = max(self.entered, job + 1)

    def set_slowdown(self, job: int, slowdown: Sequence[float] | Floats) -> None:
        """Enter how slow a job is at each option."""
        self.slowdown[job] = slowdown
        self.turned.add(job)
        self.prefers_wider |= _prefers_wider(self.slowdown[job])


def _prefers_wider(slowdown: Floats) -> bool:
    """Tell whether a gang is faster at a tier than at a tighter one of a type where it can lie."""
    return any(
        min(rack, network) < machine < np.inf or network < rack < np.inf
        for machine, rack, network in slowdown.reshape(-1, len(TIERS)).tolist()
    )
