"""Your own jobs in a csv: the columns of `apportion.JOB_COLUMNS`, and ``job`` for the id."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pandas as pd

from apportion.errors import unknown_name
from apportion.jobs import column_named
from apportion.sim.traces.assemble import from_steps
from apportion.sim.traces.oracle import read_throughputs
from apportion.sim.traces.table import missing_column, parse_table
from apportion.sim.workload_tables import THROUGHPUTS, kind_of, texts_told
from apportion.whole_files import beside

if TYPE_CHECKING:
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.traces.table import TraceTable
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

COLUMNS = ("job_type", "total_steps")
"""Columns that the csv must have."""


def read_jobs_csv(file: TextFile, options: ReadOptions) -> Workload:
    """Read a jobs table, e.g. one that `Workload.save` wrote.

    Throughputs come from the options, else from ``<name>.throughputs.csv`` next to the file, else
    from the table of job types. Leading ``#`` lines become notes, but for one such as
    ``# texts: ["project"]``, which says that columns hold texts, whatever they look like. Without a
    column ``job`` the jobs are numbered from 0.

    Raises
    ------
    InputError
        For unknown columns, ids that stand twice, and values out of range, naming the line.
    """
    table = parse_table(file)
    for name in COLUMNS:
        if name not in table.rows:
            raise missing_column(file, name, table.rows.columns)
    jobs = jobs_of(table, "job")
    lines = jobs.index
    jobs = jobs.assign(scale_factor=jobs.get("scale_factor", 1))
    jobs = jobs.set_axis(_ids(table))
    other = beside(file.path, THROUGHPUTS)
    if options.throughputs is None and other is not None and other.exists():
        options = dataclasses.replace(options, throughputs=read_throughputs(other))
    notes = [each for each in file.comments if texts_told(each) is None]
    return from_steps(file, jobs, lines, options, notes)


def _ids(table: TraceTable) -> pd.Series | pd.RangeIndex:
    """Return the ids of the jobs: numbers if all are written so and are not said to be texts."""
    if "job" not in table.rows:
        return pd.RangeIndex(len(table.rows))
    return table.unique("job") if "job" in _texts(table) else table.ids("job")


def _texts(table: TraceTable) -> list[str]:
    """Return the columns that the comments above a table say to hold texts.

    Raises
    ------
    InputError
        For one that the table does not have.
    """
    names = [name for each in table.file.comments for name in texts_told(each) or ()]
    for name in names:
        if name not in table.rows:
            where = f"column in the line # texts of {table.file.path}:"
            raise unknown_name(where, name, table.rows.columns)
    return names


def jobs_of(table: TraceTable, job: str) -> pd.DataFrame:
    """Return the columns of a jobs table by line, each checked; `job` is that of the ids.

    Raises
    ------
    InputError
        For unknown columns, and values out of range, naming the line.
    """
    for name in table.rows.columns:
        if name != job:
            column_named(name, f"column in {table.file.path}:")
    kinds = dict.fromkeys(_texts(table), "text")
    columns = {
        name: jobs_column(table, name, kinds.get(name))
        for name in table.rows.columns
        if name != job
    }
    return pd.DataFrame(columns, index=table.rows.index)


def jobs_column(
    table: TraceTable, name: str, kind: str | None = None, *, meant: str | None = None
) -> pd.Series:
    """Return one column of the jobs table, checked line by line.

    Parameters
    ----------
    table, name
        The file, and the column.
    kind
        What a column of one's own holds, ``"number"``, ``"truth"`` or ``"text"``, if that is known.
    meant
        The column of the jobs table that it means; that of its name by default.

    Raises
    ------
    InputError
        For a misspelt column, and values out of range, naming the line.
    """
    column = column_named(meant or name, f"column in {table.file.path}:")
    if column.kind == "own":
        kind = kind or kind_of(table.rows[name])
        if kind == "truth":
            return table.rows[name] == "True"
        if kind == "text":
            return table.texts(name, optional=True)
        return table.numbers(name, column.valid, least=column.least, optional=True)
    if column.kind == "truth":
        cells = table.texts(name)
        table.refuse(cells, ~cells.isin(["True", "False"]), f"{column.valid} ({column.meaning})")
        return cells == "True"
    if column.kind == "text":
        return table.texts(name, optional=column.optional)
    return table.numbers(
        name,
        f"{column.valid} ({column.meaning})",
        least=column.least,
        strict=column.strict,
        whole=column.kind == "count",
        optional=column.optional,
    )
