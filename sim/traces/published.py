"""Published csv traces: a table of what the columns of each mean, and what else its text says.

Helios (SenseTime; Hu et al., SC 2021), Microsoft's ITP and Philly clusters, ElasticFlow (Gu et al.,
ASPLOS 2023: ITP jobs with models, steps and deadlines) and openb (pods of Alibaba's GPU cluster;
Weng et al., USENIX ATC 2023). All but ElasticFlow's do not tell models, so job types are drawn.
Lines that cannot be read are left out and told in the notes, as are jobs without GPUs and those
that never ran.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from apportion.sim.traces.assemble import accelerator_of
from apportion.sim.traces.log import from_log, other_lengths, pods_column, pods_notes, read_log
from apportion.sim.traces.named_columns import jobs_of
from apportion.sim.traces.sacct import NOT_KNOWN
from apportion.sim.workload_tables import THROUGHPUT_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.traces.log import Log
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

PUBLISHED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "microsoft_itp": {
            "job_id": "job",
            "submission_time": "arrival_s",
            "duration": "duration_s",
            "num_gpu": "scale_factor",
        },
        "philly": {
            "timestamp": "arrival_s",
            "duration": "duration_s",
            "num_gpus": "scale_factor",
        },
        "helios": {
            "job_id": "job",
            "submit_time": "arrival_s",
            "duration": "duration_s",
            "gpu_num": "scale_factor",
            "state": "state",
        },
        "elasticflow": {
            "job_id": "job",
            "submission_time": "arrival_s",
            "num_gpu": "scale_factor",
            "num_iteration": "total_steps",
            "duration": "duration_s",
            "deadline": "deadline_s",
        },
        "openb": {
            "name": "job",
            "creation_time": "arrival_s",
            "num_gpu": "scale_factor",
            "scheduled_time": "recorded_start_s",
            "deletion_time": "recorded_end_s",
        },
    }
)
"""What the columns that a trace must have mean in a jobs table; numbers of times are seconds."""

HELIOS_STATES = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")
"""How a job of Helios may have ended."""

ELASTICFLOW_ACCELERATOR = "a100"
"""Type on which ElasticFlow's durations were profiled (the paper's testbed)."""

_WHOLE = 1000
_MEMORY = re.compile(r"M\d+$")
"""How a type of openb ends that is told with the GB of its memory, ``V100M32``."""


def _jobs(
    log: Log, name: str, options: ReadOptions, also: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return the jobs of a trace by line, with what other columns mean as far as it has them."""
    rows, others = log.table.rows, (also or {}).items()
    meant = {**PUBLISHED[name], **{each: means for each, means in others if each in rows}}
    return jobs_of(log, {each: (means, 1.0) for each, means in meant.items()}, options)


def read_microsoft_itp(file: TextFile, options: ReadOptions) -> Workload:
    """Read an ITP trace."""
    log = read_log(file, ",")
    jobs = _jobs(log, "microsoft_itp", options)
    return from_log(log, jobs, options, pods_notes(log.table.rows))


def read_philly(file: TextFile, options: ReadOptions) -> Workload:
    """Read a Philly csv; jobs have no ids and are numbered from 0 in the order of arrival.

    Equal rows are kept, as different jobs, and a note counts them. The entity of a job is its
    virtual cluster (``cluster``, if that column is there).
    """
    log = read_log(file, ",")
    jobs = _jobs(log, "philly", options, {"cluster": "entity"})
    equal = int(log.table.rows.duplicated().sum())
    notes = [f"rows equal to another one, kept as jobs of their own: {equal}"] if equal else []
    notes += pods_notes(log.table.rows)
    return from_log(log, jobs.sort_values("arrival_s", kind="stable"), options, notes)


def read_helios(file: TextFile, options: ReadOptions) -> Workload:
    """Read a Helios trace.

    Jobs that failed or were cancelled held their GPUs all the same and are kept, unless
    ``options.states`` says otherwise. Where ``start_time`` and ``end_time`` of all jobs can be, the
    schedule of the log is known, and a duration is from start to end, whatever the column says.
    State, user and what kind of work a job does (``type``, in the traces of Acme) are kept as
    columns of one's own; the virtual cluster (``vc``), else the user, is the entity.
    """
    log = read_log(file, ",")
    jobs = _jobs(log, "helios", options, {"user": "user", "type": "type"})
    log.keep_states("state", HELIOS_STATES, options.states)
    for column in ("user", "vc"):
        if column in log.table.rows:
            jobs["entity"] = log.table.texts(column, optional=True)
    if {"start_time", "end_time"} <= {*log.table.rows}:
        jobs = _as_recorded(log, jobs)
    return from_log(log, jobs, options, pods_notes(log.table.rows))


