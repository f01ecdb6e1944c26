"""An elastic workload as two files: the jobs as csv, next to them their applications as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from apportion.errors import InputError
from apportion.estimators.goodput import (
    AnySteps,
    BatchLimits,
    GpuSpeeds,
    MeasuredApplication,
    MeasuredSteps,
    MeasuredTraining,
    ModelledSteps,
    StepTimes,
)
from apportion.jobs import check_jobs
from apportion.whole_files import beside, save_with

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from apportion.sim.elastic_workload import ElasticWorkload

FILE_COLUMNS = {
    "arrival_s": "time",
    "application": "application",
    "gpus": "num_replicas",
    "batch": "batch_size",
}
"""Columns of the file, those of Pollux's simulator, by the columns of the jobs."""

USERS_CHOICE = ("rigid", "keeps_batch")
"""Columns of truths: whether a job has the GPUs and the batch of its user, or the batch alone."""

OPTIONAL_COLUMNS = ("weight", "deadline_s", "entity", *USERS_CHOICE)
"""Further columns of jobs, which files call the same; as they do those of one's own."""

APPLICATIONS = ".applications.json"
"""Ending of the file of applications that belongs to one of jobs."""


def save_elastic(jobs_file: Path, workload: ElasticWorkload) -> tuple[Path, Path]:
    """Write the jobs, with notes as ``#`` lines above them, and their applications.

    Returns
    -------
    tuple of Path
        The file of the jobs, and that of the applications.

    Raises
    ------
    InputError
        If the file of the jobs does not end in ``.csv`` or ``.csv.gz``, or cannot be written; and
        for columns that a jobs table cannot have, or that files call something else.
    """
    known = [*FILE_COLUMNS, *(name for name in OPTIONAL_COLUMNS if name in workload.jobs)]
    own = check_jobs(workload.jobs.drop(columns=known))
    for name in own.columns.intersection(["name", *FILE_COLUMNS.values()]):
        raise InputError(f"Cannot save the column {name!r}: files of elastic jobs have their own.")
    jobs = workload.jobs[known].rename(columns=FILE_COLUMNS).join(own).rename_axis("name")
    applications = {name: _plain(each) for name, each in workload.applications.items()}
    facts = {
        "measured_on": workload.measured_on,
        "relative_speed": {name: float(each) for name, each in workload.relative_speed.items()},
        "restart_s": {name: list(map(float, both)) for name, both in workload.restart_s.items()},
        "columns": {name: _kind_of(values) for name, values in own.items()},
        "applications": applications,
    }
    other = beside(jobs_file, APPLICATIONS)
    return save_with(jobs_file, jobs, workload.notes, other, json.dumps(facts) + "\n")


def _kind_of(values: pd.Series) -> str:
    """Tell texts and truths from numbers, which csv does not."""
    return {"b": "truth", "O": "text"}.get(values.dtype.kind, "number")


def _plain(application: MeasuredApplication) -> dict[str, Any]:
    """Return an application as JSON holds it, every bit kept."""
    training, steps = application.training, cast("Any", application.steps)
    if not hasattr(steps, "plain"):
        raise InputError(
            f"Cannot save the application {application.name!r}: its steps are a "
            f"{type(steps).__name__}, which has no plain(); see apportion.elastic.AnySteps."
        )
    batches = training.batches.tolist()
    return {
        "limits": asdict(application.limits),
        "epochs": training.epochs,
        "training": {str(batch): _columns(training.table(batch)) for batch in batches},
        "steps": steps.plain(),
        "on_types": {name: _plain(each) for name, each in application.on_types.items()},
    }


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): values.tolist() for name, values in table.items()}


def application_of(name: str, plain: Mapping[str, Any]) -> MeasuredApplication:
    """Return the application that `save_elastic` wrote down.

    Raises
    ------
    LookupError, TypeError, ValueError
        If it is none.
    """
    steps = plain["steps"]
    read: AnySteps
    if "speeds" in steps:
        read = GpuSpeeds(name, {int(gpus): speed for gpus, speed in steps["speeds"].items()})
    elif "model" in steps:
        read = ModelledSteps(name, StepTimes(**steps["model"]), int(steps["local_most"]))
    else:
        tables = (pd.DataFrame(steps[each]) for each in ("placements", "larger"))
        read = MeasuredSteps(name, *tables)
    epochs_of = {int(batch): pd.DataFrame(table) for batch, table in plain["training"].items()}
    training = MeasuredTraining(name, epochs_of, int(plain["epochs"]))
    on_types = {
        kind: application_of(name, each) for kind, each in plain.get("on_types", {}).items()
    }
    return MeasuredApplication(name, read, training, BatchLimits(**plain["limits"]), on_types)
