"""What a simulation has shown: the jobs table and the figures of its summary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd

from apportion.checks import number
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import JOB_COLUMNS
from apportion.ties import EXACT

if TYPE_CHECKING:
    from apportion.cluster import Cluster
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.engine.true_state import TrueState
    from apportion.sim.workload import Workload

AnyWorkload = TypeVar("AnyWorkload", bound="Workload | ElasticWorkload")


def jobs_table(truth: TrueState, workload: Workload, cluster: Cluster) -> pd.DataFrame:
    """Make the jobs table of a run, indexed by job.

    ``jct_s`` is the job completion time, from arrival to completion; ``queueing_s`` the part of
    it in which the job did not run; ``ftf`` its finish-time fairness, ``jct_s / isolated_s``.
    GPUs of types without a price make ``cost`` (US dollars) NaN for the jobs that used them.
    ``deadline_s``, seconds after arrival, ``entity`` and columns of one's own are there if the
    workload has them, and ``met_deadline`` if a job has a deadline: 1 where it was met, 0 where it
    was missed, NaN where there is none.
    """
    jct_s = truth.completion_s - truth.arrival_s
    gpu_seconds = truth.gpu_s
    dollars = np.where(gpu_seconds > 0, gpu_seconds / 3600 * cluster.prices, 0.0)
    columns = {
        "job_type": workload.jobs["job_type"].to_numpy(),
        "scale_factor": truth.scale,
        "arrival_s": truth.arrival_s,
        "start_s": truth.start_s,
        "completion_s": truth.completion_s,
        "jct_s": jct_s,
        "queueing_s": np.maximum(jct_s - truth.held_s.sum(axis=1), 0.0),
        "isolated_s": truth.isolated_s,
        "ftf": jct_s / truth.isolated_s,
        "gpu_seconds": gpu_seconds.sum(axis=1),
        "cost": dollars.sum(axis=1),
        "preemptions": truth.preemptions,
    }
    known = workload.jobs
    columns |= {name: known[name].to_numpy() for name in told_columns(known)}
    if "deadline_s" in known and known["deadline_s"].notna().any():
        due_s = known["deadline_s"].to_numpy(dtype=float)
        met = jct_s <= due_s * (1 + EXACT)
        columns["met_deadline"] = np.where(np.isnan(due_s), np.nan, met)
    held = {f"{name}_s": truth.held_s[:, k] for k, name in enumerate(cluster.accelerators)}
    return pd.DataFrame(columns | held, index=workload.jobs.index.rename("job"))


def told_columns(jobs: pd.DataFrame) -> list[str]:
    """Return the columns of a workload's jobs that stand in the jobs table of a run as they are."""
    told = ("deadline_s", "entity", "measured")
    return [str(name) for name in jobs if name in told or name not in JOB_COLUMNS]


def measuring(workload: AnyWorkload, first: float, last: float) -> AnyWorkload:
    """Let figures be of the jobs in the middle, those that meet a cluster as busy as ever.

    The first jobs of a workload find empty GPUs, and the last ones are left more and more of them
    (warm-up and drain). They run like all others, but the summary, marks, plots and tables of
    groups leave them out. Means that are to hold for a steady state are taken so (Law, Simulation
    Modeling and Analysis, chapter 9; Gavel's are of jobs 4,000 to 5,000).

    Parameters
    ----------
    workload
        Whose jobs get a column ``measured``. One that it has is replaced.
    first, last
        Which jobs count, in the order of their arrival: 0.4 and 0.9 are those after the first 40 %
        and before the last 10 %.

    Raises
    ------
    InputError
        Unless ``0 <= first < last <= 1`` with a job between them.
    """
    number("The start of the jobs that are measured", first, most=1)
    number("The end of the jobs that are measured", last, most=1)
    count = len(workload.jobs)
    start, end = round(first * count), round(last * count)
    if start >= end:
        raise InputError(
            f"No job of {count} is measured from {first:g} to {last:g}; give two numbers from 0 to "
            f"1, the first lower, such as 0.4 and 0.9."
        )
    place = np.arange(count)
    jobs = workload.jobs.assign(measured=(place >= start) & (place < end))
    note = (
        f"figures are of {end - start} of the {count:,} jobs: not the first {first:.0%}, nor the "
        f"last {1 - last:.0%}"
    )
    return replace(workload, jobs=jobs, notes=(*workload.notes, note))


