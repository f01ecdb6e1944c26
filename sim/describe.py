"""What a workload holds, in numbers: sizes, arrivals, durations, load, mix of job types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.errors import unknown_name
from apportion.estimators import family_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUANTILES = {"median": 0.5, "90th percentile": 0.9, "99th percentile": 0.99, "longest": 1.0}
_SECONDS_PER_HOUR = 3600.0


def describe_workload(
    jobs: pd.DataFrame,
    steps_per_s: pd.DataFrame,
    cluster_gpus: int | None = None,
    reference: str | None = None,
) -> pd.DataFrame:
    """Summarise a jobs table.

    Arrival rate and load are NaN where every job arrives at once. The load is the GPU-seconds of
    all jobs over the time from the first arrival to the last, at the speeds of the durations.

    Parameters
    ----------
    jobs
        Jobs table, sorted by arrival.
    steps_per_s
        Throughputs, jobs x accelerators.
    cluster_gpus
        GPUs of which the load is also given as a share.
    reference
        Accelerator type for durations, without the jobs that cannot run there; each job's fastest
        type by default.

    Returns
    -------
    DataFrame
        Indexed by measure, columns ``value`` and ``unit``.

    Raises
    ------
    InputError
        For a reference that is not among the accelerators.
    """
    if reference is not None and reference not in steps_per_s.columns:
        raise unknown_name("reference accelerator", reference, steps_per_s.columns)
    speed = steps_per_s.max(axis=1) if reference is None else steps_per_s[reference]
    durations = (jobs["total_steps"] / speed)[speed > 0]
    where = "fastest type" if reference is None else reference
    rows = [
        *_sizes(jobs),
        *_durations(durations, where),
        *_load(jobs, durations, cluster_gpus),
        *_mix(jobs),
    ]
    return pd.DataFrame(rows, columns=["measure", "value", "unit"]).set_index("measure")


def _sizes(jobs: pd.DataFrame) -> Iterator[tuple[str, float, str]]:
    """How many jobs, job types and entities there are, and how wide the jobs are."""
    yield "jobs", len(jobs), "jobs"
    yield "job types", jobs["job_type"].nunique(), "job types"
    if "entity" in jobs.columns:
        yield "entities", jobs["entity"].nunique(), "entities"
    yield "GPUs per job, mean", float(jobs["scale_factor"].mean()), "GPUs"
    for gpus, share in jobs["scale_factor"].value_counts(normalize=True).sort_index().items():
        yield f"jobs of {gpus} GPU{'' if gpus == 1 else 's'}", share, "share"


def _durations(durations: pd.Series, where: str) -> Iterator[tuple[str, float, str]]:
    """How long the jobs run, alone and without waiting."""
    yield f"duration on {where}, mean", float(durations.mean()), "s"
    for name, level in _QUANTILES.items():
        yield f"duration on {where}, {name}", float(np.quantile(durations, level)), "s"


def _load(
    jobs: pd.DataFrame, durations: pd.Series, cluster_gpus: int | None
) -> Iterator[tuple[str, float, str]]:
    """How fast the jobs arrive, and how many GPUs they keep busy."""
    span = float(jobs["arrival_s"].max() - jobs["arrival_s"].min()) or np.nan
    work = float((durations * jobs["scale_factor"]).sum())
    yield "arrivals from first to last", 0.0 if np.isnan(span) else span, "s"
    yield "arrival rate", len(jobs) * _SECONDS_PER_HOUR / span, "jobs/hour"
    yield "work", work / _SECONDS_PER_HOUR, "GPU-hours"
    if {"duration_s", "start_included"} <= {*jobs}:  # of a log: on the types on which jobs ran
        told = jobs.loc[jobs["start_included"], ["duration_s", "scale_factor"]]
        yield "work by the log", told.prod(axis=1).sum() / _SECONDS_PER_HOUR, "GPU-hours"
    yield "offered load", work / span, "GPUs"
    if cluster_gpus is not None:
        yield "offered load of the cluster", work / span / cluster_gpus, "share"


def _mix(jobs: pd.DataFrame) -> Iterator[tuple[str, float, str]]:
    """Which model families the jobs are of."""
    families = jobs["job_type"].map(family_of)
    for family, share in families.value_counts(normalize=True).items():
        yield f"{family} jobs", share, "share"
