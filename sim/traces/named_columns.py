"""Any csv, by what its columns mean: ``submit=arrival_s,runtime_min=duration_s``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_COUNT
from apportion.errors import InputError, written
from apportion.jobs import RECORDED_TIMES, column_named
from apportion.sim.traces.jobs_csv import jobs_column
from apportion.sim.traces.log import from_log, other_lengths, pods_column, pods_notes, read_log
from apportion.sim.traces.sacct import NOT_KNOWN, seconds_of
from apportion.sim.traces.table import missing_column, separator_of

if TYPE_CHECKING:
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.traces.log import Log
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_LENGTHS = ("duration_s", "time_limit_s", "deadline_s")
_TIMES = ("arrival_s", *RECORDED_TIMES)
_ENDING = re.compile(r"(.+)_(s|min|h|d)")
_WORKERS = "workers"
"""Means how many pods or workers a job has, of ``scale_factor`` GPUs each."""

_OFTEN = {
    "arrival_s": r"submi|arriv|creat|queued_at|came",
    "duration_s": r"duration|run_?time|elapsed",
    "scale_factor": r"(num|n|req|alloc)?_?(gpu|device|accelerator)s?"
    r"(_?(num|count|alloc|req(uest)?))?",
    "recorded_start_s": r"(job_?)?(start(ed)?|began|begin)(_?(time|at|date))?",
    "recorded_end_s": r"(job_?)?(end(ed)?|finish(ed)?|completed|completion|stopped)"
    r"(_?(time|at|date))?",
    "recorded_on": r"(gpu|accelerator|device)_?(type|model|name)",
    "user": r"user(_?(name|id))?|who|owner",
    "job": r"(job_?)?id|job",
}
"""What columns are often called: part of the name for times, all of it for the others."""


def likely_columns(names: Sequence[str]) -> str:
    """Write what columns of these names may mean: ``submitted=arrival_s,runtime=duration_s``.

    A proposal to be read, for messages: nothing is taken to mean so unless it is said. Without
    names for an arrival, and a duration or a start and an end, it is the documentation's example.
    """
    names = [name for name in names if name and not set(name) & set("=,'\"")]
    pods = pods_column(names)
    likely: dict[str, str] = {}
    for meant, often in _OFTEN.items():
        whole = meant not in ("arrival_s", "duration_s")
        find = (
            re.compile(often, re.IGNORECASE).fullmatch if whole else re.compile(often, re.I).search
        )
        found = next((name for name in names if name not in likely and find(name)), None)
        if found is not None:
            likely[found] = meant
    meant_by_some = {*likely.values()}
    if "arrival_s" not in meant_by_some or not (
        "duration_s" in meant_by_some or {*RECORDED_TIMES} <= meant_by_some
    ):
        return "submit=arrival_s,runtime_min=duration_s"
    if pods is not None and "scale_factor" in meant_by_some and pods not in likely:
        likely[pods] = _WORKERS
    return ",".join(f"{name}={meant}" for name, meant in likely.items())


def meanings(columns: Any) -> dict[str, tuple[str, float]]:
    """Return what the columns of a csv mean, and how many seconds a unit of them has.

    Parameters
    ----------
    columns
        A mapping from the columns of the csv to those of a jobs table, ``job`` for the ids,
        ``workers`` for how many times its ``scale_factor`` a job has, and columns of one's own; or
        a text, ``"submit=arrival_s,runtime_min=duration_s"``. Times are in the unit by which either
        name ends: ``_s``, ``_min``, ``_h``, ``_d``.

    Raises
    ------
    InputError
        For what is neither, a misspelt column of the jobs table, one that is meant twice, and two
        units for one column.
    """
    if isinstance(columns, str):
        pairs = [each.partition("=")[::2] for each in columns.split(",") if each.strip()]
        columns = {name.strip(): meant.strip() for name, meant in pairs}
    if not isinstance(columns, Mapping) or not columns:
        raise InputError(
            f"columns is {written(columns)}; it must say what columns mean, such as "
            f"'submit=arrival_s,runtime_min=duration_s'."
        )
    found: dict[str, tuple[str, float]] = {}
    for name, meant in columns.items():
        found[str(name)] = _meaning(str(name), str(meant))
    targets = [target for target, _ in found.values()]
    for target in targets:
        if targets.count(target) > 1:
            twice = " and ".join(name for name, (each, _) in found.items() if each == target)
            raise InputError(f"columns: {twice} both mean {target!r}; leave out one of them.")
    return found


def read_named_columns(file: TextFile, options: ReadOptions, columns: Any) -> Workload:
    """Read a csv whose columns mean what `columns` says; others are left out, and named in a note.

    Cells lie between the `SEPARATORS` of which the line of names has most.
    Times are numbers, or dates as in ISO 8601, without a zone UTC; lengths of time are numbers, or
    as in ``1-12:30:00``. There must be an arrival, and a duration, or recorded start and end, or
    job type and steps. Without GPUs (``scale_factor``) every job has one, and a note says so.
    ``workers`` multiply them. GPUs are whole here: a job with a part of one has it alone, and a
    note says how much that adds. Lines that cannot be read are left out and told in the notes.

    Raises
    ------
    InputError
        As `meanings`; for a column that the csv does not have, and one that is missing.
    """
    meant = meanings(columns)
    log = read_log(file, separator_of(file))
    present = log.table.rows.columns
    others = [name for name in present if name not in meant]
    notes = pods_notes(log.table.rows[others])
    jobs = jobs_of(log, meant, options)
    notes += [f"columns that were not read: {', '.join(others)}"] if others else []
    targets = {target for target, _ in meant.values()}
    if "scale_factor" not in targets:
        each = "worker" if _WORKERS in targets else "job"
        notes.append(f"the log tells no GPUs: each {each} is taken to have one")
    if {"duration_s", *RECORDED_TIMES} <= targets:
        differs, by = other_lengths(jobs)
        log.say(differs, f"duration_s is not from recorded start to end, and counts, {by}")
    return from_log(log, jobs, options, notes)


def jobs_of(log: Log, meant: Mapping[str, tuple[str, float]], options: ReadOptions) -> pd.DataFrame:
    """Return the jobs of a log by line, checked; leave out those without GPUs or of no length.

    Parameters
    ----------
    log
        Takes down what is left out, and which parts of GPUs are taken for whole ones.
    meant
        What columns of the log mean, and how many seconds a unit of them has, see `meanings`.
    options
        Whether speeds of jobs on several slices of GPUs are known.

    Raises
    ------
    InputError
        For a column that the log does not have, a meaning that is missing, and a log without a job
        that ran on a GPU.
    """
    for name in meant:
        if name not in log.table.rows:
            raise missing_column(log.table.file, name, log.table.rows.columns)
    columns = {target: (name, seconds) for name, (target, seconds) in meant.items()}
    gpus = _gpus(log, columns)
    log.leave_out(gpus == 0, "they asked for no GPU")
    jobs = _columns(log, columns, np.ceil(gpus).astype(np.int64))
    if "duration_s" in jobs and "total_steps" not in jobs:
        log.leave_out(jobs["duration_s"].isna(), "they have no duration, or no start and end")
        log.leave_out(jobs["duration_s"] == 0, "they never ran")
    if options.throughputs is None and "recorded_on" in jobs:
        log.leave_out_gangs_on_slices(jobs["scale_factor"], jobs["recorded_on"])
    jobs = log.readable(jobs)
    if jobs.empty:
        raise log.nothing_left()
    added = jobs["scale_factor"] - gpus[jobs.index]
    more = f"{added.sum():,.1f} GPUs"
    if "duration_s" in jobs:
        more = f"{(added * jobs['duration_s']).sum() / 3600:,.1f} GPU-hours"
    log.say(added > 0, f"parts of GPUs taken for whole ones, {more} more")
    return jobs


def _gpus(log: Log, columns: Mapping[str, tuple[str, float]]) -> pd.Series:
    """Return the GPUs of each line, of which there may be parts: those of a worker, times these."""
    gpus = pd.Series(1.0, index=log.table.rows.index)
    for target, valid in (
        ("scale_factor", "a number >= 0 (GPUs)"),
        (_WORKERS, "a whole number >= 0"),
    ):
        if target in columns:
            name, whole = columns[target][0], target == _WORKERS
            each = log.table.numbers(name, valid, most=LARGEST_COUNT, whole=whole)
            gpus *= each.where(np.isfinite(each), 0.0)
    return gpus.round(6)  # 10 workers of .7 GPUs have 7


def _columns(log: Log, columns: Mapping[str, tuple[str, float]], gpus: pd.Series) -> pd.DataFrame:
    """Return the columns of a jobs table, and the ids, by line."""
    jobs = {"scale_factor": gpus[log.table.rows.index]}
    for target, (name, seconds) in columns.items():
        if target == "job":
            jobs[target] = log.ids(name)
        elif target in _TIMES:
            jobs[target] = _time_s(log, name, seconds, optional=target in RECORDED_TIMES)
        elif target in _LENGTHS:
            jobs[target] = _length_s(log, name, seconds)
        elif target == "scale_factor":
            jobs[target] = jobs.pop(target)  # at its place among the columns
        elif target != _WORKERS:
            jobs[target] = jobs_column(log.table, name, meant=target)
    if "arrival_s" not in jobs:
        raise InputError("columns: nothing means arrival_s, such as 'submit=arrival_s'.")
    for earlier, later in pairwise(target for target in _TIMES if target in jobs):
        log.refuse_before(columns[earlier][0], jobs[earlier], columns[later][0], jobs[later])
    if "duration_s" not in jobs and all(name in jobs for name in RECORDED_TIMES):
        jobs["duration_s"] = jobs["recorded_end_s"] - jobs["recorded_start_s"]
    if "duration_s" not in jobs and not {"job_type", "total_steps"} <= jobs.keys():
        raise InputError(
            "columns: nothing means duration_s, such as 'runtime_min=duration_s'; or give "
            "recorded_start_s and recorded_end_s, or job_type and total_steps."
        )
    return pd.DataFrame(jobs)


def _time_s(log: Log, name: str, seconds: float, *, optional: bool) -> pd.Series:
    """Return a column of times: numbers, or dates."""
    table = log.table
    if _are_numbers(table.rows[name]):
        return seconds * table.numbers(name, "a number >= 0", optional=optional)
    return table.times(name, NOT_KNOWN if optional else None)


def _length_s(log: Log, name: str, seconds: float) -> pd.Series:
    """Return a column of lengths of time: numbers, or texts such as ``1-12:30:00``."""
    cells = log.table.rows[name]
    if _are_numbers(cells):
        return seconds * log.table.numbers(name, "a number >= 0", optional=True)
    length_s, wrong = seconds_of(cells)
    log.table.refuse(cells, wrong, "a number, or a length of time such as 1-12:30:00")
    return length_s


def _are_numbers(cells: pd.Series) -> bool:
    """Whether most cells are numbers: of dates with a typing error most are dates."""
    known = cells.dropna()
    return bool(pd.to_numeric(known, errors="coerce").notna().mean() >= 0.5) or known.empty


def _meaning(name: str, meant: str) -> tuple[str, float]:
    """Return the column of the jobs table, and how many seconds a unit has."""
    target, unit = meant, None
    ending = _ENDING.fullmatch(meant)
    if ending and f"{ending[1]}_s" in (*_TIMES, *_LENGTHS):
        target, unit = f"{ending[1]}_s", ending[2]
    if target != "job":
        column_named(target, f"meaning of column {name!r}:")
    if target not in (*_TIMES, *_LENGTHS):
        return target, 1.0
    own = _ENDING.fullmatch(name)
    if own is None or unit == own[2]:
        return target, _UNITS[unit or "s"]
    if unit not in (None, "s"):
        raise InputError(f"columns: {name}={meant} names two units, {own[2]} and {unit}.")
    return target, _UNITS[own[2]]
