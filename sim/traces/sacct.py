"""What Slurm's accounting prints: ``sacct --parsable2``, fields in any order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.sim.traces.assemble import tres_gpus
from apportion.sim.traces.log import Log, from_log, of_one_type, other_lengths, read_log
from apportion.sim.traces.slurm_arrays import array_tasks
from apportion.sim.traces.table import missing_column

if TYPE_CHECKING:
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

NOT_KNOWN = ("Unknown", "None", "N/A", "INVALID")
"""What stands for a time that has not come."""

_ENDLESS = ("UNLIMITED", "Partition_Limit", "INFINITE", *NOT_KNOWN)
_LENGTH = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6})(?::(\d{1,2}(?:\.\d+)?))?")


def seconds_of(cells: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Read ``D-HH:MM:SS``, ``D-HH:MM``, ``D-HH``, ``HH:MM:SS``, ``MM:SS`` and ``MM``.

    Returns
    -------
    Series, Series
        Seconds, NaN where there is no limit and for blank cells; and which cells are none of these.
    """
    read = {cell: _seconds(str(cell)) for cell in cells.dropna().unique()}
    known = cells.map(read).astype(float)
    endless = cells.isna() | cells.isin(_ENDLESS)
    return known, known.isna() & ~endless


def _seconds(text: str) -> float:
    found = _LENGTH.fullmatch(text)
    if found is None:
        return np.nan
    days, first, second, third = found.groups()
    numbers = [float(each) for each in (first, second, third) if each is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0.0, 0.0)[:3]
        return 86400 * float(days) + 3600 * hours + 60 * minutes + seconds
    if first is not None and third is not None:
        return 3600 * numbers[0] + 60 * numbers[1] + numbers[2]
    return 60 * numbers[0] + (numbers[1] if len(numbers) > 1 else 0.0)


COLUMNS = ("JobID", "Submit", "Start", "State")
"""Columns that the export must have, beside one of each of `_GPUS` and `_LENGTHS`."""

SEPARATOR = "|"

STATES = (
    *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("BOOT_FAIL", "DEADLINE", "REQUEUED", "RESIZING", "REVOKED", "PENDING", "RUNNING"),
    *("SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SPECIAL_EXIT", "REQUEUE_HOLD"),
)
"""States of Slurm; of ``CANCELLED by 1001`` the first word counts."""

_GPUS = ("AllocTRES", "ReqTRES")
_LENGTHS = ("ElapsedRaw", "Elapsed", "End")
_KEPT = ("User", "Account", "Partition", "QOS")
"""Columns that jobs keep, as columns of one's own."""
_UNDER_WAY = ("RUNNING", "SUSPENDED", "COMPLETING", "RESIZING", "STOPPED")


def read_sacct(file: TextFile, options: ReadOptions) -> Workload:
    """Read an export of ``sacct``; models are unknown, so job types are drawn.

    A job is a line whose JobID has no ``.``; its steps are left out, as are jobs that asked for no
    GPU or never ran. Those of an array (``41_3``) are jobs of their own. GPUs are what was
    allocated, or, without that, asked for. Of a job that was requeued, whose JobID stands in
    several lines, the last run counts, from the first submission on. A job that is still running
    is taken to end when the log was made. Its type of GPU, start and end are kept
    (``recorded_on``, ``recorded_start_s``, ``recorded_end_s``), as are user, account, partition,
    QOS and state, and the time limit. Its account, else its user, is the entity.

    Lines that cannot be read are left out; notes tell them by number, and all that was assumed.

    Raises
    ------
    InputError
        For a missing column, an unknown state in ``options.states``, and a log without a job that
        ran on a GPU.
    """
    log = read_log(file, SEPARATOR)
    for names in (*((each,) for each in COLUMNS), _GPUS, _LENGTHS):
        if not any(name in log.table.rows for name in names):
            raise missing_column(file, names[0], log.table.rows.columns)
    ids = log.table.texts("JobID")
    steps = ids.str.contains(r"\.[^.\]]")  # and not a list of tasks that is cut off, 7_[1,3,...]
    log.leave_out(steps, "they are steps of jobs")
    first_s = log.table.times("Submit").groupby(ids).min()
    by_type = _gpus(log)
    gpus = of_one_type(by_type)
    log.leave_out(gpus["scale_factor"] == 0, "they asked for no GPU")
    if options.throughputs is None:
        log.leave_out_gangs_on_slices(gpus["scale_factor"], gpus["recorded_on"])
    state = _states(log, options)
    jobs = pd.concat([gpus, _times(log, state)], axis=1, join="inner")
    jobs = jobs.assign(job=log.table.texts("JobID"), state=state)
    for name in _KEPT:
        if name in log.table.rows:
            jobs[name.lower()] = log.table.texts(name, optional=True)
    jobs = _last_runs(log, log.readable(jobs))
    jobs["arrival_s"] = jobs["job"].map(first_s)
    log.say_types(jobs, by_type)
    differs, by = other_lengths(jobs)
    log.say(differs, f"Elapsed is not from Start to End, and counts, {by}")
    return from_log(log, _with_entity(jobs), options)