def _as_recorded(log: Log, jobs: pd.DataFrame) -> pd.DataFrame:
    """Add when each job started and ended, if that is told of all, and can be."""
    start_s, end_s = (log.table.times(name, NOT_KNOWN) for name in ("start_time", "end_time"))
    jobs = log.readable(jobs.assign(recorded_start_s=start_s, recorded_end_s=end_s))
    idle = jobs["recorded_start_s"].isna()
    if idle.all():
        return jobs.drop(columns=["recorded_start_s", "recorded_end_s"])
    hours = (jobs["scale_factor"] * jobs["duration_s"])[idle].sum() / 3600
    log.leave_out(idle, f"they have no start_time ({hours:,.1f} GPU-hours by duration)")
    jobs = jobs[~idle]
    start_s, end_s = jobs["recorded_start_s"], jobs["recorded_end_s"]
    odd = ~((jobs["arrival_s"] <= start_s) & (start_s <= end_s))
    if odd.any():
        what = "start before they were submitted, or do not end after that"
        log.say(odd, f"starts and ends do not count; jobs that {what}")
        return jobs.drop(columns=["recorded_start_s", "recorded_end_s"])
    differs, by = other_lengths(jobs)
    log.say(differs, f"duration is not from start to end, which counts; by duration {by}")
    jobs = jobs.assign(duration_s=jobs["duration_s"].mask(differs, end_s - start_s))
    log.leave_out(jobs["duration_s"] == 0, "they never ran")
    return jobs


def read_openb(file: TextFile, options: ReadOptions) -> Workload:
    """Read pods of openb.

    A pod runs from ``scheduled_time`` to ``deletion_time``, and these are kept. GPUs are whole
    here: a pod with a part of one (``gpu_milli`` below 1000) has it alone, and a note says how much
    that adds. Rows that stand for several pods (``num_inst``) have the GPUs of them all. Pods that
    were never scheduled are left out. ``gpu_spec``, the types that a pod may have, and ``qos`` are
    kept as columns of one's own. Where all of the types are one here (``V100M16|V100M32``), the pod
    ran on it and may run on no other (``recorded_on``, ``runs_on``); otherwise on which it ran is
    not told, and durations are those on the reference.
    """
    log = read_log(file, ",")
    several = pods_column(log.table.rows.columns)
    also = {} if several is None else {several: "workers"}
    jobs = _jobs(log, "openb", options, {"gpu_spec": "gpu_spec", "qos": "qos", **also})
    part = log.table.numbers("gpu_milli", "a whole number >= 1", least=1, most=_WHOLE, whole=True)
    jobs = log.readable(jobs)
    part = part[jobs.index]
    added = jobs["scale_factor"] * jobs["duration_s"] * (1 - part / _WHOLE)
    rounded = f"parts of GPUs taken for whole ones, {added.sum() / 3600:,.1f} GPU-hours more"
    log.say(part < _WHOLE, rounded)
    if "gpu_spec" in jobs and (jobs["gpu_spec"] != "").any():
        jobs = _on_allowed_types(log, jobs)
    return from_log(log, jobs, options)


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


def read_elasticflow(file: TextFile, options: ReadOptions) -> Workload:
    """Read a trace of ElasticFlow.

    Arrivals, durations and GPU counts are those of Microsoft's ITP clusters; the authors drew a
    model, a batch size and a deadline for each job, 0.5 to 1.5 times the duration after its
    arrival. Job types are called ``"bert (batch size 64)"``. The iterations of a job over its
    duration are its steps/s on `ELASTICFLOW_ACCELERATOR`: the same for all jobs of a type and
    number of GPUs, but for the rounding to whole seconds, and the throughputs of the workload
    unless others are given.
    """
    log = read_log(file, ",")
    batch = log.table.numbers("batch_size", "a whole number >= 1", least=1, whole=True)
    kind = log.table.texts("model_name") + " (batch size " + batch.astype(str) + ")"
    jobs = _jobs(log, "elasticflow", options)
    jobs.insert(2, "job_type", kind)
    jobs["deadline_s"] -= jobs["arrival_s"]
    late, never = jobs["deadline_s"].le(0), ~jobs["duration_s"].gt(0)
    log.table.refuse(log.table.rows["deadline"][late.index], late, "after submission_time")
    log.table.refuse(log.table.rows["duration"][never.index], never, "a number > 0 (seconds)")
    jobs = log.readable(jobs)
    notes = [f"deadlines, models and batch sizes as drawn by ElasticFlow, {len(jobs)} jobs"]
    if options.throughputs is None:
        sums = jobs.groupby(THROUGHPUT_KEYS)[["total_steps", "duration_s"]].sum()
        speeds = (sums["total_steps"] / sums["duration_s"]).to_frame(ELASTICFLOW_ACCELERATOR)
        options = replace(options, throughputs=speeds)
        notes.append(f"steps/s are iterations over duration, on {ELASTICFLOW_ACCELERATOR} only")
    return from_log(log, jobs, options, notes)
