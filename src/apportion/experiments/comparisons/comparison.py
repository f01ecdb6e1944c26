"""Several finished runs on one workload, side by side: tables, plots, files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.experiments.comparisons.possible import (
    MOST_JOBS,
    above_floor,
    at_costs,
    best_in_words,
    bounded,
)
from apportion.experiments.comparisons.runs_by_policy import RunsByPolicy
from apportion.experiments.provenance import plain, record
from apportion.experiments.shared import notes_on_mechanisms
from apportion.policies import WHOLE
from apportion.report import human_table, plot, report_page, summary_html
from apportion.report.files import has_templates, write_page, write_table, written_too
from apportion.report.found import RECORDED, differences_table, notes_on_recorded
from apportion.report.plots import kinds_of
from apportion.report.tables import longest_time_s, notes_on
from apportion.sim.floors import Floor, floor
from apportion.sim.schedule_files import save_schedule
from apportion.sim.traces.recorded_times import too_few
from apportion.statistics.intervals import growing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.figure import Figure

    from apportion.cluster import Cluster
    from apportion.sim import ElasticWorkload, Run, Workload
    from apportion.statistics.typeset import HumanTable


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(RunsByPolicy):
    """What `apportion.compare` returns.

    Attributes
    ----------
    runs
        Finished runs by policy, in the order asked for.
    workload, cluster
        What was run and where.
    settings
        Settings of the simulations; where these run by several mechanisms, what was given of them,
        with None as ``mechanism``.
    origin
        How the workload was made, where the caller said so.
    command
        The command line that repeats the comparison; None where there is none.
    errors
        Why policies failed, by policy; they have no run.
    own
        Which arguments were objects of the caller's own: a file holds no more than their names.
    by_policy
        All settings of each policy where they run by several mechanisms, else nothing.
    at_other_costs
        Runs by policy where a start costs some times as much, by these times.
    """

    runs: Mapping[str, Run]
    workload: Workload | ElasticWorkload
    cluster: Cluster
    settings: Mapping[str, Any]
    origin: Mapping[str, object] | None = None
    command: str | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    own: Sequence[str] = ()
    by_policy: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    at_other_costs: Mapping[float, Mapping[str, Run]] = field(default_factory=dict)

    def summary(self) -> pd.DataFrame:
        """One row per policy or scheduler: completion times, makespan, utilization, ...

        Those that failed come last. Their figures are NaN; ``error`` is None for all others. Where
        several mechanisms ran, ``mechanism`` says by which each did.
        """
        rows = [
            {**run.summary(), "policy": label, "error": None} for label, run in self.runs.items()
        ]
        rows += [{"policy": label, "error": text} for label, text in self.errors.items()]
        table = pd.DataFrame(rows)
        if self.by_policy:
            ways = [self.by_policy[label]["mechanism"] for label in table["policy"]]
            table.insert(1, "mechanism", ways)
        return table.assign(error=table["error"].astype(object).where(table["error"].notna(), None))

    def human_table(self, *, brief: bool = False) -> HumanTable:
        """Return the summary in human units, with marks where a policy is best.

        Marks stand behind means over jobs only, of which batches of jobs give an interval
        (`apportion.statistics`); of others one workload does not tell.

        Parameters
        ----------
        brief
            Only what fits a terminal of 100 columns.
        """
        return human_table(
            self.summary(), brief=brief, replicates=self._batches, marked=self.comparable
        )

    @property
    def comparable(self) -> list[str]:
        """Who ran and may be best: not ``as_recorded`` if its log had more GPUs than there are."""
        more = RECORDED in self.runs and bool(too_few(self.workload.jobs, self.cluster))
        return [label for label in self.runs if not (more and label == RECORDED)]

    @cached_property
    def floor(self) -> Floor:
        """What no schedule of the workload on the cluster can be better than.

        Raises
        ------
        InputError
            For elastic jobs, of which no floor is known.
        """
        return floor(self.workload, self.cluster)

    def above_floor(self) -> pd.DataFrame:
        """By how much of the floor policies are above it, as far as it is one to them.

        Returns
        -------
        DataFrame
            Indexed by policy, the figures of `Run.above_floor`. Without those that may let jobs
            share GPUs, and without ``as_recorded``.

        Raises
        ------
        InputError
            For elastic jobs.
        """
        return above_floor(bounded(self.runs, self.workload), self.floor)

    def start_costs(self) -> HumanTable | None:
        """Return the mean JCT of each policy where a start costs more or less, with marks.

        One column for each multiple of what a start costs; None where it was simulated at one only.
        """
        if not self.at_other_costs:
            return None
        return at_costs({1.0: self.runs, **self.at_other_costs}, self.comparable)

    def differences_in_words(self, against: str) -> HumanTable | None:
        """Return by how much mean JCT and wait are above those of one policy, and how often.

        With paired 95 % intervals (`differences`), and the share of jobs that are done sooner; what
        is below 0 is sooner. None for too few jobs for intervals, and where nobody else ran.

        Parameters
        ----------
        against
            One of those that ran, such as ``"as_recorded"``.

        Raises
        ------
        InputError
            For a policy that did not run.
        """
        found = self.differences(against)
        beside = self.jobs_against(against)
        if found.empty or beside.empty:
            return None
        share = (beside["completion_later_s"] < 0).groupby(beside["policy"], sort=False).mean()
        return differences_table(found, share, longest_time_s(self.summary()))

    @property
    def notes(self) -> list[str]:
        """What a reader of the figures must know of workload and settings."""
        apart = notes_on_mechanisms(self.settings, self.by_policy)
        each = self.by_policy.values() or [self.settings]
        notes = notes_on([*self.workload.notes, *apart], self.workload.jobs, *each)
        if RECORDED in self.runs:
            notes += notes_on_recorded(self.workload.jobs, self.cluster)
        return [*notes, *self._rigid(), *self._unsteady(), *self._possible()]

    def _rigid(self) -> list[str]:
        """Say who chooses how many GPUs jobs have, where that is given."""
        if self.workload.elastic:
            return []
        names = {each.name for each in WHOLE["(type, GPUs)"]}
        who = ", ".join(label for label in self.runs if label.partition("(")[0] in names)
        note = (
            "jobs have fixed numbers of GPUs, which are not chosen here (elastic jobs: profiles=)"
        )
        return [f"under {who} {note}"] if who else []

    def _unsteady(self) -> list[str]:
        """Say under which policies figures that are to be of a steady state are of none."""
        if "measured" not in self.workload.jobs:
            return []
        found = growing({label: run.measured for label, run in self.runs.items()})
        late = "waits grow until the last job that is measured, and means with them, under"
        return [f"{late} {', '.join(found)}"] if found else []

    def _possible(self) -> list[str]:
        """Say how near the best policy is to anything possible, where that takes seconds."""
        if self.workload.elastic or len(self.workload.jobs) > MOST_JOBS:
            return []
        table = self.above_floor() if bounded(self.runs, self.workload) else None
        if table is None:
            return []
        over = "over all jobs, " * ("measured" in self.workload.jobs)
        return [over + best_in_words(table, self.floor.mean_jct_s)]

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
            *(self.origin, self.command, self.own, self.by_policy),
        )
        return made | {"summary": plain(self.summary().to_dict("records"))}

    def to_html(
        self, path: str | Path | None = None, *, sections: Iterable[str] | None = None
    ) -> str:
        """Return the report as one self-contained HTML page, and write it if a path is given.

        Without matplotlib the page has tables only. `sections` are names out of
        `apportion.report.REPORT_SECTIONS`, in the order wanted; all that there are by default.
        """
        return written_too(path, report_page(self, sections))

    def to_json(self, path: str | Path | None = None) -> str:
        """Return `record` as JSON text, and write it if a path is given."""
        return written_too(path, json.dumps(self.record(), indent=2, allow_nan=False) + "\n")

    def to_csv(self, folder: str | Path) -> list[Path]:
        """Write ``summary.csv``, ``jobs.csv`` and, if there are any, the others of `save`."""
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
        """Write the tables, ``run.json`` and, if jinja2 is there, ``report.html`` into a folder.

        The tables are ``summary.csv``, ``jobs.csv``, ``schedule.csv.gz`` (`read_schedule`) unless
        time is shared exactly, ``start_costs.csv`` (summaries at other costs of a start), and
        ``prices.csv``, ``iteration_times.csv`` of runs that have them, each replaced in one step.

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
        page = write_page(folder / "report.html", self.to_html)
        return [*files, folder / "run.json", *page]

    def _write_tables(self, folder: str | Path, format: str, of_schedule: str) -> list[Path]:
        folder = Path(folder)
        tables = {"summary": self.summary(), "jobs": self.jobs()}
        costs = [
            {"start_costs": times, **run.summary()}
            for times, runs in sorted({1.0: self.runs, **self.at_other_costs}.items())
            for run in runs.values()
        ]
        tables |= {"start_costs": pd.DataFrame(costs)} if self.at_other_costs else {}
        for name in ("prices", "iteration_times"):
            told = {label: r.tables[name] for label, r in self.runs.items() if name in r.tables}
            tables |= {name: pd.concat(told, names=["policy"]).reset_index()} if told else {}
        for name in ("start_costs", "prices", "iteration_times", "schedule"):
            file = f"{name}.{of_schedule if name == 'schedule' else format}"
            (folder / file).unlink(missing_ok=True)  # of another comparison that was here before
        files = [write_table(folder / f"{name}.{format}", table) for name, table in tables.items()]
        if self.has_schedule:
            files.append(save_schedule(self.schedule(), folder / f"schedule.{of_schedule}"))
        return files

    def __repr__(self) -> str:
        head = f"{len(self)} policies, {len(self.workload.jobs)} jobs of {self.workload.name!r}"
        table = self.human_table(brief=True)
        failed = [f"{label} failed: {text}" for label, text in self.errors.items()]
        said = [f"{head} on {self.cluster}", str(table), table.legend, *failed, *self.notes]
        return "\n".join(said)

    def _repr_html_(self) -> str | None:
        return summary_html(self) if has_templates() else None
