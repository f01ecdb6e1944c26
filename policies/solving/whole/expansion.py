"""From units of classes back to jobs: the jobs of a class take its options one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["of_jobs"]


def of_jobs(units: Floats, class_of: Ints, count: Floats) -> Floats:
    """Give the units of each class to its jobs, in the order of the jobs, shape (jobs, options).

    The first jobs of a class get its first option, until its units are gone, then its second.

    Parameters
    ----------
    units
        Units of each class under each option, shape (classes, options).
    class_of, count
        Class of each job, and the units that it has, shape (jobs,).

    Returns
    -------
    X
        Part of each job's units under each option: 0 or 1 for a job of one unit.
    """
    order = np.argsort(class_of, kind="stable")
    before = np.cumsum(count[order]) - count[order]
    first = np.searchsorted(class_of[order], np.arange(units.shape[0]))
    begin = np.empty(count.size)
    begin[order] = before - before[first][class_of[order]]
    until = np.cumsum(units, axis=1)[class_of]
    since = until - units[class_of]
    mine = np.minimum(until, (begin + count)[:, None]) - np.maximum(since, begin[:, None])
    return np.asarray(np.maximum(mine, 0.0) / count[:, None], dtype=float)
