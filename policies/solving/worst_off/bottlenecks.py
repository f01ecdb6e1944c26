"""Which jobs are bottlenecks, although next to nothing of the level hangs on them.

A job of so many steps/s that it needs a millionth of a GPU has a dual value of a millionth of the
others'. Whether that is zero cannot be told from its size beside theirs. It can from what the job
pays: where a share of time is taken, what it is worth to the job is what it costs, so the dual
value is no rounding error if it makes up for prices that are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.solvers.cone_program import ConeProgram

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]
    Ints = NDArray[np.integer[Any]]

__all__ = ["pays_for_time"]

_PART = 0.1
"""Part of what a share of time costs that one demand must make up for: all of it where a row of the
throughput tensor is a single job's, up to rounding errors."""


def pays_for_time(
    program: ConeProgram, column: Floats, dual: Floats, rows: Ints, within: float
) -> Bools:
    """Tell which demands pay for time that is not free, shape (rows,).

    Parameters
    ----------
    program
        A linear program, maximised, over shares of time.
    column
        Scales of its columns.
    dual
        Dual values of its rows.
    rows
        The demands.
    within
        Part of the highest cost of any share of time below which one is a rounding error.
    """
    A = program.A
    place = np.full(program.b.size, -1)
    place[rows] = np.arange(rows.size)
    column_of = np.repeat(np.arange(program.c.size), np.diff(A.indptr))
    of_demand = place[A.indices] >= 0
    each = np.abs(A.data * dual[A.indices]) / column[column_of]
    cost = np.bincount(column_of[~of_demand], each[~of_demand], minlength=program.c.size)
    worth, there, of = each[of_demand], column_of[of_demand], place[A.indices[of_demand]]
    pays = (cost[there] > within * cost.max(initial=0.0)) & (worth > _PART * cost[there])
    found = np.zeros(rows.size, dtype=bool)
    found[of[pays]] = True
    return found
