"""Scales by which what jobs demand is around 1, however far apart the jobs' demands lie.

Solvers take for zero what is below some 1e-9. A job that is to have a millionth of what others have
must not be near that, nor may a level in 1/s: every row that demands something of a job is counted
in units of what it demands, every share of time in units of the share that would be enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.policies.solving.cone import Scales

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.cone import ConeProgram
    from apportion.types import Floats

    Ints = NDArray[np.integer[Any]]

_LEAST = 1e-8
"""Smallest unit of a share of time; HiGHS drops entries below 1e-9."""


def demand_scales(program: ConeProgram, rows: Ints, size: Floats, common: int | None) -> Scales:
    """Find scales for a program in which some rows demand something of jobs.

    Parameters
    ----------
    program
        A program that was not scaled.
    rows
        The demands, inequalities.
    size
        About what each demands, > 0, shape (rows,).
    common
        Column of a quantity by which all demands rise together, if there is one; it stays as it is.
    """
    A = program.A
    place = np.full(program.b.size, -1)
    place[rows] = np.arange(rows.size)
    column_of = np.repeat(np.arange(program.c.size), np.diff(A.indptr))
    entry = np.abs(A.data)
    demands = (place[A.indices] >= 0) & (entry > 0) & (column_of != common)
    plain = Scales.of(_without(program, common))
    enough = np.full(program.c.size, np.inf)
    each = size[place[A.indices[demands]]] / entry[demands]
    np.minimum.at(enough, column_of[demands], each)
    column = np.where(np.isfinite(enough), np.clip(enough, _LEAST, 1.0), plain.column)
    if common is not None:
        column[common] = 1.0
    row = np.ones(program.b.size)
    linear = np.arange(program.b.size) < program.linear
    largest = np.zeros(program.b.size)
    own = np.where(column_of == common, 0.0, entry * column[column_of])
    np.maximum.at(largest, A.indices, own)
    scaled = linear & (largest > 0)
    row[scaled] = 1 / largest[scaled]
    row[rows] = 1 / np.maximum(size, largest[rows])  # more than `size` only below the least unit
    column, row = _powers_of_two(column), _powers_of_two(row)
    cost = float(np.abs(column * program.c).max(initial=0.0)) or 1.0
    return Scales(column, row, power_of_two(cost))


def _powers_of_two(sizes: Floats) -> Floats:
    """Return the nearest powers of two: what is scaled by them is the same to the last bit."""
    return np.asarray(2.0 ** np.round(np.log2(sizes)))


def power_of_two(size: float) -> float:
    """Return the nearest power of two."""
    return float(2.0 ** np.round(np.log2(size)))


def _without(program: ConeProgram, column: int | None) -> ConeProgram:
    """Leave the entries of a column out of account."""
    if column is None:
        return program
    A = program.A.copy()
    A.data[A.indptr[column] : A.indptr[column + 1]] = 0.0
    return replace(program, A=A)