def measured_jobs(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a jobs table that figures are of: all, or those that are ``measured``."""
    return jobs[jobs["measured"]] if "measured" in jobs else jobs


def makespan_s(jobs: pd.DataFrame) -> float:
    """Return the time from the first arrival to the last completion, seconds."""
    return float(jobs["completion_s"].max() - jobs["arrival_s"].min())


def summarise(jobs: pd.DataFrame, rounds: pd.DataFrame, cluster: Cluster) -> dict[str, float]:
    """Return the figures that follow from the tables of a run.

    They are of the jobs that are measured, but for ``makespan_s``, which is of all.
    ``queueing_s`` is the mean wait of a job; ``utilization`` the share of all GPU time between
    first arrival and last completion that jobs held, or between the first and the last arrival of
    jobs that are measured, where that is not all, and NaN above 1, where a log had more GPUs than
    the cluster; ``deadlines_met``, if there are deadlines, the
    share of them that was met. Runs that know where gangs sat have the
    percentiles of the waits as well, and the mean exposed communication of a job; those of elastic
    jobs the mean restarts of a job, and the seconds that it paused for them.
    """
    utilization, makespan = _utilization(jobs, rounds, cluster), makespan_s(jobs)
    utilization = utilization if utilization <= 1 + EXACT else np.nan
    jobs = measured_jobs(jobs)
    jct_s = jobs["jct_s"].to_numpy()
    figures = {
        "mean_jct_s": float(jct_s.mean()),
        "median_jct_s": float(np.median(jct_s)),
        "p95_jct_s": float(np.percentile(jct_s, 95)),
        "p99_jct_s": float(np.percentile(jct_s, 99)),
        "makespan_s": makespan,
        "queueing_s": float(jobs["queueing_s"].mean()),
        "utilization": utilization,
        "ftf_max": float(jobs["ftf"].max()),
        "cost": float(jobs["cost"].sum(skipna=False)),
        "preemptions": int(jobs["preemptions"].sum()),
    }
    if "met_deadline" in jobs.columns:
        figures["deadlines_met"] = float(jobs["met_deadline"].mean())
    if "communication_s" in jobs.columns:
        queueing_s = jobs["queueing_s"].to_numpy()
        figures |= {
            "p95_queueing_s": float(np.percentile(queueing_s, 95)),
            "p99_queueing_s": float(np.percentile(queueing_s, 99)),
            "communication_s": float(jobs["communication_s"].mean()),
        }
    if "restarts" in jobs.columns:
        figures |= {
            "restarts": float(jobs["restarts"].mean()),
            "paused_s": float(jobs["paused_s"].mean()),
        }
    return figures


def _utilization(jobs: pd.DataFrame, rounds: pd.DataFrame, cluster: Cluster) -> float:
    """Return the share of GPU time that jobs held, in the time that figures are of."""
    arrival_s = measured_jobs(jobs)["arrival_s"]
    first_s, last_s = float(arrival_s.min()), float(arrival_s.max())
    if len(arrival_s) == len(jobs) or first_s == last_s:
        return float(jobs["gpu_seconds"].sum() / (cluster.total_gpus * makespan_s(jobs)))
    start_s, end_s = rounds["start_s"].to_numpy(), rounds["end_s"].to_numpy()
    within = np.clip(end_s, first_s, last_s) - np.clip(start_s, first_s, last_s)
    part = np.divide(within, end_s - start_s, out=np.zeros_like(within), where=end_s > start_s)
    busy = rounds[[f"{name}_busy" for name in cluster.accelerators]].sum(axis=1).to_numpy()
    return float((busy * part).sum() / (cluster.total_gpus * (last_s - first_s)))


def by_group(jobs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return what groups of jobs had, those of one value of a column, as of one user.

    Parameters
    ----------
    jobs
        The jobs table of a run. Only jobs that are measured count.
    column
        Of this table, ``"user"``. With weights of groups in a column ``weight_of_user``, the same
        number > 0 for all jobs of a group, Jain's index is weighted besides.

    Returns
    -------
    DataFrame
        One row per group, indexed by `column`, in order: ``jobs``; ``gpu_seconds`` and ``share``,
        the part of those of all jobs; ``queueing_s``, ``mean_jct_s``, ``p95_jct_s``, ``ftf_mean``
        and ``ftf_max`` over its jobs; ``deadlines_met``, if there are deadlines, the share of its
        own; ``jain_index``, the same in each row::

            (sum x)^2 / (n sum x^2)

        with x the shares of the n groups: 1 where all are equal, 1/n where one has everything
        (Jain, Chiu and Hawe, 1984). With weights ``weight``, and ``weighted_jain_index``, with x
        the share over the weight.

    Raises
    ------
    InputError
        For a column that the table does not have, or weights that are none.
    """
    if not isinstance(column, str) or column not in jobs.columns:
        raise unknown_name("column of the jobs table", column, jobs.columns)
    jobs = measured_jobs(jobs)
    groups = jobs.groupby(column, dropna=False, sort=True)
    gpu_seconds = groups["gpu_seconds"].sum()
    share = gpu_seconds / gpu_seconds.sum()
    figures: dict[str, pd.Series | float] = {
        "jobs": groups.size(),
        "gpu_seconds": gpu_seconds,
        "share": share,
        "queueing_s": groups["queueing_s"].mean(),
        "mean_jct_s": groups["jct_s"].mean(),
        "p95_jct_s": groups["jct_s"].quantile(0.95),
        "ftf_mean": groups["ftf"].mean(),
        "ftf_max": groups["ftf"].max(),
    }
    if "met_deadline" in jobs.columns:
        figures["deadlines_met"] = groups["met_deadline"].mean()
    figures["jain_index"] = _jain_index(share)
    if f"weight_of_{column}" in jobs.columns:
        figures["weight"] = weight = _weights(jobs, column)
        figures["weighted_jain_index"] = _jain_index(share / weight)
    if column in figures:
        raise InputError(f"Groups cannot be told by {column!r}, which is a figure of theirs.")
    return pd.DataFrame(figures)


def _jain_index(x: pd.Series) -> float:
    """Return Jain's index of fairness."""
    return float(x.sum() ** 2 / (len(x) * (x**2).sum()))


def _weights(jobs: pd.DataFrame, column: str) -> pd.Series:
    """Return the weight of each group.

    Raises
    ------
    InputError
        If one has none, or several; the group is named.
    """
    name = f"weight_of_{column}"
    given = pd.to_numeric(jobs[name], errors="coerce")
    groups = given.groupby(jobs[column], dropna=False, sort=True)
    least, most = groups.min(), groups.max()
    wrong = ~((least > 0) & (least == most)) | groups.size().ne(groups.count())
    if wrong.any():
        raise InputError(
            f"{name} of {column} {written(wrong.idxmax())} must be one number > 0 for all its jobs."
        )
    return least
