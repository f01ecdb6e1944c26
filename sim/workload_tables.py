"""The two tables of a workload: checks, their one order, the way between them, both as csv.

Sums of floats, equal optima and ties between jobs or types all depend on the order of rows and
columns, be it in their last digits, and a tie that is broken otherwise is another schedule. So a
simulation puts jobs and types in an order of its own first, and its tables back afterwards.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_COUNT, LARGEST_NUMBER, label
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs, column_named
from apportion.table_checks import as_floats, check_unique
from apportion.text_files import json_of
from apportion.ties import order_of_submission
from apportion.whole_files import WHOLE, beside, save_with, to_csv

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload


THROUGHPUT_KEYS = ["job_type", "scale_factor"]
"""Names of the row levels of a table of throughputs."""

_DEFAULTS = {"arrival_s": 0.0, "scale_factor": 1, "weight": 1.0}


def checked_jobs(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs with their types fixed, defaults filled in, sorted by arrival.

    Raises
    ------
    InputError
        As `apportion.check_jobs`; ``job_type`` and ``total_steps`` must be there.
    """
    jobs = check_jobs(jobs, required=["job_type", "total_steps"])
    if jobs.empty:
        raise InputError("A workload needs at least one job; the jobs table has no rows.")
    _check_ids(jobs.index)
    if not jobs.get("measured", pd.Series(True, jobs.index)).any():
        raise InputError("The column 'measured' is False for every job; no figures would be left.")
    missing = {name: value for name, value in _DEFAULTS.items() if name not in jobs.columns}
    return jobs.assign(**missing).sort_values("arrival_s", kind="stable").rename_axis(index="job")


def _check_ids(ids: pd.Index) -> None:
    """Refuse ids of which no file could tell the jobs: blank ones, and two of the same text."""
    seen: dict[str, object] = {}
    for job in ids.tolist():
        text = label("job id", job)
        if text in seen:
            raise InputError(
                f"The job ids {written(seen[text])} and {written(job)} are the same text; every "
                f"job needs one of its own."
            )
        seen[text] = job


def checked_throughputs(throughputs: pd.DataFrame) -> pd.DataFrame:
    """Return the throughputs as floats, rows (job_type, scale_factor), columns named by type.

    Raises
    ------
    InputError
        If the rows are not pairs of job type and scale factor, if a row or an accelerator stands
        twice, or if a value is not a finite number >= 0.
    """
    if not isinstance(throughputs, pd.DataFrame) or throughputs.index.nlevels != 2:
        raise InputError(
            "The throughputs must be a DataFrame with rows (job_type, scale_factor) and one "
            "column of steps/s per accelerator type."
        )
    if throughputs.empty:
        raise InputError(f"The throughputs are empty: {throughputs.shape} rows and columns.")
    check_unique("row of the throughputs", throughputs.index)
    check_unique("accelerator in the throughputs", throughputs.columns)
    if throughputs.columns.nlevels != 1:
        raise InputError("The columns of the throughputs must be accelerator types, on one level.")
    gangs = as_floats(throughputs.index.get_level_values(1))
    wrong = ~((gangs >= 1) & (gangs <= LARGEST_COUNT) & (gangs == np.floor(gangs)))
    if wrong.any():
        row = throughputs.index[wrong].tolist()[0]
        raise InputError(
            f"The throughputs have a row {row!r}; its scale factor must be a whole number "
            f">= 1 (rows are job_type, scale_factor)."
        )
    for name in throughputs.index.get_level_values(0).unique():
        label("job type of the throughputs", name)
    for name in throughputs.columns:
        label("column of the throughputs, which is an accelerator type,", name)
    types = throughputs.index.get_level_values(0).astype(str)
    index = pd.MultiIndex.from_arrays([types, gangs.astype(np.int64)], names=THROUGHPUT_KEYS)
    columns = throughputs.columns.astype(str)
    for what, labels in (("row", index), ("accelerator", columns)):
        if not labels.is_unique:
            twice = labels[labels.duplicated()].tolist()[0]
            raise InputError(f"The throughputs have the {what} {twice!r} twice.")
    speeds = as_floats(throughputs)
    bad = np.argwhere(~((speeds <= LARGEST_NUMBER) & (speeds >= 0)))
    if bad.size:
        row, column = bad[0]
        raise InputError(
            f"The throughput of {index.tolist()[row]} on {columns[column]!r} is "
            f"{written(throughputs.iat[row, column])}; it must be a finite number >= 0 (steps/s)."
        )
    return pd.DataFrame(speeds, index=index, columns=columns)


def throughput_rows(jobs: pd.DataFrame, throughputs: pd.DataFrame) -> NDArray[np.intp]:
    """Position of every job's row in the throughputs, shape (jobs,).

    Raises
    ------
    InputError
        If a job has no row, naming the job and the nearest job type or the GPU counts known.
    """
    rows = find_rows(jobs, throughputs)
    if (rows < 0).any():
        job = jobs.index[rows < 0].tolist()[0]
        raise _no_throughput(job, jobs.iloc[int(np.argmax(rows < 0))], throughputs)
    return rows


def find_rows(jobs: pd.DataFrame, throughputs: pd.DataFrame) -> NDArray[np.intp]:
    """Position of every job's row in the throughputs, shape (jobs,); -1 where there is none."""
    rows = dict(zip(throughputs.index.tolist(), range(len(throughputs)), strict=True))
    keys = zip(*(jobs[name].tolist() for name in THROUGHPUT_KEYS), strict=True)
    return np.array([*map(rows.get, keys, repeat(-1))], dtype=np.intp)


