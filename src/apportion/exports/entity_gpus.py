"""GPUs that an allocation gives to each user, team or queue, in parts and as whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name, written
from apportion.table_checks import table


def gpus_by(shares: pd.DataFrame, jobs: pd.DataFrame, by: str = "entity") -> pd.DataFrame:
    r"""Return the GPUs that each group of jobs has on average.

    For group :math:`g` and type :math:`j` that is :math:`\sum_{m \in g} s_m X_{mj}`, with
    :math:`s_m` the GPUs of a gang.

    Parameters
    ----------
    shares
        Shares of time by job and accelerator type, `Allocation.X`.
    jobs
        The jobs table, indexed by job: a column of groups, and ``scale_factor`` (1 if left out).
    by
        The column of groups: ``entity``, ``user``, ...

    Returns
    -------
    DataFrame
        A row for each group in alphabetical order, a column for each type.

    Raises
    ------
    InputError
        If the column is not there, a job is missing, or shares are not by single jobs and types.
    """
    table("The shares", shares)
    table("The jobs table", jobs)
    if by not in jobs.columns:
        raise unknown_name("column of the jobs table", by, map(str, jobs.columns))
    if shares.columns.nlevels > 1:
        raise InputError("Exports take shares by accelerator type, not by several levels.")
    for job in shares.index:
        if job not in jobs.index:
            raise InputError(f"Job {written(job)} is not in the jobs table; exports need its {by}.")
    here = jobs.loc[shares.index]
    if here[by].isna().any():
        job = here.index[here[by].isna()][0]
        raise InputError(f"Job {written(job)} has no {by}.")
    gang = here["scale_factor"].to_numpy(float) if "scale_factor" in here else np.ones(len(here))
    gpus = shares.mul(gang, axis=0)
    return gpus.groupby(here[by].astype(str)).sum().rename_axis(by)


def check_gpus(gpus: pd.DataFrame) -> None:
    """Refuse a table of GPUs that holds anything else.

    Raises
    ------
    InputError
        It names the column.
    """
    for name in table("The GPUs", gpus, "groups").columns:
        if not pd.api.types.is_numeric_dtype(gpus[name]):
            raise InputError(f"The GPUs of type {name!r} must be numbers.")


def whole_gpus(gpus: pd.DataFrame, cluster: Any = None) -> pd.DataFrame:
    """Round to whole GPUs by the largest remainder, type by type; ties by name.

    Parameters
    ----------
    gpus
        As `gpus_by` gives them.
    cluster
        If given, GPUs of a type that nobody has are divided in proportion too.

    Returns
    -------
    DataFrame
        Of each type as many GPUs as there were in all, rounded down; or as the cluster has.
    """
    check_gpus(gpus)
    whole = pd.DataFrame(0, index=gpus.index, columns=gpus.columns)
    for name in gpus.columns:
        parts = gpus[name].to_numpy(float)
        total = int(np.floor(parts.sum() + 1e-6))
        if cluster is not None:
            total = int(Cluster.of(cluster).gpus.get(str(name), 0))
            parts = parts * (total / parts.sum()) if parts.sum() > 0 else parts
        if parts.sum() <= 0:
            continue
        least = np.floor(parts + 1e-9)
        order = np.argsort(-(parts - least).round(9), kind="stable")
        more = np.zeros(len(parts))
        more[order[: max(0, total - int(least.sum()))]] = 1
        whole[name] = (least + more).astype(int)
    return whole
