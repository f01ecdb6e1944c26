"""The trace of Microsoft's Philly clusters (Jeon et al., USENIX ATC 2019), processed to a csv."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from apportion.sim.traces.assemble import from_durations
from apportion.sim.traces.table import parse_table

if TYPE_CHECKING:
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.traces.text import TextFile
    from apportion.sim.workload import Workload

COLUMNS = ("timestamp", "duration", "num_gpus")
"""Columns that the csv must have; ``cluster``, the virtual cluster, is used if it is there."""


def read_philly(file: TextFile, options: ReadOptions) -> Workload:
    """Read a Philly csv; jobs have no ids and are numbered from 0 in the order of arrival.

    Equal rows are kept, as different jobs, and a note counts them. The entity of a job is its
    virtual cluster. Models are unknown, so job types are drawn.

    Raises
    ------
    InputError
        For a missing column or a malformed line.
    """
    table = parse_table(file)
    jobs = pd.DataFrame(
        {
            "arrival_s": table.times("timestamp"),
            "duration_s": table.numbers("duration", "a number >= 0 (seconds)"),
            "scale_factor": table.numbers(
                "num_gpus", "a whole number >= 1 (GPUs)", least=1, whole=True
            ),
        }
    )
    if "cluster" in table.rows:
        jobs["entity"] = table.texts("cluster")
    equal = int(table.rows.duplicated().sum())
    notes = [f"rows equal to another one, kept as jobs of their own: {equal}"] if equal else []
    jobs = jobs.sort_values("arrival_s", kind="stable").reset_index(drop=True)
    return from_durations(file, jobs, options, notes)