def _no_throughput(job: object, row: pd.Series[Any], throughputs: pd.DataFrame) -> InputError:
    """Say what the throughputs lack: the job type, or the number of GPUs."""
    job_type, scale_factor = row["job_type"], row["scale_factor"]
    known_types = throughputs.index.get_level_values(0)
    if job_type not in known_types:
        what = f"job type of job {job!r} (scale factor {scale_factor})"
        return unknown_name(what, job_type, known_types.unique())
    gangs = throughputs.index[known_types == job_type].get_level_values(1)
    return InputError(
        f"Job {job!r} is {job_type!r} with scale factor {scale_factor}, for which there are no "
        f"throughputs; they know this job type with scale factor {', '.join(map(str, gangs))}."
    )


THROUGHPUTS = ".throughputs.csv"
"""Ending of the file of throughputs that belongs to one of jobs."""

_TEXTS = "texts: "
"""What the comment begins with that names columns of texts, a list in JSON."""


def kind_of(cells: pd.Series) -> str:
    """Tell what a column of one's own holds: numbers if all cells are, or truths, or texts.

    Digits after a zero, as in 007, are a text. Blank cells are NaN.
    """
    known = cells.dropna()
    if known.isin(["True", "False"]).all() and len(known) == len(cells):
        return "truth"
    numbers = pd.to_numeric(known, errors="coerce").notna().all()
    codes = numbers and known.str.match(r"\s*[+-]?0[0-9]").any()
    return "number" if numbers and not codes else "text"


def texts_told(comment: str) -> list[str] | None:
    """Return the columns that a comment says to hold texts; ``None`` if it says something else."""
    if not comment.startswith(_TEXTS):
        return None
    try:
        names = json_of(comment.removeprefix(_TEXTS), "the comment")
    except InputError:
        return None
    return names if isinstance(names, list) and all(isinstance(n, str) for n in names) else None


def _texts_to_tell(jobs: pd.DataFrame) -> list[str]:
    """Return the columns of texts, ids among them, that would be read as something else."""
    names = [
        str(name)
        for name, values in jobs.items()
        if column_named(name).kind == "own"
        and values.dtype.kind == "O"
        and kind_of(values.mask(values == "")) != "text"
    ]
    ids = jobs.index.to_series()
    texts = len(ids) and ids.map(lambda each: isinstance(each, str)).all()
    return ["job", *names] if texts and ids.str.fullmatch(WHOLE).all() else names


def save_tables(
    jobs_file: Path, jobs: pd.DataFrame, throughputs: pd.DataFrame, notes: Iterable[str]
) -> tuple[Path, Path]:
    """Write a jobs table, with notes as ``#`` lines above it, and its throughputs.

    A line ``# texts: ["project"]`` names columns of texts that look like numbers or truths.

    Returns
    -------
    tuple of Path
        The file of the jobs, and that of the throughputs.

    Raises
    ------
    InputError
        If the file of the jobs does not end in ``.csv`` or ``.csv.gz``, or cannot be written.
    """
    texts = _texts_to_tell(jobs)
    told = [_TEXTS + json.dumps(texts)] if texts else []
    other = beside(jobs_file, THROUGHPUTS)
    return save_with(jobs_file, jobs, [*told, *notes], other, to_csv(throughputs))


def by_arrival_and_id(workload: Workload) -> Workload:
    """Sort jobs that arrive together by their ids, numbers in ids by their value.

    Ties between jobs are broken by the order of jobs; in this order the outcome belongs to the
    jobs, whatever row they stood in.
    """
    arrival_s = workload.jobs["arrival_s"]
    if arrival_s.is_unique:  # a workload is sorted by arrival
        return workload
    order = order_of_submission(workload.jobs.index, arrival_s.to_numpy(dtype=float))
    if (order == np.arange(order.size)).all():
        return workload
    return replace(workload, jobs=workload.jobs.iloc[order])


def present_types(cluster: Cluster) -> Cluster:
    """Return a cluster of the types of which it has GPUs, in the order of their names.

    A type without GPUs cannot change anything then, for it is not there.
    """
    gpus = {name: cluster.gpus[name] for name in sorted(cluster.gpus) if cluster.gpus[name]}
    prices = {name: price for name, price in cluster.prices_per_gpu_hour.items() if name in gpus}
    return replace(cluster, gpus=gpus, prices_per_gpu_hour=prices)


def of_types_given(table: pd.DataFrame, suffix: str, cluster: Cluster) -> pd.DataFrame:
    """Put the columns by type of a table in the order of a cluster; types without GPUs have zeros.

    Parameters
    ----------
    table
        With a column ``<accelerator><suffix>`` for each type that has GPUs, one behind the other.
    suffix
        What follows the name of a type.
    cluster
        As it was given.
    """
    own = [f"{name}{suffix}" for name in cluster.accelerators]
    present = {f"{name}{suffix}" for name, count in cluster.gpus.items() if count}
    names = list(table.columns)
    first = min(map(names.index, present))
    others = [name for name in names if name not in present]
    columns = [*others[:first], *own, *others[first:]]
    if len(columns) == len(names):
        return table.iloc[:, [*map(names.index, columns)]]
    return table.reindex(columns=columns, fill_value=0.0)


def named_types(workload: Workload | ElasticWorkload) -> tuple[list[str], list[str]]:
    """Return what jobs train, and all that is known of such."""
    applications = getattr(workload, "applications", None)
    if applications is not None:
        return workload.jobs["application"].tolist(), list(applications)
    rigid = cast("Workload", workload)
    return rigid.jobs["job_type"].tolist(), rigid.throughputs.index.unique(0).tolist()
