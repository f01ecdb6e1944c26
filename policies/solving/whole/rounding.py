"""Whole decisions to begin with: what holds now, and what lies near a point that is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.types import Floats


def likely(whole: WholeProgram, x: Floats) -> Floats:
    """Return a decision that may well break a constraint, over the first columns.

    It is what holds now, if anything does; else the largest cell of each row of one unit at a
    point, and what is whole of the others.
    """
    k = whole.cells.size
    count = whole.count
    if whole.stays.any():
        return np.where(whole.stays, count, 0.0)
    # Solvers miss a whole number by less, which would lose a whole job.
    z = np.floor(x[:k] + 1e-7)
    row = whole.row_of_cell
    largest = np.lexsort((-np.arange(k), x[:k], row))
    last = largest[np.flatnonzero(np.diff(row[largest], append=-1))]
    single = last[count[last] == 1]
    z[np.isin(row, row[single])] = 0.0
    z[single] = 1.0
    return z


def rounded_down(whole: WholeProgram, x: Floats) -> Floats | None:
    """Round a relaxed decision down and give what is left to the best units that still fit.

    Where what holds now is better, that is what is returned.

    Returns
    -------
    x
        ``None`` where the policy has constraints or variables of its own, which rounding may miss.
    """
    if not whole.separable:
        return None
    rounded = _filled(whole, x)
    now = likely(whole, x)
    value = whole.program.value
    # Rounding of sums: amounts and limits are whole numbers, or parts of few digits.
    fits = (whole.program.A @ now <= whole.program.b + 1e-9).all()
    return now if fits and value(now) < value(rounded) else rounded


def _filled(whole: WholeProgram, x: Floats) -> Floats:
    """Round down and fill up."""
    program, k = whole.program, whole.cells.size
    shared = program.A[whole.own + k :].tocsc()
    # As in `likely`.
    z = np.maximum(np.floor(x[:k] + 1e-7), whole.lower[:k])
    left = program.b[whole.own + k :] - shared @ z
    order = np.lexsort((np.arange(k), program.c[:k]))
    starts, rows, amounts = shared.indptr.tolist(), shared.indices, shared.data
    waits = left[whole.priced.stop - whole.priced.start :] > 0
    row = whole.row_of_cell
    if whole.p.instance.solo:
        order = order[waits[row[order]]]
    for cell in order.tolist():
        entries = slice(starts[cell], starts[cell + 1])
        taken = rows[entries]
        # What is left was subtracted step by step, and 0.999999999 is 1.
        more = np.floor((left[taken] / amounts[entries]).min() + 1e-9)
        if more > 0 and program.c[cell] < 0:
            z[cell] += more
            left[taken] -= more * amounts[entries]
    return z
