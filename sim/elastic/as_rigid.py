"""Elastic jobs with the GPUs and batches that their users set, as rigid jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.checks import whole
from apportion.errors import InputError, written
from apportion.sim.elastic.speeds import TrueProgress
from apportion.sim.elastic_files import USERS_CHOICE
from apportion.sim.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.estimators.goodput import MeasuredApplication
    from apportion.sim.elastic_workload import ElasticWorkload

_MOST_ASKED = 1024
"""Numbers of GPUs that are tried to tell with which a job would run."""


def as_rigid(workload: ElasticWorkload, sizes: Mapping[str, int]) -> Workload:
    """Return the jobs with the GPUs and batches that their users set; see `ElasticWorkload.rigid`.

    Parameters
    ----------
    workload
        The elastic jobs.
    sizes
        GPUs of a machine, by accelerator type.
    """
    for name, size in sizes.items():
        whole(f"The GPUs of a node of {written(name)}", size, 1)
    jobs, truth = workload.jobs, TrueProgress()
    steps, job_types, speeds = [], [], dict[tuple[str, int], list[float]]()
    for job, row in jobs.iterrows():
        application = workload.applications[row["application"]]
        try:
            count, own = _of_job(workload, application, row, sizes, truth)
        except InputError as error:
            raise InputError(f"Job {written(job)}: {error}") from error
        steps.append(count)
        job_types.append(f"{row['application']} (batch size {row['batch']})")
        speeds[job_types[-1], int(row["gpus"])] = own
    told = np.array(steps)
    if "total_steps" in jobs:
        told *= progress_of(workload) / _of_applications(workload)
    columns = {
        "arrival_s": jobs["arrival_s"],
        "job_type": job_types,
        "scale_factor": jobs["gpus"].astype(np.int64),
        "total_steps": told,
    }
    of_elastic = {"application", "gpus", "batch", *USERS_CHOICE, "total_steps"}
    columns |= {str(name): jobs[name] for name in jobs if name not in of_elastic}
    index = pd.MultiIndex.from_tuples(list(speeds), names=["job_type", "scale_factor"])
    throughputs = pd.DataFrame(list(speeds.values()), index=index, columns=list(sizes))
    note = "jobs are rigid: GPUs and batches are those that their users set"
    table = pd.DataFrame(columns, index=jobs.index)
    return Workload(workload.name, table, throughputs, notes=(*workload.notes, note))


def progress_of(workload: ElasticWorkload) -> np.ndarray:
    """Return the progress until each job is done, in steps of its initial batch."""
    if "total_steps" in workload.jobs:
        return workload.jobs["total_steps"].to_numpy(dtype=float)
    return _of_applications(workload)


def _of_applications(workload: ElasticWorkload) -> np.ndarray:
    known = {
        name: float(each.training.progress[-1]) for name, each in workload.applications.items()
    }
    return workload.jobs["application"].map(known).to_numpy(dtype=float)


def _of_job(
    workload: ElasticWorkload,
    application: MeasuredApplication,
    row: pd.Series,
    sizes: Mapping[str, int],
    truth: TrueProgress,
) -> tuple[float, list[float]]:
    """Return steps from start to end, and steps per second on each type.

    Where a type splits the batch otherwise, its steps are counted as those of the first profile.
    """
    gpus, refused = int(row["gpus"]), None
    found: dict[MeasuredApplication, tuple[int, int]] = {}
    profiles = dict.fromkeys(application.on_types.get(name, application) for name in sizes)
    for on in profiles or {application: None}:
        try:
            found[on] = on.split(int(row["batch"]), gpus)
        except InputError as error:
            refused = refused or error
    if not found and refused is not None:
        raise refused
    counts = {
        on: application.training.steps(gpus * local * (more + 1))
        for on, (local, more) in found.items()
    }
    first = next(iter(counts.values()))
    speeds = []
    for name, size in sizes.items():
        on = application.on_types.get(name, application)
        if on not in found:
            speeds.append(0.0)
            continue
        local, more = found[on]
        if on.by_gpus is not None:
            told = float(on.by_gpus(np.array([gpus]))[0])
            speeds.append(told and told * (workload.speed_on(name) if on is application else 1.0))
            continue
        step = truth.step(on, packed(gpus, size), local)
        speed = 1.0 / (step.step_s + more * step.gradient_s)
        relative = workload.speed_on(name) if on is application else 1.0
        speeds.append(speed * (first / counts[on]) * relative)
    if not any(speeds):
        asked = np.arange(1, _MOST_ASKED + 1)
        runs = [on.by_gpus(asked) > 0 for on in found if on.by_gpus is not None]
        told = asked[np.any(runs, axis=0)].tolist() if runs else []
        hint = f"; it runs with {', '.join(map(str, told[:20]))}" if told else ""
        raise InputError(
            f"{application.name!r} runs with {gpus} GPUs on none of {', '.join(sizes)}{hint}."
        )
    return first, speeds


def packed(gpus: int, gpus_per_node: int) -> tuple[int, ...]:
    """Return the GPUs on each node of a gang on as few nodes as possible."""
    full, rest = divmod(gpus, gpus_per_node)
    return (gpus_per_node,) * full + ((rest,) if rest else ())
