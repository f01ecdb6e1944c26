"""Several finished runs on one workload, side by side: tables, plots, files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.experiments.provenance import plain, record
from apportion.report import human_table, plot, report_page, summary_html
from apportion.report.files import write_table, write_text
from apportion.report.plots import kinds_of
from apportion.report.tables import notes_on
from apportion.sim.schedule_files import save_schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from apportion.cluster import Cluster
    from apportion.sim import ElasticWorkload, Run, Workload

__all__ = ["Comparison"]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What `apportion.compare` returns.

    Attributes
    ----------
    runs
        Finished runs by policy, in the order asked for.
    workload, cluster
        What was run and where.
    settings
        Settings of the simulations.
    origin
        How the workload was made, where the caller said so.
    command
        The command line that repeats the comparison; None where there is none.
    errors
        Why policies failed, by policy; they have no run.
    own
        Which arguments were objects of the caller's own: a file holds no more than their names.
    """

    runs: Mapping[str, Run]
    workload: Workload | ElasticWorkload
    cluster: Cluster
    settings: Mapping[str, Any]
    origin: Mapping[str, object] | None = None
    command: str | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    own: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __getitem__(self, policy: str) -> Run:
        return self.runs[policy]

    def summary(self) -> pd.DataFrame:
        """One row per policy or scheduler: completion times, makespan, utilization, ...

        Those that failed come last. Their figures are NaN; ``error`` is None for all others.
        """
        rows = [
            {**run.summary(), "policy": label, "error": None} for label, run in self.runs.items()
        ]
        rows += [{"policy": label, "error": text} for label, text in self.errors.items()]
        table = pd.DataFrame(rows)
        return table.assign(error=table["error"].astype(object).where(table["error"].notna(), None))

    def jobs(self) -> pd.DataFrame:
        """One row per policy and job: the jobs tables of all runs under each other."""
        tables = [run.jobs.reset_index(names="job") for run in self.runs.values()]
        for label, table in zip(self.runs, tables, strict=True):
            table.insert(0, "policy", label)
        return pd.concat(tables, ignore_index=True)

    def by(self, column: str) -> pd.DataFrame:
        """One row per policy and group of jobs: those of a user, an entity, a partition.

        Columns ``policy``, the given one, and those of `Run.by`.

        Raises
        ------
        InputError
            For a column that the jobs tables do not have.
        """
        tables = [run.by(column).reset_index() for run in self.runs.values()]
        for label, table in zip(self.runs, tables, strict=True):
            table.insert(0, "policy", label)
        return pd.concat(tables, ignore_index=True)

    def schedule(self) -> pd.DataFrame:
        """One row per policy and stay: the schedules of all runs under each other.

        ``as_recorded`` has none, as logs tell no devices.

        Raises
        ------
        InputError
            If there are none, as nobody holds devices under ``mechanism="exact"``.
        """
        runs = self.runs
        told = {label: run for label, run in runs.items() if "schedule" in run.tables} or runs
        tables = [run.schedule for run in told.values()]
        labels = np.repeat(np.array(list(told), dtype=object), list(map(len, tables)))
        table = pd.concat(tables, ignore_index=True)
        table.insert(0, "policy", labels)
        return table

    @property
    def has_schedule(self) -> bool:
        """Whether there is a schedule of devices to save."""
        return any("schedule" in run.tables for run in self.runs.values())

    @property
    def notes(self) -> list[str]:
        """What a reader of the figures must know of workload and settings."""
        return notes_on(self.workload.notes, self.settings)

    def plot(self, kind: str = "completion_times") -> Figure:
        """Draw one plot; kinds are the keys of `plots`.

        Raises
        ------
        InputError
            For an unknown kind.
        ApportionError
            If matplotlib is not installed.
        """
        return plot(self.runs, kind)

    def plots(self) -> dict[str, Figure]:
        """Draw every plot, by kind."""
        return {kind: self.plot(kind) for kind in kinds_of(self.runs)}

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` holds: all that it takes to repeat, and the summary."""
        policies = [*self.runs, *self.errors]
        made = record(
            *(policies, self.workload, self.cluster, self.settings),
            *(self.origin, self.command, self.own),
        )
        return made | {"summary": plain(self.summary().to_dict("records"))}

    def to_html(
        self, path: str | Path | None = None, *, sections: Iterable[str] | None = None
    ) -> str:
        """Return the report as one self-contained HTML page, and write it if a path is given.

        Without matplotlib the page has tables only. `sections` are names out of
        `apportion.report.REPORT_SECTIONS`, in the order wanted; all that there are by default.
        """
        page = report_page(self, sections)
        if path is not None:
            write_text(Path(path), page)
        return page

    def to_json(self, path: str | Path | None = None) -> str:
        """Return `record` as JSON text, and write it if a path is given."""
        text = json.dumps(self.record(), indent=2, allow_nan=False) + "\n"
        if path is not None:
            write_text(Path(path), text)
        return text

    def to_csv(self, folder: str | Path) -> list[Path]:
        """Write ``summary.csv``, ``jobs.csv`` and ``schedule.csv.gz`` into a folder."""
        return self._write_tables(folder, "csv", "csv.gz")

    def to_parquet(self, folder: str | Path) -> list[Path]:
        """Write ``summary.parquet``, ``jobs.parquet`` and ``schedule.parquet`` into a folder.

        Raises
        ------
        ApportionError
            If pyarrow is not installed.
        """
        return self._write_tables(folder, "parquet", "parquet")

    def save(self, folder: str | Path) -> list[Path]:
        """Write the tables, ``run.json`` and ``report.html`` into a folder.

        The tables are ``summary.csv``, ``jobs.csv`` and, if nobody shares time exactly, the
        schedule of every run as ``schedule.csv.gz``, which `apportion.read_schedule` reads. Each
        file is replaced in one step.

        Returns
        -------
        list of Path
            The files.

        Raises
        ------
        InputError
            If the folder cannot be written.
        """
        folder = Path(folder)
        files = self.to_csv(folder)
        self.to_json(folder / "run.json")
        self.to_html(folder / "report.html")
        return [*files, folder / "run.json", folder / "report.html"]

    def _write_tables(self, folder: str | Path, format: str, of_schedule: str) -> list[Path]:
        folder = Path(folder)
        tables = {"summary": self.summary(), "jobs": self.jobs()}
        files = [write_table(folder / f"{name}.{format}", table) for name, table in tables.items()]
        schedule = folder / f"schedule.{of_schedule}"
        if self.has_schedule:
            return [*files, save_schedule(self.schedule(), schedule)]
        schedule.unlink(missing_ok=True)  # of another comparison that was here before
        return files

    def __repr__(self) -> str:
        head = f"{len(self)} policies, {len(self.workload.jobs)} jobs of {self.workload.name!r}"
        table = human_table(self.summary(), brief=True)
        failed = [f"{label} failed: {text}" for label, text in self.errors.items()]
        return "\n".join([f"{head} on {self.cluster}", str(table), *failed, *self.notes])

    def _repr_html_(self) -> str:
        return summary_html(self.summary())
