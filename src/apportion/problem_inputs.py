"""What users give for a problem, as tables, mappings or arrays, and the labels of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_NUMBER, hashable, listed, mapping
from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs, column_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Workers = Cluster | Mapping[Any, int] | str | Sequence[int] | NDArray[np.int64]
    Jobs = pd.DataFrame | Mapping[str, Any]


def cluster_of(workers: Workers, options: Iterable[Any] = ()) -> Cluster:
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
    if names := [*dict.fromkeys(map(str, options))]:
        example = dict(zip(names, counts, strict=False))
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


def labelled_mapping(table: Mapping[Any, Any]) -> pd.DataFrame:
    """Make a table of a mapping of mappings, jobs by options; what is not said is 0.

    Raises
    ------
    InputError
        For anything else, and for profiles, which are no throughputs.
    """
    valid = "a DataFrame, or a mapping such as {'job': {'v100': 4.0}}"
    if isinstance(table, Mapping) and any(hasattr(row, "phases") for row in table.values()):
        raise InputError(
            "Profiles are no throughputs; they go with links, for the policy 'rotations': "
            "ap.SharedLinks(profiles, jobs_of, capacities)."
        )
    speeds = {
        job: mapping(f"The throughput of job {written(job)}", row, "a mapping by type")
        for job, row in mapping("The throughputs", table, valid).items()
    }
    columns = dict.fromkeys(option for row in speeds.values() for option in row)
    rows = [[row.get(option, 0.0) for option in columns] for row in speeds.values()]
    labels = pd.Index(list(speeds), tupleize_cols=False)
    return pd.DataFrame(rows, index=labels, columns=pd.Index(list(columns)))


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


COMBINATION = " + "
"""Between the ids of jobs in the label of their combination."""


def combination_table(
    combinations: Mapping[tuple[Any, ...], Sequence[Sequence[float]]],
    options: Sequence[Any] | pd.Index,
) -> pd.DataFrame:
    """Make a table, rows ``(row, job)``, of a row of steps/s for each job of each combination.

    Raises
    ------
    InputError
        If a combination is no tuple, or has no number for each of its jobs and options.
    """
    labels, rows = [], []
    valid = "a mapping from tuples of job ids to rows of steps/s"
    combinations = mapping("combinations", combinations, valid)
    options = hashable("option", options)
    for members, given in combinations.items():
        if not isinstance(members, tuple) or not members:
            raise InputError(f"A combination is {written(members)}; it must be a tuple of ids.")
        rows_of = f"The throughputs of the combination {written(members)}"
        speeds = [listed(rows_of, speed, "rows of steps/s") for speed in listed(rows_of, given)]
        if any(len(speed) != len(options) for speed in speeds):
            raise InputError(f"{rows_of} must have a number for each of {written(options)}.")
        if len(speeds) != len(members):
            raise InputError(
                f"The combination {members!r} has {len(speeds)} rows of throughputs for "
                f"{len(members)} jobs."
            )
        name = members[0] if len(members) == 1 else COMBINATION.join(map(str, members))
        labels += [(name, job) for job in members]
        rows += [list(speed) for speed in speeds]
    index = pd.MultiIndex.from_tuples(labels, names=["row", "job"])
    return pd.DataFrame(rows, index=index, columns=pd.Index(options))


def rows_of_jobs(ids: pd.Index) -> pd.MultiIndex:
    """Return the labels ``(row, job)`` of jobs that are rows of their own; no id stands twice."""
    places = np.arange(len(ids))
    levels: Any = [ids, ids]
    codes: Any = [places, places]
    return pd.MultiIndex(levels, codes, names=["row", "job"])


def each_alone(index: pd.Index) -> bool:
    """Whether the labels ``(row, job)`` are of different jobs, each a row of its own.

    Told from the codes, without a look at the labels one by one. False says nothing for labels of
    several kinds, of which some may be equal that are not the same, as 1 and True.
    """
    if not isinstance(index, pd.MultiIndex) or index.nlevels != 2:
        return False
    (rows, jobs), (row, job) = index.levels, index.codes
    if rows.dtype == object or rows.dtype != jobs.dtype or not rows.equals(jobs):
        return False
    counts = np.bincount(row, minlength=1) if row.size and row.min() >= 0 else np.full(1, 2)
    return bool(counts.max() == 1) and np.array_equal(row, job)


def check_members(index: pd.Index) -> None:
    """Name the first combination that does not have the jobs that its label says.

    Raises
    ------
    InputError
        If there is one in the labels ``(row, job)``.
    """
    combined = index[index.get_level_values(0) != index.get_level_values(1)]
    members: dict[Any, list[str]] = {}
    for row, job in combined:
        members.setdefault(row, []).append(str(job))
    for row, jobs in members.items():
        named = str(row).split(COMBINATION)
        if len(jobs) == 1 and len(named) == 1:
            raise InputError(
                f"The row {written(row)} is of job {jobs[0]!r} only; a row of one job has the "
                f"job's own id."
            )
        if len(named) > 1 and len(jobs) < len(named):
            missing = next((name for name in named if name not in jobs), named[-1])
            raise InputError(
                f"The combination {written(row)} has no throughputs for its member "
                f"{missing!r}; it needs a row for each of {', '.join(named)}."
            )


OPTION_LEVELS = ("accelerator", "tier", "gpus")
"""What an option can say, the names of the levels of the columns."""


def check_speeds(values: pd.DataFrame, numbers: NDArray[np.float64]) -> None:
    """Name the first throughput that is not a finite number >= 0; `numbers` are the values."""
    wrong = ~(numbers <= LARGEST_NUMBER) | (numbers < 0)
    if wrong.any():
        member, option = np.argwhere(wrong)[0]
        job, value = values.index[member][1], values.iloc[member, option]
        raise InputError(
            f"The throughput of job {written(job)} on {written_option(values.columns[option])} is "
            f"{written(value)}; it must be a finite number of steps/s, 0 where the job cannot run."
        )


def name_in_cluster(option: Any) -> Any:
    """Return an option under the name that its type has in a cluster."""
    return (str(option[0]), *option[1:]) if isinstance(option, tuple) else str(option)


def level_names(options: pd.Index) -> tuple[str, ...] | None:
    """Return what the levels of options say, out of `OPTION_LEVELS`; None where that is unknown."""
    if options.nlevels == 1:
        return ("accelerator",)
    named = tuple(map(str, options.names))
    if any(name in OPTION_LEVELS for name in named):
        right = {"accelerator"} <= set(named) <= set(OPTION_LEVELS)
        return named if right and len(set(named)) == len(named) else None
    if options.nlevels > 2:
        return None
    numbers = pd.api.types.is_numeric_dtype(options.get_level_values(1))
    return ("accelerator", "gpus" if numbers else "tier")


def called(options: pd.Index) -> str:
    """Write the names of levels that have any."""
    return f" called {list(options.names)}" if any(options.names) else ""


def written_option(option: Any) -> str:
    """Write an option as a user would."""
    return " at ".join(map(written, option)) if isinstance(option, tuple) else written(option)
