"""Microsoft's Philly clusters (Jeon et al., USENIX ATC 2019), as published: a list in JSON."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.errors import InputError, written
from apportion.sim.traces.log import from_log, items_of, objects_of, read_items
from apportion.sim.traces.sacct import NOT_KNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.traces.log import Log
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile


STATES = ("Pass", "Killed", "Failed")
"""How a job may have ended."""

_HEAD = 2**16
_OWN = ("jobid", "vc", "user", "status", "submitted_time")
_COLUMNS = (*_OWN, "start_time", "end_time", "gpus", "earlier", "earlier_s")


def is_philly_log(file: TextFile) -> bool:
    """Tell a log by the list that it is, of jobs with attempts."""
    head = file.body[:_HEAD]
    return head.startswith(b"[") and b'"submitted_time"' in head and b'"attempts"' in head


def read_philly_log(file: TextFile, options: ReadOptions) -> Workload:
    """Read ``cluster_job_log``; models are unknown, so job types are drawn.

    Of the attempts of a job the last that started counts, from ``submitted_time`` on: its start and
    end are kept (``recorded_start_s``, ``recorded_end_s``), and the job has the GPUs that its
    ``detail`` lists. Jobs that never started, that have no end and whose last attempt lists no GPUs
    are left out, as are malformed ones; a note counts each. The virtual cluster is the entity;
    ``user`` and ``state`` are kept as columns of one's own. Types of GPUs are not told.

    Times are those of the clock on the wall, without a zone, and counted as they stand: a length of
    time across the night in which the clock is set back is an hour short.

    Raises
    ------
    InputError
        For a file that is no list in JSON, an unknown state in ``options.states``, and a log
        without a job that ran on a GPU.
    """
    log = read_items(file, items_of(file), _COLUMNS, _cells)
    log.keep_states("status", STATES, options.states)
    log.leave_out(log.table.times("start_time", NOT_KNOWN).isna(), "they never started")
    log.leave_out(log.table.times("end_time", NOT_KNOWN).isna(), "they have no end")
    jobs = log.readable(_jobs(log))
    earlier = pd.to_numeric(log.table.rows["earlier"][jobs.index])
    hours = pd.to_numeric(log.table.rows["earlier_s"][jobs.index]).sum() / 3600
    what = f"earlier attempts do not count ({hours:,.1f} GPU-hours)"
    log.say(earlier > 0, f"{what}, from the first submission on")
    return from_log(log, jobs, options)


def _jobs(log: Log) -> pd.DataFrame:
    """Return the jobs that ran, by item; leave out those without GPUs."""
    gpus = log.table.numbers("gpus", "a whole number >= 0 (GPUs)", whole=True)
    log.leave_out(gpus == 0, "their last attempt lists no GPUs")
    names = ("submitted_time", "start_time", "end_time")
    jobs = log.runs(names, [log.table.times(name) for name in names])
    return jobs.assign(
        job=log.ids("jobid"),
        scale_factor=gpus,
        entity=log.table.texts("vc"),
        user=log.table.texts("user", optional=True),
        state=log.table.texts("status"),
    )


def _cells(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job with the times and GPUs of its last attempt that started."""
    attempts = [
        each
        for each in objects_of(job, "attempts")
        if each.get("start_time") not in (None, "", *NOT_KNOWN)
    ]
    own = {name: job.get(name) for name in _OWN}
    if not attempts:
        return own
    *earlier, last = attempts
    times = {name: last.get(name) for name in ("start_time", "end_time")}
    counted = {"earlier": len(earlier), "earlier_s": sum(map(_gpu_seconds, earlier))}
    return {**own, **times, "gpus": _gpus(last), **counted}


def _gpus(attempt: Mapping[str, Any]) -> int:
    gpus = 0
    for machine in objects_of(attempt, "detail"):
        held = machine.get("gpus")
        if not isinstance(held, list):
            raise InputError(f"gpus is {written(held)}; it must be a list of GPUs.")
        gpus += len(held)
    return gpus


def _gpu_seconds(attempt: Mapping[str, Any]) -> float:
    """Return what an attempt held for as long as it says; 0 where it says none that can be."""
    with suppress(InputError, LookupError, TypeError, ValueError):
        start, end = (datetime.fromisoformat(attempt[name]) for name in ("start_time", "end_time"))
        return _gpus(attempt) * max((end - start).total_seconds(), 0.0)
    return 0.0
