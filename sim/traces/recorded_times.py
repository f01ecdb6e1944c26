"""When jobs started and ended by the log that they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError, written
from apportion.jobs import RECORDED_TIMES
from apportion.sim.recorded_types import not_told

if TYPE_CHECKING:
    import pandas as pd

    from apportion.cluster import Cluster
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload
    from apportion.types import Floats


def is_recorded(jobs: pd.DataFrame, cluster: Cluster | None = None) -> bool:
    """Tell whether a log says of every job when it started and ended.

    With a cluster also whether it tells on what type, as far as the cluster has several.
    """
    told = all(name in jobs and bool(jobs[name].notna().all()) for name in RECORDED_TIMES)
    return told and (cluster is None or not not_told(jobs, cluster))


def most_at_once(jobs: pd.DataFrame) -> int:
    """Return how many GPUs jobs had at once by their log, at most.

    Parameters
    ----------
    jobs
        With `RECORDED_TIMES`; jobs without them do not count. GPUs that come back at a time are
        there for who starts then.
    """
    known = jobs.dropna(subset=[*RECORDED_TIMES])
    times_s = np.concatenate([known[name].to_numpy(float) for name in reversed(RECORDED_TIMES)])
    gpus = known["scale_factor"].to_numpy()
    change = np.concatenate([-gpus, gpus])[np.argsort(times_s, kind="stable")]
    return int(change.cumsum().max(initial=0))


def too_few(jobs: pd.DataFrame, cluster: Cluster) -> list[tuple[str, int, int]]:
    """Return the GPUs (of a type, or "") of which a log had more at once than a cluster has."""
    rows = [("", jobs, cluster.total_gpus)]
    if "recorded_on" in jobs:
        ran = jobs[jobs["recorded_on"].isin(cluster.gpus)].groupby("recorded_on")
        rows += [(f"{kind} ", each, cluster.gpus[str(kind)]) for kind, each in ran]
    return [(kind, most, n) for kind, each, n in rows if (most := most_at_once(each)) > n]


def recorded_times(
    label: str, workload: Workload | ElasticWorkload, cluster: Cluster
) -> tuple[Floats, Floats]:
    """Return when jobs started and ended by their log.

    Raises
    ------
    InputError
        If that is not told, or impossible, or if types of GPUs are not told and the cluster has
        several.
    """
    jobs = workload.jobs
    if none := not_told(jobs, cluster):
        raise InputError(f"{label!r} cannot be set beside others: {none}. Or leave {label!r} out.")
    for name in RECORDED_TIMES:
        if name not in jobs:
            raise InputError(
                f"{label!r} replays when jobs started and ended, and the workload "
                f"{workload.name!r} has no {name}: it comes from no log that tells. Leave "
                f"{label!r} out, or read a log with these times, such as one of sacct."
            )
    start_s, end_s = (jobs[name].to_numpy(dtype=float) for name in RECORDED_TIMES)
    arrival_s = jobs["arrival_s"].to_numpy(dtype=float)
    for name, times_s, least_s, valid in (
        ("recorded_start_s", start_s, arrival_s, "at least its arrival_s"),
        ("recorded_end_s", end_s, np.nextafter(start_s, np.inf), "after its recorded_start_s"),
    ):
        wrong = ~(times_s >= least_s)
        if wrong.any():
            job = int(np.argmax(wrong))
            raise InputError(
                f"Job {written(jobs.index[job])} has {name} = {written(times_s[job])}; for "
                f"{label!r} it must be {valid} ({arrival_s[job]:g}, {start_s[job]:g})."
            )
    return start_s, end_s
