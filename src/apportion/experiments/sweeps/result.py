"""What a sweep has found: one row per run, means and ranges over seeds, plots, files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.errors import ApportionError, InputError
from apportion.experiments.comparisons.possible import nearest_in_words
from apportion.experiments.provenance import plain
from apportion.experiments.sweeps.figures import differences_at, over_seeds, same_at_all_seeds
from apportion.experiments.sweeps.page import plot_against_load, readable_tables, sweep_page
from apportion.report.files import (
    has_templates,
    part,
    table_html,
    write_page,
    write_table,
    write_text,
    written_too,
)
from apportion.report.found import group_table
from apportion.sim.fingerprint import versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from apportion.experiments.plan import Plan
    from apportion.statistics.typeset import HumanTable

_GROUPS = "groups"


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """What `apportion.sweep` returns.

    Attributes
    ----------
    rows
        A mapping per run, in the order of the plan; ``error`` is None, or says why it failed.
    plan
        All that was to be run.
    resumed
        How many of the runs were finished before.
    """

    rows: tuple[Mapping[str, Any], ...]
    plan: Plan
    resumed: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def point(self) -> list[str]:
        """What tells a point of the sweep: columns of its tables, ``cluster`` where of several."""
        several = ["cluster"] if self.plan.setup.clusters else []
        return ["policy", "workload", *several, "load"]

    @property
    def clusters(self) -> str:
        """The clusters as they are written."""
        setup = self.plan.setup
        return " and ".join(map(str, setup.clusters or [setup.cluster]))

    def table(self) -> pd.DataFrame:
        """One row per run: policy, workload, load, seed, the figures of `Run.summary`, error.

        Figures are NaN where the run failed; ``error`` is None where it did not.
        """
        table = pd.DataFrame(list(self.rows)).drop(columns=_GROUPS, errors="ignore")
        error = table.pop("error").astype(object)
        return table.assign(error=error.where(error.notna(), None))

    def errors(self) -> pd.DataFrame:
        """Return the label and the error of each run that failed."""
        table = self.table()
        named = [*self.point, "seed", "error"]
        return table.loc[table["error"].notna(), named].reset_index(drop=True)

    def failure(self) -> ApportionError | None:
        """Return an error that counts the runs that failed and tells the first; None without."""
        errors = self.errors()
        if errors.empty:
            return None
        counts = errors["policy"].value_counts(sort=False)
        named = ", ".join(f"{name!r} {count}" for name, count in counts.items())
        first = errors.iloc[0]
        return ApportionError(
            f"{len(errors)} of {len(self)} runs failed, by policy: {named}. The first, of policy "
            f"{first['policy']!r}, workload {first['workload']!r}, load {first['load']:g} and seed "
            f"{first['seed']}: {first['error']} The column 'error' of the runs has them all."
        )

    def summary(self) -> pd.DataFrame:
        """One row per policy, workload and load, over the seeds that did not fail.

        Returns
        -------
        DataFrame
            ``policy``, ``workload``, ``cluster`` where of several, ``load``, ``seeds`` (their
            number), and of each figure the mean under its own name, ``<figure>_lowest`` and
            ``<figure>_highest``; of texts (``kept_on_average``) what any run says.
        """
        return over_seeds(self.table(), self.point)

    def by(self) -> pd.DataFrame:
        """One row per run and group of jobs: those of a user, an entity, a partition.

        Returns
        -------
        DataFrame
            ``policy``, ``workload``, ``cluster`` where of several, ``load``, ``seed``, the column
            that `apportion.sweep` was given as ``by``, and those of `Run.by`. Runs that failed have
            no rows.

        Raises
        ------
        InputError
            If the sweep was given none.
        """
        if self.plan.setup.by is None:
            raise InputError("This sweep has no groups of jobs; give sweep(by='user').")
        rows = [
            {name: row[name] for name in (*self.point, "seed")} | group
            for row in self.rows
            for group in row.get(_GROUPS, [])
        ]
        return pd.DataFrame(rows)

    def group_tables(self) -> dict[str, HumanTable]:
        """Return what groups had, means over the seeds in human units, a table per workload.

        Raises
        ------
        InputError
            As `by`.
        """
        table, column = self.by(), self.plan.setup.by
        keys = ["workload", *[name for name in self.point if name != "workload"], column]
        table["load"] = table["load"].map("{:g}".format)
        means = table.drop(columns="seed").groupby(keys, sort=False, dropna=False).mean()
        found = means.reset_index().groupby("workload", sort=False)
        count = len(keys) - 1
        return {
            str(name): group_table(rows.drop(columns="workload"), count) for name, rows in found
        }

    def human_tables(self) -> dict[str, HumanTable]:
        """Return the summary in human units, a table per workload.

        The best are marked where the seeds, which all policies share, tell them from noise.
        """
        return readable_tables(self.summary(), self.table())

    def possible(self) -> dict[str, list[str]]:
        """Say by workload how near the best policy is to anything possible, a line per point."""
        return nearest_in_words(self.table(), self.plan)

    def differences(self, against: str, level: float = 0.95) -> pd.DataFrame:
        """By how much figures differ from those of one policy, with intervals paired by seed.

        Parameters
        ----------
        against, level
            As for `apportion.statistics.differences_of`.

        Returns
        -------
        DataFrame
            ``workload``, ``cluster`` where of several, ``load``, and the columns that are described
            there. Of seeds at which no policy failed.

        Raises
        ------
        InputError
            For a policy that has no run, and a level that is none.
        """
        return differences_at(self.table(), self.summary(), self.point[1:], against, level)

    @property
    def notes(self) -> list[str]:
        """What the plan says of the workloads, and whether the seeds made no difference."""
        summary, notes = self.summary(), list(self.plan.notes)
        several = (summary["seeds"] > 1).any() and not self.plan.setup.resample
        if several and same_at_all_seeds(summary):
            notes.append(
                "all seeds give the same figures, as nothing here is drawn; resampling "
                "(resample=True, --resample) draws the jobs anew for each"
            )
        return notes

    def plot(self, metric: str = "mean_jct_s") -> Figure:
        """Draw a figure of the summary against load: the mean, shaded from lowest to highest.

        Parameters
        ----------
        metric
            A figure of `Run.summary`.

        Raises
        ------
        InputError
            For an unknown figure.
        ApportionError
            If matplotlib is not installed.
        """
        return plot_against_load(self.summary(), metric)

    def record(self) -> dict[str, Any]:
        """Return what ``sweep.json`` holds: all that it takes to repeat the sweep."""
        setup = self.plan.setup
        clusters = [plain(asdict(each)) for each in setup.clusters]
        labels = {"policies": "policy", "workloads": "workload", "loads": "load", "seeds": "seed"}
        varied = {
            name: list(dict.fromkeys(cell.label[one] for cell in self.plan.cells))
            for name, one in labels.items()
        }
        return {
            **varied,
            "resample": setup.resample,
            "sources": {name: plain(source.record()) for name, source in setup.sources.items()},
            "notes": self.notes,
            "cluster": plain(asdict(setup.cluster)),
            **({"clusters": clusters} if clusters else {}),
            "settings": plain(setup.settings),
            **({"settings_by_policy": plain(setup.by_policy)} if setup.by_policy else {}),
            "versions": versions(),
        }

    def save(self, folder: str | Path, *, format: str = "csv") -> list[Path]:
        """Write ``runs``, ``summary`` (csv or parquet), ``sweep.json`` and ``report.html``.

        Of a sweep by groups of jobs also ``groups``; without jinja2 no report. Each file is
        replaced in one step.

        Raises
        ------
        InputError
            If the folder cannot be written, or for an unknown format.
        ApportionError
            For parquet if pyarrow is not installed.
        """
        folder = Path(folder)
        tables = {"runs": self.table(), "summary": self.summary()}
        tables |= {} if self.plan.setup.by is None else {_GROUPS: self.by()}
        files = [write_table(folder / f"{name}.{format}", each) for name, each in tables.items()]
        text = json.dumps(self.record(), indent=2, allow_nan=False) + "\n"
        page = write_page(folder / "report.html", self.to_html)
        return [*files, write_text(folder / "sweep.json", text), *page]

    def to_html(self, path: str | Path | None = None, *, against: str | None = None) -> str:
        """Return the report as one self-contained HTML page, and write it if a path is given.

        Parameters
        ----------
        path
            Of the file.
        against
            The policy that others are set against; by default the first.

        Raises
        ------
        InputError
            For a policy that has no run.
        ApportionError
            If jinja2 is not installed.
        """
        return written_too(path, sweep_page(self, against))

    def __repr__(self) -> str:
        failed = len(self.errors())
        head = f"{len(self)} runs on {self.clusters}" + (f", {failed} failed" * (failed > 0))
        tables = self.human_tables()
        return "\n\n".join([head, *(f"{name}\n{table}" for name, table in tables.items())])

    def _repr_html_(self) -> str | None:
        if not has_templates():
            return None
        head, *_ = repr(self).splitlines()
        tables = [table_html(table, "", name) for name, table in self.human_tables().items()]
        return "".join([part("text", head), *tables])
