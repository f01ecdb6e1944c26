"""Pods of Alibaba's GPU cluster of 2023 (openb; Weng et al., USENIX ATC 2023): csv."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pandas as pd

from apportion.sim.traces.assemble import accelerator_of, from_durations
from apportion.sim.traces.log import pods_column, read_log

if TYPE_CHECKING:
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.traces.log import Log
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

COLUMNS = ("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")
"""Columns that the csv must have; times in seconds from one origin."""

_WHOLE = 1000
_MEMORY = re.compile(r"M\d+$")
"""How a type ends that is told with the GB of its memory, ``V100M32``."""


def read_openb(file: TextFile, options: ReadOptions) -> Workload:
    """Read pods; models are unknown, so job types are drawn.

    A pod runs from ``scheduled_time`` to ``deletion_time``, and these are kept. GPUs are whole
    here: a pod with a part of one (``gpu_milli`` below 1000) has it alone, and a note says how much
    that adds. Rows that stand for several pods (``num_inst``) have the GPUs of them all. Pods
    without GPUs, and those that were never scheduled, are left out. ``gpu_spec``, the types that a
    pod may have, and ``qos`` are kept as columns of one's own. Where all of the types are one here
    (``V100M16|V100M32``), the pod ran on it and may run on no other (``recorded_on``,
    ``runs_on``); otherwise on which it ran is not told, and durations are those on the reference.

    Raises
    ------
    InputError
        For a missing column, and a log without a pod that ran on a GPU.
    """
    log = read_log(file, ",")
    gpus = log.table.numbers("num_gpu", "a whole number >= 0 (GPUs)", whole=True)
    several = pods_column(log.table.rows.columns)
    if several is not None:
        gpus *= log.table.numbers(several, "a whole number >= 1 (pods)", least=1, whole=True)
    log.leave_out(gpus == 0, "they asked for no GPU")
    start_s = log.table.numbers("scheduled_time", "a number >= 0 (seconds)", optional=True)
    log.leave_out(start_s.isna(), "they were never scheduled")
    part = log.table.numbers("gpu_milli", "a whole number >= 1", least=1, most=_WHOLE, whole=True)
    names, end = log.table.texts("name"), log.table.texts("deletion_time")
    arrival_s, end_s, start_s = (
        log.table.numbers(name, "a number >= 0 (seconds)")
        for name in ("creation_time", "deletion_time", "scheduled_time")
    )
    log.table.refuse(names, names.duplicated(), "a name of its own")
    log.table.refuse(
        log.table.texts("scheduled_time"), start_s < arrival_s, "creation_time or later"
    )
    log.table.refuse(end, end_s < start_s, "scheduled_time or later")
    log.leave_out(end_s == start_s, "they never ran")
    jobs = pd.DataFrame(
        {
            "job": names,
            "arrival_s": arrival_s,
            "duration_s": end_s - start_s,
            "scale_factor": gpus[names.index],
            "recorded_start_s": start_s,
            "recorded_end_s": end_s,
        }
    )
    for name in ("gpu_spec", "qos"):
        if name in log.table.rows:
            jobs[name] = log.table.texts(name, optional=True)
    jobs = log.readable(jobs)
    if jobs.empty:
        raise log.nothing_left()
    part = part[jobs.index]
    added = jobs["scale_factor"] * jobs["duration_s"] * (1 - part / _WHOLE)
    rounded = f"parts of GPUs taken for whole ones, {added.sum() / 3600:,.1f} GPU-hours more"
    log.say(part < _WHOLE, rounded)
    if "gpu_spec" in jobs and (jobs["gpu_spec"] != "").any():
        jobs = _on_allowed_types(log, jobs)
    return from_durations(file, jobs.set_index("job"), options, log.notes(len(jobs)))


def _on_allowed_types(log: Log, jobs: pd.DataFrame) -> pd.DataFrame:
    """Let pods run on the type that they ask for, if it is one; tell of those that name several."""
    allowed = {
        spec: {accelerator_of(_MEMORY.sub("", each)) for each in spec.split("|") if each}
        for spec in jobs["gpu_spec"].unique()
    }
    count = jobs["gpu_spec"].map(lambda spec: len(allowed[spec]))
    only = jobs["gpu_spec"].map(lambda spec: max(allowed[spec], default="")).where(count == 1, "")
    log.say(
        count == 1,
        "taken to have run on the type that gpu_spec names, and to run on it alone where the "
        "cluster has it",
    )
    log.say(count > 1, "gpu_spec names several types and is not heeded")
    return jobs.assign(recorded_on=only, runs_on=only)
