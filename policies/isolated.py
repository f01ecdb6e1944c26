"""The isolated share: what a job would have if the cluster were split evenly and walled off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["isolated_share"]


def isolated_share(
    capacity: NDArray[np.float64],
    scale_factor: NDArray[np.float64],
    jobs: float | None = None,
) -> NDArray[np.float64]:
    """Return the time shares of jobs that each own a 1/n slice of every accelerator type.

    ``X[i, j] = (capacity[j] / n) / scale_factor[i]``, scaled down where a job would run more than
    all the time (Gavel, section 4.2: the isolated allocation of finish-time fairness).

    Parameters
    ----------
    capacity
        GPUs of each type, shape (types,).
    scale_factor
        GPUs of each job, shape (jobs,).
    jobs
        The number n of jobs that share the cluster; the number of rows by default.
    """
    n = scale_factor.size if jobs is None else jobs
    share = capacity[None, :] / (max(n, 1) * scale_factor[:, None])
    return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0), dtype=float)
