"""Traces of ElasticFlow (Gu et al., ASPLOS 2023): ITP jobs with models, steps and deadlines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.errors import InputError
from apportion.sim.traces.assemble import from_steps
from apportion.sim.traces.table import parse_table
from apportion.sim.workload_tables import THROUGHPUT_KEYS

if TYPE_CHECKING:
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

COLUMNS = (
    "job_id",
    "submission_time",
    "num_iteration",
    "model_name",
    "deadline",
    "batch_size",
    "num_gpu",
    "duration",
)
"""Columns that the csv must have; times in seconds from one origin, the deadline too."""

ACCELERATOR = "a100"
"""Type on which the durations were profiled (the paper's testbed)."""


def read_elasticflow(file: TextFile, options: ReadOptions) -> Workload:
    """Read a trace of ElasticFlow.

    Arrivals, durations and GPU counts are those of Microsoft's ITP clusters; the authors drew a
    model, a batch size and a deadline for each job, 0.5 to 1.5 times the duration after its
    arrival. Job types are called ``"bert (batch size 64)"``. The iterations of a job over its
    duration are its steps/s on `ACCELERATOR`: the same for all jobs of a type and number of GPUs,
    but for the rounding to whole seconds, and the throughputs of the workload unless others are
    given.

    Raises
    ------
    InputError
        For a missing column, a job id that stands twice, a deadline that is not after the arrival,
        or a malformed line.
    """
    table = parse_table(file)
    batch = table.numbers("batch_size", "a whole number >= 1", least=1, whole=True)
    seconds = "a number > 0 (seconds)"
    gpus = "a whole number >= 1 (GPUs)"
    jobs = pd.DataFrame(
        {
            "arrival_s": table.numbers("submission_time", "a number >= 0 (seconds)"),
            "job_type": table.texts("model_name") + " (batch size " + batch.astype(str) + ")",
            "scale_factor": table.numbers("num_gpu", gpus, least=1, whole=True),
            "total_steps": table.numbers("num_iteration", "a number > 0 (steps)", strict=True),
            "duration_s": table.numbers("duration", seconds, strict=True),
            "deadline_s": table.numbers("deadline", seconds, strict=True),
        }
    )
    jobs["deadline_s"] -= jobs["arrival_s"]
    late = jobs["deadline_s"] <= 0
    if late.any():
        raise InputError(
            f"{file.path}, line {jobs.index[late].tolist()[0]}: the deadline is not after the "
            f"submission_time; both count from the same origin."
        )
    notes = [f"deadlines, models and batch sizes as drawn by ElasticFlow, {len(jobs)} jobs"]
    if options.throughputs is None:
        options = replace(options, throughputs=_profiled(jobs))
        notes.append(f"steps/s are iterations over duration, on {ACCELERATOR} only")
    lines = jobs.index
    jobs["arrival_s"] -= jobs["arrival_s"].min()
    jobs = jobs.set_axis(table.unique("job_id"))
    order = np.argsort(jobs["arrival_s"].to_numpy(), kind="stable")
    return from_steps(file, jobs.iloc[order], lines[order], options, notes)


def _profiled(jobs: pd.DataFrame) -> pd.DataFrame:
    """Steps/s by job type and number of GPUs: all iterations over all seconds."""
    sums = jobs.groupby(THROUGHPUT_KEYS)[["total_steps", "duration_s"]].sum()
    return (sums["total_steps"] / sums["duration_s"]).to_frame(ACCELERATOR)
