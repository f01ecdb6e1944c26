"""Where jobs can run, and what is wrong with a state in which they do otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError, written
from apportion.sim.one_round.tables import clock_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.sim.one_round.tables import Seconds
    from apportion.tensor import ThroughputTensor

    Floats = NDArray[np.float64]

__all__ = ["check_fits", "check_gang", "check_time", "fitting", "gpus_held"]


def gpus_held(tensor: ThroughputTensor, jobs: pd.DataFrame) -> Floats:
    """Return the GPUs that each job holds under each option, shape (jobs, options)."""
    scale = jobs["scale_factor"].to_numpy(dtype=float)[:, None]
    gpus = tensor.gpus_of_option
    return np.broadcast_to(scale if gpus is None else gpus, tensor.values.shape)


def fitting(tensor: ThroughputTensor, cluster: Cluster, gpus: Floats) -> NDArray[np.bool_]:
    """Tell which options jobs can have on a cluster, shape (jobs, options)."""
    room = np.array([cluster.gpus.get(name, 0) for name in tensor.accelerator_of_option])
    return np.asarray((tensor.values.to_numpy() > 0) & (gpus <= room), dtype=bool)


def check_fits(tensor: ThroughputTensor, cluster: Cluster, gpus: Floats) -> None:
    """Refuse a job that could run nowhere if all devices were free.

    Raises
    ------
    InputError
        It names the job.
    """
    stuck = ~fitting(tensor, cluster, gpus).any(axis=1)
    if stuck.any():
        job = int(np.argmax(stuck))
        runs = tensor.values.to_numpy()[job] > 0
        where = ", ".join(dict.fromkeys(tensor.accelerator_of_option[runs]))
        raise InputError(
            f"Job {written(tensor.jobs[job])} can run nowhere: it needs {gpus[job][runs].min():g} "
            f"GPUs of a type on which it runs ({where}), and the cluster has {cluster}."
        )


def check_time(jobs: pd.DataFrame, received: Seconds) -> None:
    """Refuse a job that has had devices for longer than it is there.

    Raises
    ------
    InputError
        It names the job.
    """
    arrival_s, now_s = clock_of(jobs)
    there_s = dict(zip(jobs.index.tolist(), (now_s - arrival_s).tolist(), strict=True))
    had_s = dict.fromkeys(there_s, 0.0)
    for row, values in zip(received.rows, received.values, strict=True):
        for job in row:
            had_s[job] += float(values.sum())
    for job, seconds in had_s.items():
        if seconds > there_s[job] * (1 + 1e-6) + 1e-6:
            raise InputError(
                f"Job {written(job)} has received {seconds:g} s of devices and is there for "
                f"{there_s[job]:g} s; tell elapsed_s (or arrival_s) in the jobs table."
            )


def check_gang(
    tensor: ThroughputTensor, gpus: Floats, job: Hashable, accelerator: str, count: int
) -> None:
    """Refuse devices that a job that runs cannot have.

    Raises
    ------
    InputError
        It says how many the job needs there.
    """
    place = tensor.jobs.get_loc(job)
    may = tensor.values.to_numpy()[place] > 0
    sizes = gpus[place][may & (tensor.accelerator_of_option == accelerator)]
    if count not in sizes:
        runs = f"it needs {', '.join(f'{each:g}' for each in sorted(set(sizes)))} of this type"
        raise InputError(
            f"Job {written(job)} runs on {count} devices {accelerator!r}; "
            f"{runs if sizes.size else 'its throughput there is 0'}."
        )
