"""The isolated share: what a job would have if the cluster were split evenly and walled off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["isolated_share", "slice_throughput"]


def isolated_share(capacity: Floats, scale_factor: Floats, jobs: float | None = None) -> Floats:
    """Return the time shares of jobs that each own a 1/n slice of every accelerator type.

    ``X[i, j] = (capacity[j] / n) / scale_factor[i]``, scaled down where a job would run more than
    all the time (Gavel, section 4.2: the isolated allocation of finish-time fairness). Types on
    which a job does not run take their part of its time as well.

    Parameters
    ----------
    capacity
        GPUs of each type of the cluster, shape (types,).
    scale_factor
        GPUs of each job, shape (jobs,).
    jobs
        The number n of jobs that share the cluster; the number of rows by default.
    """
    n = scale_factor.size if jobs is None else jobs
    share = capacity[None, :] / (max(n, 1) * scale_factor[:, None])
    return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0), dtype=float)


def slice_throughput(
    throughput: Floats, gpus: Floats, slice_gpus: Floats, accelerator: NDArray[np.intp]
) -> Floats:
    """Return the most steps/s that jobs can make in a slice, by options that hold several GPUs.

    ``max over x >= 0 of throughput @ x`` such that ``sum x <= 1`` and, for each type, the options
    of it hold ``sum of gpus * x <= slice_gpus`` on average. Computed from the dual, which has one
    variable, the price t of all the job's time: ``min over t >= 0 of t + sum over types of
    slice_gpus * max(0, max over options (throughput - t) / gpus)``. That is convex and piecewise
    linear, so its least value is at a kink, and all kinks are looked at.

    Parameters
    ----------
    throughput
        Steps/s of each job under each option, shape (jobs, options); 0 = cannot run.
    gpus
        GPUs that it holds there, shape (jobs, options).
    slice_gpus
        GPUs of an option's type in the slice, shape (options,).
    accelerator
        Type of each option, shape (options,).
    """
    held = np.where(throughput > 0, gpus, np.inf)
    kinks = [np.zeros((throughput.shape[0], 1)), throughput]
    types = [np.flatnonzero(accelerator == kind) for kind in np.unique(accelerator)]
    for options in types:
        a, b = (options[pair] for pair in np.triu_indices(options.size, 1))
        runs = (throughput[:, a] > 0) & (throughput[:, b] > 0) & (gpus[:, a] != gpus[:, b])
        crossing = np.divide(
            gpus[:, b] * throughput[:, a] - gpus[:, a] * throughput[:, b],
            gpus[:, b] - gpus[:, a],
            out=np.zeros(runs.shape),
            where=runs,
        )
        kinks.append(np.maximum(crossing, 0.0))
    price = np.hstack(kinks)
    cost = price.copy()
    for options in types:
        worth = np.zeros_like(price)
        for option in options:
            gain = (throughput[:, option, None] - price) / held[:, option, None]
            np.maximum(worth, gain, out=worth)
        cost += slice_gpus[options[0]] * worth
    return np.asarray(cost.min(axis=1), dtype=float)
