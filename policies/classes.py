"""Identical jobs become one row with a count: an exact reduction, and its way back.

A concave objective that treats identical jobs alike has an optimum in which they have the same
shares (average any optimum over their permutations), so one row for all of them loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.policies.instance import Instance

__all__ = ["group_identical", "group_rows"]


def group_identical(
    instance: Instance, columns: Sequence[str]
) -> tuple[Instance, NDArray[np.intp]]:
    """Merge jobs that agree in throughputs, usage and the named columns.

    Parameters
    ----------
    instance
        A problem whose rows are single jobs.
    columns
        Columns of the jobs table that the policy reads.

    Returns
    -------
    reduced
        One row per class; its ``count`` is the number of jobs in the class.
    class_of
        The class of each job, shape (jobs,).
    """
    known = [instance.columns[name] for name in columns if name in instance.columns]
    keys: list[NDArray[Any]] = [instance.throughput, *(values[:, None] for values in known)]
    usage = instance.usage
    if usage.nnz == instance.rows * instance.options:
        keys += [usage.data.reshape(instance.rows, -1)]
        keys += [usage.indices.reshape(instance.rows, -1)]
    else:
        keys += [usage.toarray()]
    first, class_of = group_rows(np.hstack(keys))
    count = np.bincount(class_of, weights=instance.count, minlength=first.size)
    return instance.subset(first, count.astype(float)), class_of


def group_rows(matrix: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find equal rows: the first row of each class, and the class of every row.

    Rows are hashed to 64 bits and then compared with the first of their class, so a collision is
    noticed; it falls back on sorting the rows themselves.
    """
    rows = np.ascontiguousarray(matrix, dtype=np.float64) + 0.0  # -0.0 and 0.0 are one key
    odd = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], dtype=np.uint64)
    bits = rows.view(np.uint64)
    mixed = bits ^ (bits >> np.uint64(29))
    hashes = (mixed * (2 * odd + np.uint64(1))).sum(axis=1, dtype=np.uint64)
    _, first, class_of = np.unique(hashes, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first][class_of], rows):
        _, first, class_of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")  # classes in the order in which they first appear
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[class_of.reshape(-1)]
