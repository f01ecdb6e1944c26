"""What a simulation has shown: the jobs table and the figures of its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.jobs import JOB_COLUMNS
from apportion.ties import EXACT

if TYPE_CHECKING:
    from apportion.cluster import Cluster
    from apportion.sim.engine.true_state import TrueState
    from apportion.sim.workload import Workload

__all__ = ["jobs_table", "makespan_s", "summarise"]


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
    for name in known:
        if name in ("deadline_s", "entity") or name not in JOB_COLUMNS:
            columns[str(name)] = known[name].to_numpy()
    if "deadline_s" in known and known["deadline_s"].notna().any():
        due_s = known["deadline_s"].to_numpy(dtype=float)
        met = jct_s <= due_s * (1 + EXACT)
        columns["met_deadline"] = np.where(np.isnan(due_s), np.nan, met)
    held = {f"{name}_s": truth.held_s[:, k] for k, name in enumerate(cluster.accelerators)}
    return pd.DataFrame(columns | held, index=workload.jobs.index.rename("job"))


def makespan_s(jobs: pd.DataFrame) -> float:
    """Return the time from the first arrival to the last completion, seconds."""
    return float(jobs["completion_s"].max() - jobs["arrival_s"].min())


def summarise(jobs: pd.DataFrame, cluster: Cluster) -> dict[str, float]:
    """Return the figures that follow from the jobs table of a run.

    ``queueing_s`` is the mean wait of a job; ``utilization`` the share of all GPU time between
    first arrival and last completion that jobs held; ``deadlines_met``, if there are deadlines, the
    share of them that was met. Runs that know where gangs sat have the
    percentiles of the waits as well, and the mean exposed communication of a job; those of elastic
    jobs the mean restarts of a job, and the seconds that it paused for them.
    """
    jct_s = jobs["jct_s"].to_numpy()
    makespan = makespan_s(jobs)
    figures = {
        "mean_jct_s": float(jct_s.mean()),
        "median_jct_s": float(np.median(jct_s)),
        "p95_jct_s": float(np.percentile(jct_s, 95)),
        "p99_jct_s": float(np.percentile(jct_s, 99)),
        "makespan_s": makespan,
        "queueing_s": float(jobs["queueing_s"].mean()),
        "utilization": float(jobs["gpu_seconds"].sum() / (cluster.total_gpus * makespan)),
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
