"""Equal rows among many, found by hashes and then compared.

Rows are hashed to 64 bits and compared with the first of their class, so that a collision is
noticed. The hash is a quick one; after a collision a better one, and after another the rows
themselves are sorted.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.policies.chunks import CHUNK, chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy import sparse


def classes_by_hashes(
    told: Sequence[NDArray[np.float64]],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find equal rows: the first row of each class, and the class of every row.

    Parameters
    ----------
    told
        Tables of shape (rows, any) that equal rows agree in.
    """
    for hashes_of in (_quick_hashes, _hashes):
        class_of = pd.factorize(hashes_of(told))[0].astype(np.intp, copy=False)
        highest = np.maximum.accumulate(class_of)
        first = np.searchsorted(highest, np.arange(highest[-1] + 1))
        if _equal_their_first(told, first, class_of):
            return first, class_of
    rows = np.hstack(told)
    _, first, class_of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[class_of.reshape(-1)]


def equal_sparse_rows(usage: sparse.csr_array) -> NDArray[np.float64]:
    """Give equal rows of a sparse array a number, in the order in which they appear."""
    usage.sort_indices()
    seen: dict[tuple[bytes, bytes], int] = {}
    starts = usage.indptr.tolist()
    numbers = [
        seen.setdefault((usage.indices[a:b].tobytes(), usage.data[a:b].tobytes()), len(seen))
        for a, b in pairwise(starts)
    ]
    return np.array(numbers, dtype=float)


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
        room = np.empty((min(CHUNK, hashes.size), table.shape[1]))
        other = np.empty_like(room, dtype=np.uint64)
        for chunk in chunks(hashes.size):
            rows = table[chunk]
            bits, mixed = room[: len(rows)].view(np.uint64), other[: len(rows)]
            np.add(rows, 0.0, out=room[: len(rows)])  # -0.0 and 0.0 are one key
            np.right_shift(bits, np.uint64(29), out=mixed)
            mixed ^= bits
            hashes[chunk] += mixed @ factor
    return hashes


def _equal_their_first(
    tables: Sequence[NDArray[np.float64]], first: NDArray[np.intp], class_of: NDArray[np.intp]
) -> bool:
    """Whether every row of some tables equals the first of its class."""
    if first.size == class_of.size:  # every row is one
        return True
    for table in tables:
        rows = table[first]
        for chunk in chunks(class_of.size):
            if (rows.take(class_of[chunk], axis=0) != table[chunk]).any():
                return False
    return True
