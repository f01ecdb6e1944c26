"""Profiles and workloads of Pollux's simulator (OSDI 2021): elastic training jobs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pandas as pd

from apportion.checks import file_path
from apportion.errors import InputError, unknown_name, written
from apportion.estimators.goodput import (
    BatchLimits,
    MeasuredApplication,
    MeasuredSteps,
    MeasuredTraining,
)
from apportion.mechanisms.start_costs import RESTART_S
from apportion.sim.elastic_files import FILE_COLUMNS, USERS_CHOICE
from apportion.sim.elastic_workload import ElasticWorkload
from apportion.sim.traces.jobs_csv import jobs_column
from apportion.sim.traces.table import TraceTable, parse_table, separator_of
from apportion.text_files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_MEASURED_ON = "t4"
"""The type of the published profiles; files in their form name none."""

POLLUX_LOCAL_BATCHES: Mapping[str, int] = MappingProxyType({"yolov3": 8})
"""Largest batch per GPU where it is not the largest that was measured, as Pollux has it."""

DEEPBOOT_RESTART_S: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        name: (RESTART_S[name], rescale_s)
        for name, rescale_s in {
            "bert": 5.0,
            "imagenet": 3.0,
            "yolov3": 3.0,
            "ncf": 2.0,
            "cifar10": 3.0,
            "deepspeech2": 1.0,
        }.items()
    }
)
"""Seconds of a restart, and of the forming of another ring under AFE, that DeepBoot measured."""

_ANSWERS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_VALIDATION = re.compile(r"validation-(\d+)\.csv(\.gz)?")


def read_pollux_profile(
    folder: str | Path, local_most: int | None = None, types: Mapping[str, str] | None = None
) -> MeasuredApplication:
    """Read the profile of one application: a folder named like it.

    Parameters
    ----------
    folder
        With three kinds of files, times in seconds: ``placements.csv`` (placement, local_bsz,
        step_time, sync_time), ``scalability.csv`` (num_nodes, num_replicas, local_bsz, step_time,
        sync_time) and one ``validation-<batch>.csv`` per batch (progress, grad_sqr, grad_var, a row
        per epoch).
    local_most
        Largest batch per GPU; that of `POLLUX_LOCAL_BATCHES`, else the largest measured.
    types
        Accelerator types on which it was measured too, as Sia's profiles have them: what stands in
        the names of their files by type, e.g. ``{"a100": "dgx-ext"}`` for
        ``placements-dgx-ext.csv`` and ``scalability-dgx-ext.csv``.

    Raises
    ------
    InputError
        For a missing file or column, and a malformed line.
    """
    path = file_path("The folder of a profile", folder)
    training = {
        int(match[1]): _numbers(file, "progress", "grad_sqr", "grad_var")
        for file in sorted(path.glob("validation-*"))
        if (match := _VALIDATION.fullmatch(file.name))
    }
    steps = _measured(path, "")
    further = {kind: _measured(path, f"-{name}") for kind, name in (types or {}).items()}
    measured = MeasuredTraining(path.name, training)

    def on(steps: MeasuredSteps, local_most: int | None) -> MeasuredApplication:
        least, most = steps.local_range
        batches = measured.initial_batch, int(measured.batches[-1])
        limits = BatchLimits(*batches, local_least=least, local_most=local_most or most)
        return MeasuredApplication(path.name, steps, measured, limits)

    on_types = {kind: on(each, None) for kind, each in further.items()}
    first = on(steps, local_most or POLLUX_LOCAL_BATCHES.get(path.name))
    return replace(first, on_types=on_types)


def _measured(path: Path, variant: str) -> MeasuredSteps:
    """Read the steps of an application, from files whose names end so."""
    file = path / f"placements{variant}.csv"
    lines = parse_table(read_text(file))
    placements = _steps(file).assign(placement=lines.texts("placement"))
    larger = _steps(path / f"scalability{variant}.csv", nodes="num_nodes", gpus="num_replicas")
    return MeasuredSteps(path.name, placements, larger)


def read_pollux_workload(
    path: str | Path,
    profiles: str | Path | Mapping[str, MeasuredApplication],
    *,
    kinds: Mapping[str, str] | None = None,
    types: Mapping[str, str] | None = None,
) -> ElasticWorkload:
    """Read a workload of elastic jobs.

    Parameters
    ----------
    path
        A csv with columns name, time (s from the start), application, num_replicas and batch_size:
        GPUs and batch as its user would have set them. It may have rigid (yes or no), weight,
        deadline_s, entity and others of a jobs table, and columns of one's own.
    profiles
        The applications, or the folder that has a folder for each.
    kinds
        What columns of one's own hold, where that is known: ``"number"``, ``"truth"``, ``"text"``.
    types
        Further accelerator types that profiles are read of, see `read_pollux_profile`.

    Raises
    ------
    InputError
        For a missing column, a malformed line, or an application without a profile.
    """
    file = read_text(path)
    lines = parse_table(file, separator=separator_of(file))
    jobs = pd.DataFrame(
        {
            "arrival_s": lines.numbers("time", "a number >= 0 (seconds)"),
            "application": lines.texts("application"),
            "gpus": lines.numbers("num_replicas", "a whole number >= 1", least=1, whole=True),
            "batch": lines.numbers("batch_size", "a whole number >= 1", least=1, whole=True),
        }
    ).set_axis(lines.ids("name"))
    known_names = {"name", *FILE_COLUMNS, *FILE_COLUMNS.values(), *jobs.columns}
    for name in [each for each in lines.rows.columns if each not in known_names]:
        kind = (kinds or {}).get(name)
        if name in USERS_CHOICE:
            jobs[name] = _answers(lines, name)
        else:
            jobs[name] = jobs_column(lines, name, kind).to_numpy()
    names = list(jobs["application"].unique())
    if isinstance(profiles, (str, Path)):
        folder = file_path("The folder of profiles", profiles)
        there = sorted(each.name for each in folder.glob("*") if each.is_dir())
        for name in names:
            if name not in there:
                raise unknown_name("application among the profiles", name, there)
        known: Mapping[str, MeasuredApplication] = {
            name: read_pollux_profile(folder / name, types=types) for name in names
        }
    else:
        known = profiles
    applications = {name: known[name] for name in names if name in known}
    return ElasticWorkload(file.name, jobs, applications, measured_on=_MEASURED_ON)


def _answers(lines: TraceTable, name: str) -> list[bool]:
    """Read who is rigid, or keeps the batch."""
    words = lines.texts(name).str.lower()
    for line, word in words.items():
        if word not in _ANSWERS:
            raise InputError(
                f"{lines.file.path}, line {line}: {name} is {written(word)}; it must be yes or no."
            )
    return [_ANSWERS[word] for word in words]


def _steps(path: Path, **others: str) -> pd.DataFrame:
    names = {"local_batch": "local_bsz", "step_s": "step_time", "synchronisation_s": "sync_time"}
    columns = {**others, **names}
    return _numbers(path, *columns.values()).set_axis(list(columns), axis=1)


def _numbers(path: Path, *columns: str) -> pd.DataFrame:
    lines = parse_table(read_text(path))
    if not len(lines.rows):
        raise InputError(f"{path} has no rows.")
    return pd.DataFrame({name: lines.numbers(name) for name in columns})
