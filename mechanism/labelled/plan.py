"""The plan of one round, with labels: who runs where, and what has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Hashable

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
