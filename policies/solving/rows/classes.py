"""Identical jobs become one row with a count: an exact reduction, and its way back.

A concave objective that treats identical jobs alike has an optimum in which they have the same
shares (average any optimum over their permutations), so one row for all of them loses nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy import sparse

    from apportion.policies.instance import Instance

__all__ = ["group_identical", "group_rows"]


_WIDE = 4096
"""Columns of usage above which rows are compared by what is stored of them."""
_CHUNK = 4096
"""Rows that are hashed or compared at a time, so that they stay in the processor's cache."""


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
    keys: list[NDArray[Any]] = [instance.throughput]
    keys += [instance.columns[name] for name in columns if name in instance.columns]
    usage = instance.usage
    if instance.holds_gpus_only:
        keys += [instance.columns["scale_factor"]]
    elif usage.nnz == instance.rows * instance.options:
        keys += [usage.data.reshape(instance.rows, -1)]
        keys += [usage.indices.reshape(instance.rows, -1).astype(float)]
    elif usage.shape[1] <= _WIDE:
        keys += [usage.toarray()]
    else:
        keys += [_equal_sparse_rows(usage)]
    first, class_of = group_rows(*keys)
    count = np.bincount(class_of, weights=instance.count, minlength=first.size)
    return instance.subset(first, count.astype(float)), class_of


def _equal_sparse_rows(usage: sparse.csr_array) -> NDArray[np.float64]:
    """Give equal rows of a sparse array a number, in the order in which they appear."""
    usage.sort_indices()
    seen: dict[tuple[bytes, bytes], int] = {}
    starts = usage.indptr.tolist()
    numbers = [
        seen.setdefault((usage.indices[a:b].tobytes(), usage.data[a:b].tobytes()), len(seen))
        for a, b in pairwise(starts)
    ]
    return np.array(numbers, dtype=float)


def group_rows(*keys: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find equal rows: the first row of each class, and the class of every row.

    Rows are hashed to 64 bits and then compared with the first of their class, so a collision is
    noticed. The hash is a quick one; after a collision a better one, and after another the rows
    themselves are sorted. Classes come in the order in which they first appear.

    Parameters
    ----------
    *keys
        Arrays of shape (rows,) or (rows, any) that equal rows agree in.
    """
    tables = [key.reshape(key.shape[0], -1) for key in keys]
    differing = [table for table in tables if not _all_rows_equal(table)] or tables[:1]
    for hashes_of in (_quick_hashes, _hashes):
        class_of = pd.factorize(hashes_of(differing))[0].astype(np.intp, copy=False)
        highest = np.maximum.accumulate(class_of)
        first = np.searchsorted(highest, np.arange(highest[-1] + 1))
        if all(_equal_their_first(table, first, class_of) for table in differing):
            return first, class_of
    rows = np.hstack(differing)
    _, first, class_of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[class_of.reshape(-1)]


def _all_rows_equal(table: NDArray[np.float64]) -> bool:
    """Whether a table says nothing about its rows; a look at a few settles it for most tables."""
    return bool((table[:_CHUNK] == table[:1]).all() and (table == table[:1]).all())


def _quick_hashes(tables: Sequence[NDArray[np.float64]]) -> NDArray[np.uint64]:
    """Hash the rows of all tables by a weighted sum, in which small differences can be lost."""
    rng = np.random.default_rng(0)
    sums = np.zeros(tables[0].shape[0])
    for table in tables:
        # Not a product of matrices, which adds up equal rows in orders of its own.
        sums += np.einsum("ij,j->i", table, rng.uniform(1.0, 2.0, table.shape[1]))
    return sums.view(np.uint64)


def _hashes(tables: Sequence[NDArray[np.float64]]) -> NDArray[np.uint64]:
    """Hash the rows of all tables together, shape (rows,)."""
    rng = np.random.default_rng(0)
    odd = [2 * rng.integers(0, 2**63, t.shape[1], dtype=np.uint64) + np.uint64(1) for t in tables]
    hashes = np.zeros(tables[0].shape[0], dtype=np.uint64)
    for table, factor in zip(tables, odd, strict=True):
        room = np.empty((min(_CHUNK, hashes.size), table.shape[1]))
        other = np.empty_like(room, dtype=np.uint64)
        for start in range(0, hashes.size, _CHUNK):
            rows = table[start : start + _CHUNK]
            bits, mixed = room[: len(rows)].view(np.uint64), other[: len(rows)]
            np.add(rows, 0.0, out=room[: len(rows)])  # -0.0 and 0.0 are one key
            np.right_shift(bits, np.uint64(29), out=mixed)
            mixed ^= bits
            hashes[start : start + _CHUNK] += mixed @ factor
    return hashes


def _equal_their_first(
    table: NDArray[np.float64], first: NDArray[np.intp], class_of: NDArray[np.intp]
) -> bool:
    """Whether every row of a table equals the first of its class."""
    rows = table[first]
    return all(
        (rows.take(class_of[start : start + _CHUNK], axis=0) == table[start : start + _CHUNK]).all()
        for start in range(0, class_of.size, _CHUNK)
    )
