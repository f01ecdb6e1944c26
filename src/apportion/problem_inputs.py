"""What users give for a problem: throughputs, workers and jobs, as tables, mappings or arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs, column_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Workers = Cluster | Mapping[Any, int] | str | Sequence[int] | NDArray[np.int64]
    Jobs = pd.DataFrame | Mapping[str, Any]


def cluster_of(workers: Workers, options: Sequence[Any] = ()) -> Cluster:
    """Make a cluster of what users write.

    Parameters
    ----------
    workers
        A `Cluster`, a mapping, text, or a list of GPU counts.
    options
        Names of the types, where they have any: counts in a list would have to be in their order,
        so they are refused.
    """
    if not isinstance(workers, (list, tuple, np.ndarray)):
        return Cluster.of(workers)  # type: ignore[arg-type]
    counts = list(np.atleast_1d(np.asarray(workers, dtype=object)))
    if len(options):
        example = dict(zip(map(str, options), counts, strict=False))
        raise InputError(
            f"A list of GPU counts goes with an array of throughputs; where types have names, "
            f"give them: workers={example!r}."
        )
    return Cluster(dict(enumerate(counts)))  # type: ignore[arg-type]


def labelled_array(array: Any, workers: Workers | None) -> tuple[pd.DataFrame, Cluster]:
    """Label an array of steps/s, jobs by types.

    Jobs are called 0 to n - 1. So are types where `workers` is a list of GPU counts; else they have
    the names of the workers, in their order.

    Raises
    ------
    InputError
        If the array does not have two dimensions, or not a column for each type of the workers.
    """
    try:
        values = np.asarray(array)
    except ValueError as error:
        raise InputError(f"The throughputs are no array of jobs by types: {error}.") from error
    if values.ndim != 2:
        raise InputError(
            f"An array of throughputs has two dimensions, jobs by types; this one has {values.ndim}"
            f" (shape {values.shape})."
        )
    if workers is None:
        raise no_workers([8] * values.shape[1])
    cluster = cluster_of(workers)
    if len(cluster.gpus) != values.shape[1]:
        raise InputError(
            f"The array of throughputs has {values.shape[1]} columns, the workers have "
            f"{len(cluster.gpus)} types ({cluster}); there must be a column for each type."
        )
    unnamed = isinstance(workers, (list, tuple, np.ndarray))
    names = range(values.shape[1]) if unnamed else cluster.accelerators
    return pd.DataFrame(values, columns=pd.Index(names)), cluster


def no_workers(gpus: object) -> InputError:
    """Build the error for throughputs without workers; it shows both ways to give some."""
    return InputError(
        f"It is not known how many GPUs there are. Give their number by type, either as an "
        f"argument, solve(policy, throughputs, workers={gpus!r}), or with the throughputs, "
        f"solve(policy, ThroughputTensor.of(throughputs, workers={gpus!r}))."
    )


def jobs_table(jobs: Jobs, ids: pd.Index) -> pd.DataFrame:
    """Return a checked jobs table of a DataFrame or a dict of columns.

    Parameters
    ----------
    jobs
        A table indexed by job id; or columns by name, each a list in the order of `ids`, a Series
        or a mapping by job id, or one value for all.
    ids
        Job ids.

    Raises
    ------
    InputError
        For anything else, unknown columns, columns of another length, and values out of range.
    """
    if isinstance(jobs, pd.DataFrame):
        return check_jobs(jobs)
    if not isinstance(jobs, Mapping):
        raise InputError(
            f"The jobs table must be a pandas DataFrame or a mapping of columns, such as "
            f"{{'weight': [1.0, 2.0]}}, not {type(jobs).__name__}."
        )
    return check_jobs(
        pd.DataFrame({name: _column(name, values, ids) for name, values in jobs.items()}, index=ids)
    )


def _column(name: Any, values: Any, ids: pd.Index) -> pd.Series:
    """Return one column of the jobs table, indexed by job."""
    column_named(name)
    if isinstance(values, (Mapping, pd.Series)):
        by_job = dict(values)
        for job in ids:
            if job not in by_job:
                raise unknown_name(f"job (without {name})", job, by_job)
        for job in by_job:
            if job not in ids:
                raise unknown_name(f"job in the column {name!r}", job, ids)
        return pd.Series([by_job[job] for job in ids], index=ids)
    one = not isinstance(values, (list, tuple)) and np.ndim(values) == 0  # lists may hold tuples
    if one or isinstance(values, str):
        return pd.Series([values] * len(ids), index=ids)
    if len(values) != len(ids):
        raise InputError(
            f"The column {written(name)} of the jobs table has {len(values)} values for {len(ids)} "
            f"jobs."
        )
    return pd.Series(list(values), index=ids)