def _gpus(log: Log) -> pd.Series:
    """Return how many GPUs of each type a line has; 1 where that cannot be read."""
    table = log.table
    present = [table.texts(name, optional=True) for name in _GPUS if name in table.rows]
    cells = present[0]
    for other in present[1:]:
        cells = cells.where(cells != "", other)
    read = {cell: tres_gpus(cell) for cell in cells.unique()}
    wrong = cells.map(lambda cell: read[cell] is None)
    table.refuse(cells.rename("TRES"), wrong, "like gres/gpu:a100=4 where it counts GPUs")
    return cells.map(lambda cell: {"": 1} if read[cell] is None else read[cell])


def _states(log: Log, options: ReadOptions) -> pd.Series:
    """Return the states; leave out the jobs in others than those asked for."""
    cells = log.table.texts("State")
    first = cells.str.split().str[0].str.rstrip("+")
    full = {
        name: next((each for each in STATES if len(name) > 3 and each.startswith(name)), "")
        for name in first.dropna().unique()
    }
    state = first.map(full).fillna("").astype(str)
    log.table.refuse(cells, state == "", f"one of {', '.join(STATES)}")
    if options.states is not None:
        log.leave_out(~state.isin([*options.states, ""]), "they are in another state")
    return state[state.index.isin(log.table.rows.index)]


def _times(log: Log, state: pd.Series) -> pd.DataFrame:
    """Return arrival, start, end and length of each job; leave out those that never ran."""
    table = log.table
    start_s, took_s = table.times("Start", NOT_KNOWN), _took_s(log)
    end_s = pd.Series(np.nan, index=start_s.index)
    if "End" in table.rows:
        end_s = table.times("End", NOT_KNOWN)
    idle = took_s.eq(0) | (start_s.isna() & took_s.isna()) | start_s.eq(end_s)
    waiting = idle & state.isin(["PENDING", "CONFIGURING", "REQUEUE_HOLD"])
    log.leave_out(waiting, f"they have not started (PENDING{_in_arrays(log, waiting)})")
    log.leave_out(idle & ~waiting, f"they never ran{_in_arrays(log, idle & ~waiting)}")
    submit_s = log.table.times("Submit")
    seen_s = max(submit_s.max(), start_s.max(), end_s.max())
    start_s, took_s, end_s = (each[submit_s.index] for each in (start_s, took_s, end_s))
    state, table = state[submit_s.index], log.table
    open_end = end_s.isna()
    known_s = took_s.fillna(seen_s - start_s)
    end_s = end_s.fillna(start_s + known_s)
    took_s = took_s.fillna(end_s - start_s)
    running = open_end & state.isin(_UNDER_WAY)
    log.say(running, "still running, taken to end when the log was made")
    log.say(open_end & ~running, "without End, taken to end after Start and Elapsed")
    cells = table.texts("Start")
    table.refuse(cells, start_s.isna(), "a date-time, as the job ran")
    table.refuse(cells, start_s < submit_s, "at Submit or later")
    last = table.texts("End") if "End" in table.rows else cells
    table.refuse(last, end_s < start_s, "at Start or later")
    columns = {"arrival_s": submit_s, "duration_s": took_s, "recorded_start_s": start_s}
    columns |= {"recorded_end_s": end_s, "time_limit_s": _limit_s(log)}
    return pd.DataFrame(columns)


def _in_arrays(log: Log, which: pd.Series) -> str:
    """Say how many jobs some lines stand for, where one has several tasks of an array."""
    ids = log.table.texts("JobID")[which[which].index]
    arrays = [array_tasks(each) for each in ids[ids.str.contains("[", regex=False)]]
    if not arrays:
        return ""
    jobs = len(ids) - len(arrays) + sum(len(each[0]) for each in arrays if each)
    return f"; with all tasks of arrays {'at least ' * (None in arrays)}{jobs:,} jobs"


def _took_s(log: Log) -> pd.Series:
    """Return for how long each job has run, as far as a column says so."""
    table = log.table
    if "ElapsedRaw" in table.rows:
        return table.numbers("ElapsedRaw", "a number >= 0 (seconds)", optional=True)
    if "Elapsed" in table.rows:
        return _length_s(log, "Elapsed")
    return pd.Series(np.nan, index=table.rows.index)


def _limit_s(log: Log) -> pd.Series:
    """Return the time limits; NaN where there are none."""
    for name in ("TimelimitRaw", "Timelimit"):  # both may be minutes
        if name in log.table.rows:
            limit_s = _length_s(log, name)
            return limit_s.where(limit_s > 0)
    return pd.Series(np.nan, index=log.table.rows.index)


def _length_s(log: Log, column: str) -> pd.Series:
    cells = log.table.rows[column]
    length_s, wrong = seconds_of(cells)
    log.table.refuse(cells, wrong, "a length of time such as 1-12:30:00")
    return length_s


def _last_runs(log: Log, jobs: pd.DataFrame) -> pd.DataFrame:
    jobs = jobs.sort_values("recorded_start_s", kind="stable")
    earlier = jobs["job"].duplicated(keep="last")
    hours = (jobs["scale_factor"] * jobs["duration_s"])[earlier].sum() / 3600
    log.say(
        earlier.sort_index(),
        f"left out because they are earlier runs of jobs that were requeued ({hours:,.1f} "
        f"GPU-hours), whose last run counts, from the first submission on",
    )
    return jobs[~earlier].sort_index()


def _with_entity(jobs: pd.DataFrame) -> pd.DataFrame:
    """Let the account, else the user, be the entity."""
    for name in ("account", "user"):
        if name in jobs and (jobs[name] != "").all():
            return jobs.assign(entity=jobs[name])
    return jobs
