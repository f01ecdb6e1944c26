"""Traces of Gavel (OSDI 2020) and Shockwave (NSDI 2023): tab separated, no column names.

Ten columns in Gavel's physical-cluster traces, seven in its Philly-shaped ones (``traces/msr``),
twelve in Shockwave's. Jobs are numbered from 0 in the order of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from apportion.errors import InputError
from apportion.sim.traces.assemble import from_steps, reference_speeds, throughputs_for
from apportion.sim.traces.table import lines_told, parse_table
from apportion.sim.workload_tables import find_rows

if TYPE_CHECKING:
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.traces.table import TraceTable
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

_GAVEL = (
    "job_type command working_directory num_steps_arg needs_data_dir total_steps scale_factor "
    "priority_weight SLO arrival_time"
)
_PHILLY_SHAPED = (
    "job_type command num_steps_arg needs_data_dir total_steps arrival_time scale_factor"
)
_SHOCKWAVE = (
    "job_type command working_directory num_steps_arg needs_data_dir total_steps scale_factor "
    "mode priority_weight SLO duration arrival_time"
)
_COLUMNS = {len(names.split()): names.split() for names in (_GAVEL, _PHILLY_SHAPED, _SHOCKWAVE)}

FIELD_COUNTS = tuple(sorted(_COLUMNS))
"""Numbers of tab-separated fields that a line may have."""


def is_gavel(file: TextFile) -> bool:
    """Tell a trace by its tabs."""
    return "\t" in file.head


def read_gavel(file: TextFile, options: ReadOptions) -> Workload:
    """Read a trace of Gavel or Shockwave.

    An SLO of -1 means none; any other is a multiple of the duration, which is that of the trace
    (Shockwave) or ``total_steps`` at the speed of the reference accelerator. Shockwave's modes
    (batch sizes that change while a job runs) are not followed; a note says how many jobs have
    them.

    Raises
    ------
    InputError
        For a malformed line, or a job without throughputs, naming the line.
    """
    fields = file.head.count("\t") + 1
    if fields not in _COLUMNS:
        raise InputError(
            f"{file.path}, line {file.first_line}: {fields} tab-separated fields; a trace of "
            f"Gavel has {', '.join(map(str, FIELD_COUNTS[:-1]))}, one of Shockwave "
            f"{FIELD_COUNTS[-1]}."
        )
    table = parse_table(file, separator="\t", names=_COLUMNS[fields])
    columns = {
        "arrival_s": table.numbers("arrival_time", "a number >= 0 (seconds)"),
        "job_type": table.texts("job_type"),
        "scale_factor": table.numbers(
            "scale_factor", "a whole number >= 1 (GPUs)", least=1, whole=True
        ),
        "total_steps": table.numbers("total_steps", "a number > 0 (steps)", strict=True),
    }
    if "priority_weight" in table.rows:
        columns["weight"] = table.numbers("priority_weight", "a number > 0", strict=True)
    if "duration" in table.rows:
        columns["duration_s"] = table.numbers("duration", "a number >= 0 (seconds)")
    jobs = pd.DataFrame(columns)
    if "SLO" in table.rows:
        jobs = _with_deadlines(jobs, table, options)
    lines = jobs.index
    jobs = jobs.assign(arrival_s=jobs["arrival_s"] - jobs["arrival_s"].min())
    return from_steps(file, jobs.reset_index(drop=True), lines, options, _mode_notes(table))


def _with_deadlines(jobs: pd.DataFrame, table: TraceTable, options: ReadOptions) -> pd.DataFrame:
    """Turn SLOs into seconds after arrival; no column if no job has one."""
    slo = table.numbers("SLO", "a multiple of the duration, or -1 for none", least=-1)
    if (slo < 0).all():
        return jobs
    if "duration_s" in jobs:
        return jobs.assign(deadline_s=(slo * jobs["duration_s"]).where(slo > 0))
    throughputs = throughputs_for(jobs, options)
    rows = find_rows(jobs, throughputs)
    speed = reference_speeds(throughputs, options.measured_on).to_numpy()[rows]
    runs = (rows >= 0) & (speed > 0)
    duration = (jobs["total_steps"] / speed).where(runs)
    return jobs.assign(deadline_s=(slo * duration).where(slo > 0))


def _mode_notes(table: TraceTable) -> list[str]:
    """Say how many jobs have a batch size that changes."""
    if "mode" not in table.rows:
        return []
    changing = table.texts("mode") != "static"
    note = "jobs whose batch size changes as they run, read as if it stayed"
    return [f"{note}: {lines_told(changing.index[changing])}"] if changing.any() else []
