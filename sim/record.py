"""What a run leaves behind: its tables, row by row, and the `Run` that they make."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import pandas as pd

from apportion.mechanism.repetition import running_sums
from apportion.sim.links.busiest import busiest_links
from apportion.sim.metrics import jobs_table
from apportion.sim.run import Run
from apportion.sim.schedule import ScheduleLog
from apportion.sim.workload_tables import of_types_given

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.mechanism.scheduler import Decision, GangProgress, Gangs
    from apportion.mechanisms.past import Past
    from apportion.sim.about import AboutRun, Parts
    from apportion.sim.engine.true_state import TrueState
    from apportion.types import Floats


_LEAST_SECONDS = 0.25


class Progress:
    """Calls ``report(fraction_done, jobs_done)`` if enough time has passed since the last call."""

    def __init__(self, report: Callable[[float, int], None] | None) -> None:
        self._report = report
        self._next = time.monotonic() + _LEAST_SECONDS

    def update(self, truth: TrueState) -> None:
        """Report now, unless the last report is too recent."""
        if self._report is not None and time.monotonic() >= self._next:
            self._report(truth.fraction_done, truth.done)
            self._next = time.monotonic() + _LEAST_SECONDS

    def finish(self, truth: TrueState) -> None:
        """Report the end."""
        if self._report is not None:
            self._report(1.0, truth.done)


class Columns(Protocol):
    """What a mechanism adds to what every run tells: columns of the jobs table, and tables.

    The base of such; what it lacks is nothing.
    """

    in_place: ClassVar[bool] = False
    """Whether it makes the rounds table, in place of a row for each stretch of time."""

    def changed(self, now_s: float, decision: Decision) -> None:
        """Take down that a decision takes effect."""
        return

    def ran(self, now_s: float, end_s: float, ran: GangProgress, active: int) -> None:
        """Take down what gangs have done between two times, while so many jobs were active."""
        return

    def of_jobs(self, jobs: pd.DataFrame) -> Mapping[str, Any]:
        """Return columns of the jobs table, by name, of jobs in the order of the run.

        They come behind those that every run has (`jobs`); one of the same name takes its place.
        """
        return {}

    def tables(self, schedule: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
        """Return tables by name, when all jobs are done; the schedule is there if anyone held."""
        return {}


_COLUMNS = ("start_s", "end_s", "active_jobs", "running_jobs", "preemptions", "resolved")
_WHOLE = ("active_jobs", "running_jobs", "preemptions")
_ONCE = slice(4, 6)
"""Columns of what happens as a decision takes effect, in the first of many equal rows."""


class RoundLog(Columns):
    """The rounds table: a row per round, or per interval between events, in arrays that grow.

    Parameters
    ----------
    accelerators
        Names of the accelerator types, for the ``<accelerator>_busy`` columns (GPU-seconds).
    """

    in_place = True

    def __init__(self, accelerators: Sequence[str]) -> None:
        self._types = len(accelerators)
        self._names = [*_COLUMNS, *(f"{name}_busy" for name in accelerators)]
        self._rows = np.empty((0, len(self._names)))
        self._stopped, self._resolved = 0, False
        self.rounds = 0

    def changed(self, now_s: float, decision: Decision) -> None:
        """Keep how many were stopped, and whether the policy was solved, for the next row."""
        self._stopped, self._resolved = decision.stop.size, decision.resolved

    def ran(self, now_s: float, end_s: float, ran: GangProgress, active: int) -> None:
        """Write a row for each of the stretches."""
        self._make_room(ran.times)
        busy = _gpu_seconds(ran, self._types).tolist()
        counts = (active, _running(ran.gangs), self._stopped, self._resolved)
        if ran.times == 1:
            self._rows[self.rounds] = (now_s, end_s, *counts, *busy)
        else:
            ends_s = running_sums(now_s, ran.length_s, ran.times)
            rows = self._rows[self.rounds : self.rounds + ran.times]
            rows[:] = (now_s, now_s, *counts, *busy)
            rows[1:, 0], rows[:, 1] = ends_s[:-1], ends_s
            rows[1:, _ONCE] = 0.0
        self.rounds += ran.times
        self._stopped, self._resolved = 0, False

    def _make_room(self, rounds: int) -> None:
        """Double the arrays until so many more rounds fit."""
        while self.rounds + rounds > len(self._rows):
            more = np.empty((max(len(self._rows), 256), len(self._names)))
            self._rows = np.concatenate([self._rows, more])

    def tables(self, schedule: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
        """Return the table, indexed by the number of the round."""
        columns = dict(zip(self._names, self._rows[: self.rounds].T, strict=True))
        columns |= {name: columns[name].astype(np.int64) for name in _WHOLE}
        columns["resolved"] = columns["resolved"].astype(bool)
        return {"rounds": pd.DataFrame(columns).rename_axis("round")}


def _gpu_seconds(ran: GangProgress, types: int) -> Floats:
    """Return the GPU-seconds in use on each type; what two jobs share counts once."""
    gangs = ran.gangs
    used = gangs.gpus * (ran.held_s if gangs.share is None else gangs.share)
    option = gangs.option
    if gangs.mate is not None:
        lead = gangs.mate >= np.arange(gangs.mate.size)
        used, option = used[lead], option[lead]
    busy = np.bincount(option, used, types).astype(float)
    return busy if gangs.share is None else busy * ran.length_s


def _running(gangs: Gangs) -> int:
    """Return the number of jobs that have devices."""
    if gangs.share is None:
        return gangs.job.size
    return int(np.count_nonzero(np.bincount(gangs.job)))


class Record:
    """Writes down what the tables of a run are made of; nobody decides by it.

    A stay for each job on its devices, rows of the rounds table, and what else the mechanism has
    columns for.

    Parameters
    ----------
    about
        The run.
    columns
        Of the mechanism.
    progress
        Is told of how far the run is.
    """

    def __init__(
        self, about: AboutRun, columns: Sequence[Columns] = (), progress: Progress | None = None
    ) -> None:
        self._about, self._truth = about, about.truth
        self._progress = Progress(None) if progress is None else progress
        self.schedule: ScheduleLog | None = None
        if about.told is not None:
            self.schedule = ScheduleLog(about.present, about.truth.jobs)
        self._columns = list(columns)
        if not any(each.in_place for each in columns):
            self._columns.insert(0, RoundLog(about.present.accelerators))

    def begin(self, past: Past) -> None:
        """Begin in the middle: who has devices stays there from now on."""
        if self.schedule is not None:
            jobs = np.array(list(past.held), dtype=np.intp)
            self.schedule.begin(jobs, past.held.values(), past.now_s)

    def changed(self, now_s: float, decision: Decision) -> None:
        """Take down that a decision takes effect."""
        if self.schedule is not None:
            self.schedule.changed(now_s, decision)
        for each in self._columns:
            each.changed(now_s, decision)

    def ran(self, now_s: float, end_s: float, ran: GangProgress, active: int) -> None:
        """Take down what gangs have done between two times, while so many jobs were active."""
        for each in self._columns:
            each.ran(now_s, end_s, ran, active)
        if ran.done.size:
            if self.schedule is not None:
                self.schedule.end(ran.done, self._truth.completion_s[ran.done])
            self._progress.update(self._truth)

    def run(self, label: str, parts: Parts) -> Run:
        """Return what the run of a policy or a scheduler has come to, when all jobs are done."""
        about, truth = self._about, self._truth
        self._progress.finish(truth)
        tables, jobs, ids = self._tables(parts), self._jobs(), about.given.jobs.index
        run = Run(
            policy=label,
            workload=about.given.name,
            cluster=about.cluster,
            jobs=of_types_given(
                jobs if jobs.index.equals(ids) else jobs.loc[ids], "_s", about.cluster
            ),
            rounds=of_types_given(tables.pop("rounds"), "_busy", about.cluster),
            settings=about.settings,
            wall_seconds=0.0,
            **parts.figures(),
            tables=tables,
        )
        if about.told is None or about.told.models is not None:  # elastic jobs change their models
            return run
        return replace(run, tables=tables | busiest_links(run, about.workload, about.network))

    def _jobs(self) -> pd.DataFrame:
        """Return the jobs table, in the order of the run."""
        jobs = jobs_table(self._truth, self._about.workload, self._about.present)
        for each in self._columns:
            jobs = jobs.assign(**each.of_jobs(jobs))
        return jobs

    def _tables(self, parts: Parts) -> dict[str, pd.DataFrame]:
        """Return all tables but that of the jobs."""
        about, index = self._about, self._about.workload.jobs.index
        tables = {}
        if self.schedule is not None:
            tables["schedule"] = self.schedule.table(index)
        for each in self._columns:
            tables |= each.tables(tables.get("schedule"))
        for name, table in parts.runtime.tables(index).items():
            tables[name] = table.loc[about.given.jobs.index] if table.index is index else table
        figures = {} if about.told is None else about.told.devices.figures()
        if figures:
            tables["candidates"] = pd.DataFrame(figures).set_index("gpus")
        return tables
