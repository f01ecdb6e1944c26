"""Traces of SenseTime's Helios clusters (Hu et al., SC 2021): csv of finished Slurm jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from apportion.errors import unknown_name
from apportion.jobs import RECORDED_TIMES
from apportion.sim.traces.assemble import from_durations
from apportion.sim.traces.log import other_lengths, pods_notes
from apportion.sim.traces.sacct import NOT_KNOWN
from apportion.sim.traces.table import left_out, lines_told, parse_table

if TYPE_CHECKING:
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.traces.table import TraceTable
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

COLUMNS = ("job_id", "gpu_num", "state", "submit_time", "duration")
"""Columns that the csv must have; ``vc``, the virtual cluster, or ``user`` becomes the entity."""

STATES = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")
"""How a job may have ended."""


def read_helios(file: TextFile, options: ReadOptions) -> Workload:
    """Read a Helios trace without its CPU jobs; models are unknown, so job types are drawn.

    Jobs that never ran (duration 0 or blank, no start) are left out. Those that failed or were
    cancelled held their GPUs all the same and are kept, unless ``options.states`` says otherwise.
    Where ``start_time`` and ``end_time`` of all jobs can be, the schedule of the log is known, and
    a duration is from start to end, whatever the column says. State, user and what kind of work a
    job does (``type``, in the traces of Acme) are kept as columns of one's own.

    Raises
    ------
    InputError
        For a missing column, a job id that stands twice, an unknown state or a malformed line.
    """
    table, notes = _gpu_jobs(parse_table(file))
    table, state_notes = _in_states(table, options)
    table, idle_notes = _with_duration(table)
    jobs = pd.DataFrame(
        {
            "arrival_s": table.times("submit_time"),
            "duration_s": table.numbers("duration", "a number >= 0 (seconds)"),
            "scale_factor": table.numbers("gpu_num", "a whole number >= 0 (GPUs)", whole=True),
        }
    )
    for column in ("user", "vc"):
        if column in table.rows:
            jobs["entity"] = table.texts(column, optional=True)
    for column in _KEPT:
        if column in table.rows:
            jobs[column] = table.texts(column, optional=True)
    jobs, when_notes = _as_recorded(table, jobs)
    ids, idle = table.unique("job_id"), jobs["duration_s"] == 0
    _, never_notes = left_out(table, idle, "never ran (duration 0)")
    jobs = jobs[~idle].set_axis(ids[jobs.index[~idle]])
    notes += [*state_notes, *idle_notes, *when_notes, *never_notes, *pods_notes(table.rows)]
    return from_durations(file, jobs, options, notes)


_KEPT = ("user", "state", "type")
"""Columns that jobs keep, as columns of one's own."""


def _as_recorded(table: TraceTable, jobs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Add when each job started and ended, if that is told of all that ran, and can be."""
    if not {"start_time", "end_time"} <= set(table.rows):
        return jobs, []
    start_s, end_s = (table.times(name, NOT_KNOWN) for name in ("start_time", "end_time"))
    notes = []
    idle = start_s.isna() & bool(start_s.notna().any()) & (jobs["duration_s"] > 0)
    if idle.any():
        hours = (jobs["scale_factor"] * jobs["duration_s"])[idle].sum() / 3600
        what = f"jobs left out because they have no start_time ({hours:,.1f} GPU-hours by duration)"
        notes.append(f"{what}: {lines_told(jobs.index[idle])}")
    jobs = jobs[~idle].assign(recorded_start_s=start_s, recorded_end_s=end_s)
    ran = jobs["duration_s"] > 0
    start_s, end_s = (jobs[name] for name in RECORDED_TIMES)
    odd = ran & ~((jobs["arrival_s"] <= start_s) & (start_s <= end_s))
    if odd.any():
        what = "start before they were submitted, or do not end after that"
        notes.append(
            f"starts and ends do not count; jobs that {what}: {lines_told(odd[odd].index)}"
        )
        return jobs.drop(columns=[*RECORDED_TIMES]), notes
    differs, by = other_lengths(jobs)
    if differs.any():
        what = f"duration is not from start to end, which counts; by duration {by}"
        notes.append(f"{what}: {lines_told(jobs.index[differs])}")
    return jobs.assign(duration_s=jobs["duration_s"].mask(differs, end_s - start_s)), notes


def _gpu_jobs(table: TraceTable) -> tuple[TraceTable, list[str]]:
    """Leave out the jobs that asked for no GPU."""
    cpu_only = table.numbers("gpu_num", "a whole number >= 0 (GPUs)", whole=True) == 0
    return left_out(table, cpu_only, "asked for no GPU")


def _in_states(table: TraceTable, options: ReadOptions) -> tuple[TraceTable, list[str]]:
    """Leave out the jobs that ended in other states than those asked for."""
    state = table.texts("state")
    known = state.isin(STATES)
    if not known.all():
        line = state.index[~known][0]
        raise unknown_name(f"state in {table.file.path}, line {line}:", state[line], STATES)
    others = ~state.isin(STATES if options.states is None else options.states)
    return left_out(table, others, "ended in another state")


def _with_duration(table: TraceTable) -> tuple[TraceTable, list[str]]:
    """Leave out the jobs whose duration is blank."""
    return left_out(table, table.rows["duration"].isna(), "have no duration")
