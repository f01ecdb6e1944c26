"""Logs in the Standard Workload Format, version 2.2: 18 numbers a line (Feitelson et al.)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pandas as pd

from apportion.sim.traces.log import Log, from_log, read_log

if TYPE_CHECKING:
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

FIELDS = (
    *("job", "submit", "wait", "run_time", "processors", "cpu_time", "memory"),
    *("requested_processors", "requested_time", "requested_memory", "status", "user", "group"),
    *("executable", "queue", "partition", "preceding_job", "think_time"),
)
"""Fields of a line in their order; times in seconds, -1 for what is not known."""

_KEPT = ("user", "group", "queue", "partition")
"""Fields that jobs keep, as columns of one's own."""
_NUMBER = re.compile(r"-?\d+(\.\d*)?")
_PARTS = (2, 3, 4)
"""Status of lines that tell a part of a job which has a line as a whole, too."""


def is_swf(file: TextFile) -> bool:
    """Tell a log by its header lines, which begin with ``;``, or by its 18 numbers."""
    cells = file.head.split()
    numbers = len(cells) == len(FIELDS) and all(map(_NUMBER.fullmatch, cells))
    return file.head.lstrip().startswith(";") or numbers


def read_swf(file: TextFile, options: ReadOptions) -> Workload:
    """Read a log in SWF; its processors are taken for GPUs, and job types are drawn.

    A job has the processors that were allocated, or, without that, asked for. Start and end are
    kept where the wait is known (``recorded_start_s``, ``recorded_end_s``), the time that was asked
    for as its limit; so are user, group, queue and partition, as the texts of their numbers. The
    user is the entity. Lines that cannot be read are left out and told in the notes, as are parts
    of jobs, and jobs that never ran.

    Raises
    ------
    InputError
        For a log without a job that ran.
    """
    log = read_log(file, None, FIELDS, comment=";")
    status = _numbers(log, "status")
    log.leave_out(status.isin(_PARTS), "they are parts of jobs (status 2, 3 or 4)")
    run_s, wait_s = _numbers(log, "run_time"), _numbers(log, "wait")
    log.leave_out(run_s <= 0, "they never ran")
    gpus, asked = (_numbers(log, name) for name in ("processors", "requested_processors"))
    gpus = gpus.where(gpus > 0, asked)
    log.leave_out(gpus <= 0, "they name no processors")
    ids = log.ids("job")
    submit_s = log.table.numbers("submit", "a number >= 0 (seconds)")
    start_s = (submit_s + wait_s).where(wait_s >= 0)
    limit_s = _numbers(log, "requested_time")
    columns = {"job": ids, "arrival_s": submit_s, "duration_s": run_s, "scale_factor": gpus}
    columns |= {"recorded_start_s": start_s, "recorded_end_s": start_s + run_s}
    jobs = pd.DataFrame(columns | {"time_limit_s": limit_s.where(limit_s > 0)})
    for name in _KEPT:
        jobs[name] = log.table.texts(name).replace("-1", "")
    if (jobs["user"] != "").all():
        jobs["entity"] = jobs["user"]
    return from_log(log, jobs, options, ["processors are taken for GPUs"])


def _numbers(log: Log, name: str) -> pd.Series:
    """Return a field that is -1 where it is not known."""
    whole = name in ("processors", "requested_processors", "status")
    valid = f"a {'whole ' * whole}number >= 0, or -1 for not known"
    return log.table.numbers(name, valid, least=-1, whole=whole)
