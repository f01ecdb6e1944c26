"""What throughputs are compared with: speeds of jobs by themselves, equal shares, isolated slices.

Everything here is of a job *by itself*, under each option. A job that never runs by itself is
taken as it runs in the combinations that it is in: for each option the one in which it is fastest.

Shares are of the GPUs of all types of the cluster: one on which a job cannot run takes its part of
the job's time and adds no steps, but for a policy that takes types to be alike, to which it is as
good as any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.errors import InputError

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints


class SoloSpeeds(NamedTuple):
    """How jobs run by themselves.

    Attributes
    ----------
    speed
        Steps/s of each job under each option, 0 where it cannot run, shape (jobs, options).
    gpus
        GPUs that it holds there, shape (jobs, options).
    """

    speed: Floats
    gpus: Floats

    @property
    def held(self) -> Floats:
        """Most GPUs that a job holds under an option on which it runs, shape (jobs,)."""
        return np.asarray(np.where(self.speed > 0, self.gpus, 0.0).max(axis=1, initial=0.0))

    @property
    def elastic(self) -> Bools:
        """Whether the options of a job hold different numbers of GPUs, shape (jobs,)."""
        fewest = np.where(self.speed > 0, self.gpus, np.inf).min(axis=1, initial=np.inf)
        return np.asarray(fewest < self.held, dtype=bool)


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

    Raises
    ------
    InputError
        If capacity or scale_factor is no list of numbers.
    """
    capacity, scale_factor = np.asarray(capacity, float), np.asarray(scale_factor, float)
    for name, each in (("capacity", capacity), ("scale_factor", scale_factor)):
        if each.ndim != 1:
            raise InputError(f"{name} has the shape {each.shape}; it must be a list of numbers.")
    n = scale_factor.size if jobs is None else jobs
    share = capacity[None, :] / (max(n, 1) * scale_factor[:, None])
    return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0), dtype=float)


def slice_throughput(
    throughput: Floats, gpus: Floats, slice_gpus: Floats, accelerator: Ints
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
    a, b = np.triu_indices(accelerator.size, 1)
    alike = accelerator[a] == accelerator[b]
    a, b = a[alike], b[alike]
    fewer = gpus[:, b] - gpus[:, a]
    crossing = gpus[:, b] * throughput[:, a] - gpus[:, a] * throughput[:, b]
    np.divide(crossing, fewer, out=crossing, where=fewer != 0)
    price = np.hstack([np.zeros((throughput.shape[0], 1)), throughput, np.maximum(crossing, 0.0)])
    cost = price.copy()
    for kind in np.unique(accelerator):
        worth = np.zeros_like(price)
        for option in np.flatnonzero(accelerator == kind):
            gain = (throughput[:, option, None] - price) / held[:, option, None]
            np.maximum(worth, gain, out=worth)
        cost += slice_gpus[option] * worth
    return np.asarray(cost.min(axis=1), dtype=float)
