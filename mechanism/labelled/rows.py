"""Labels for the rows of the core, and the plan of one round with labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import mapping
from apportion.checks import seconds as check_seconds
from apportion.errors import unknown_name, written

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from apportion.mechanism.core import RoundCore
    from apportion.mechanism.core_rows import GangRound
    from apportion.types import Floats, Ints

    Label = tuple[Hashable, ...]
    Places = dict[Hashable, tuple[str, tuple[int, ...]]]

_COLUMNS = ("accelerator", "machines", "devices", "status", "shares_with")


@dataclass(frozen=True)
class Assignment:
    """One gang: a job, or a combination of jobs on the same devices, for one round.

    Devices and machines are numbered from 0 within their accelerator type.
    """

    jobs: tuple[Hashable, ...]
    accelerator: str
    machines: tuple[int, ...]
    devices: tuple[int, ...]


@dataclass(frozen=True)
class RoundPlan:
    """What the scheduler answers: the gangs of the next round.

    Parameters
    ----------
    number
        Number of the round, from 0.
    assignments
        The gangs, those with the highest priority first.
    started
        Jobs that did not run in the round before.
    moved
        Jobs that run on, on other devices.
    preempted
        Jobs that ran in the round before and wait in this one.
    """

    number: int
    assignments: tuple[Assignment, ...]
    started: tuple[Hashable, ...]
    moved: tuple[Hashable, ...]
    preempted: tuple[Hashable, ...]

    @property
    def jobs(self) -> tuple[Hashable, ...]:
        """Every job that runs in the round."""
        return tuple(job for gang in self.assignments for job in gang.jobs)

    @property
    def extended(self) -> tuple[Hashable, ...]:
        """Jobs whose lease is extended: they run on, on the same devices."""
        changed = {*self.started, *self.moved}
        return tuple(job for job in self.jobs if job not in changed)

    def table(self) -> pd.DataFrame:
        """Return one row per job that runs or is preempted, indexed by job.

        Columns: ``accelerator``, ``machines`` and ``devices`` (tuples of numbers), ``status``
        (extended, started, moved or preempted) and ``shares_with`` (the other jobs on the same
        devices).
        """
        status = dict.fromkeys(self.started, "started") | dict.fromkeys(self.moved, "moved")
        rows: dict[Hashable, tuple[object, ...]] = {}
        for gang in self.assignments:
            for job in gang.jobs:
                others = tuple(other for other in gang.jobs if other != job)
                what = status.get(job, "extended")
                rows[job] = (gang.accelerator, gang.machines, gang.devices, what, others)
        for job in self.preempted:
            rows[job] = ("", (), (), "preempted", ())
        index = pd.Index(list(rows), name="job", tupleize_cols=False)
        return pd.DataFrame(list(rows.values()), index=index, columns=list(_COLUMNS))


def labelled_plan(number: int, gangs: GangRound, rows: LabelledRows, before: Places) -> RoundPlan:
    """Write down a round with labels.

    Parameters
    ----------
    number
        Number of the round.
    gangs
        What the core has chosen.
    rows
        The labels of its rows.
    before
        Where the known jobs ran in the round before.
    """
    assignments = tuple(
        _assignment(row, kind, rows)
        for row, kind in zip(gangs.rows.tolist(), gangs.types.tolist(), strict=True)
    )
    now = _places(assignments, rows.scale)
    return RoundPlan(
        number=number,
        assignments=assignments,
        started=tuple(job for job in now if job not in before),
        moved=tuple(job for job in now if before.get(job, now[job]) != now[job]),
        preempted=tuple(job for job in before if job not in now),
    )


def places(plan: RoundPlan, known: Mapping[Hashable, int]) -> Places:
    """Return the type and devices of every known job of a plan."""
    return _places(plan.assignments, known)


def times_of(
    plan: RoundPlan, seconds: Mapping[Any, float] | None, round_seconds: float
) -> dict[Hashable, float]:
    """Return how long each job of a plan has run: as told, else the whole round.

    Raises
    ------
    InputError
        If a job is not in the plan, or a time is no number >= 0.
    """
    told = {} if seconds is None else mapping("seconds", seconds, "seconds by job")
    for job, ran in told.items():
        if job not in plan.jobs:
            raise unknown_name(f"job in round {plan.number}", job, plan.jobs)
        check_seconds(f"The time of job {written(job)}", ran)
    return dict.fromkeys(plan.jobs, round_seconds) | told


def _assignment(row: int, kind: int, rows: LabelledRows) -> Assignment:
    placer = rows.core.placer
    devices = tuple(placer.held[int(rows.core.ids[row])][1])
    machines = tuple(sorted({placer.pools[kind].machine_of[device] for device in devices}))
    return Assignment(rows.labels[row], rows.accelerators[kind], machines, devices)


def _places(assignments: Iterable[Assignment], known: Mapping[Hashable, int]) -> Places:
    return {
        job: (gang.accelerator, gang.devices)
        for gang in assignments
        for job in gang.jobs
        if job in known
    }


class LabelledRows:
    """Keeps one row of the core per job, and one per combination that has a share or still runs.

    Parameters
    ----------
    core
        The core whose rows these are.
    accelerators
        Names of its types.

    Attributes
    ----------
    labels
        The jobs of each row of the core, in its order.
    scale
        GPUs of each job, in order of submission.
    """

    def __init__(self, core: RoundCore, accelerators: Sequence[str]) -> None:
        self.core = core
        self.accelerators = accelerators
        self.labels: list[Label] = []
        self.scale: dict[Hashable, int] = {}

    def position(self) -> dict[frozenset[Hashable], int]:
        """Row of each combination, in whatever order its jobs are named."""
        return {frozenset(label): row for row, label in enumerate(self.labels)}

    def add(self, scale: Mapping[Hashable, int]) -> None:
        """Take in jobs with their GPUs; a known one that changes them loses its devices."""
        resized = {job for job, gpus in scale.items() if self.scale.get(job, gpus) != gpus}
        touched = [not resized.isdisjoint(label) for label in self.labels]
        self.core.evict(np.flatnonzero(np.array(touched, dtype=bool) & (self.core.last_type >= 0)))
        new = [(job,) for job in scale if job not in self.scale]
        self.scale |= scale
        self._append(new)
        self._describe()

    def lend(self, jobs: Sequence[Hashable], speed: Floats) -> None:
        """Set where single jobs can run, shape (jobs, types)."""
        position = self.position()
        rows = [position[frozenset((job,))] for job in jobs]
        self.core.speed[rows] = speed
        self._describe()

    def aim(self, labels: Sequence[Label], shares: Floats, speed: Floats) -> None:
        """Set shares and where rows can run, shape (labels, types); other rows have no share."""
        wanted = {frozenset(label) for label in labels}
        self._keep(len(label) == 1 or frozenset(label) in wanted for label in self.labels)
        position = self.position()
        new = [label for label in labels if frozenset(label) not in position]
        first = [min(self.core.number[position[frozenset((job,))]] for job in jobs) for jobs in new]
        self._append(new, np.array(first, dtype=np.intp))
        position = self.position()
        rows = [position[frozenset(label)] for label in labels]
        target = np.zeros_like(self.core.target)
        target[rows] = shares
        self.core.speed[[len(label) > 1 for label in self.labels]] = 0.0
        self.core.speed[rows] = speed
        self.core.aim(target)
        self._describe()

    def remove(self, jobs: Iterable[Hashable]) -> None:
        """Forget jobs; a combination that runs stays until its devices are handed on."""
        for job in jobs:
            del self.scale[job]
        whole = [all(job in self.scale for job in label) for label in self.labels]
        broken = ~np.array(whole, dtype=bool)
        self.core.target[broken] = self.core.speed[broken] = 0.0
        self._keep(whole)
        self._describe()

    def _append(self, labels: Sequence[Label], number: Ints | None = None) -> None:
        self.labels += labels
        blank = np.zeros((len(labels), self.core.capacity.size))
        self.core.append(blank, np.zeros(len(labels)), number)

    def _keep(self, wanted: Iterable[bool]) -> None:
        """Drop the rows that are not wanted, but for running combinations with a known job."""
        running = self.core.last_type >= 0
        mask = [
            want or (len(label) > 1 and bool(runs) and any(job in self.scale for job in label))
            for want, label, runs in zip(wanted, self.labels, running, strict=True)
        ]
        self.core.keep(np.array(mask, dtype=bool))
        self.labels = [label for label, stays in zip(self.labels, mask, strict=True) if stays]

    def _describe(self) -> None:
        """Tell the core the GPUs and jobs of its rows, and that large gangs fit nowhere small."""
        number = {job: k for k, job in enumerate(self.scale)}
        known = [[job for job in label if job in number] for label in self.labels]
        width = max(map(len, self.labels), default=1)
        slots = [[number[job] for job in (jobs * width)[:width]] for jobs in known]
        self.core.scale = np.array([self.scale[jobs[0]] for jobs in known], dtype=np.intp)
        self.core.speed[self.core.scale[:, None] > self.core.capacity] = 0.0
        self.core.combine(np.array(slots, dtype=np.intp).reshape(-1, width))
