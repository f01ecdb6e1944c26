"""Traces of Microsoft's ITP clusters: csv with arrival, duration and GPUs of every job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from apportion.sim.traces.assemble import from_durations
from apportion.sim.traces.log import pods_notes
from apportion.sim.traces.table import left_out, parse_table

if TYPE_CHECKING:
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")
"""Columns that the csv must have; times in seconds."""


def read_microsoft_itp(file: TextFile, options: ReadOptions) -> Workload:
    """Read an ITP trace; its models are unknown, so job types are drawn.

    Raises
    ------
    InputError
        For a missing column, a job id that stands twice, or a malformed line.
    """
    table = parse_table(file)
    idle = table.numbers("duration", "a number >= 0 (seconds)") == 0
    whole, notes = table, pods_notes(table.rows)
    table, idle_notes = left_out(table, idle, "never ran (duration 0)")
    jobs = pd.DataFrame(
        {
            "arrival_s": table.numbers("submission_time", "a number >= 0 (seconds)"),
            "duration_s": table.numbers("duration", "a number >= 0 (seconds)"),
            "scale_factor": table.numbers(
                "num_gpu", "a whole number >= 1 (GPUs)", least=1, whole=True
            ),
        }
    )
    jobs = jobs.set_axis(whole.unique("job_id")[jobs.index])
    return from_durations(file, jobs, options, [*notes, *idle_notes])
