"""Many rows, a few at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.types import Floats, Ints

CHUNK = 4096
"""Rows at a time that stay in the processor's cache."""


def chunks(rows: int) -> Iterator[slice]:
    """Return pieces of so many rows, in their order."""
    return (slice(start, min(start + CHUNK, rows)) for start in range(0, rows, CHUNK))


def made(speed: Floats, X: Floats, row: Ints) -> Floats:
    """Return what each job makes, shape (jobs,).

    Parameters
    ----------
    speed
        Throughput of each job under each option, shape (jobs, options).
    X, row
        Shares of time, shape (rows, options), and whose row each job has, shape (jobs,).
    """
    found = np.empty(row.size)
    for chunk in chunks(row.size):
        found[chunk] = (speed[chunk] * X[row[chunk]]).sum(axis=1)
    return found
