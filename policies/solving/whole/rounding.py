"""Whole decisions near a point that is none: where branch and bound begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.whole.program import WholeProgram

    Floats = NDArray[np.float64]

__all__ = ["rounded_down"]


def rounded_down(whole: WholeProgram, x: Floats) -> Floats | None:
    """Round a relaxed decision down and give what is left to the best units that still fit.

    Returns
    -------
    x
        ``None`` where the policy has constraints or variables of its own, which rounding may miss.
    """
    if not whole.separable:
        return None
    program, k = whole.program, whole.cells.size
    shared = program.A[whole.own + k :].tocsc()
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
        more = np.floor((left[taken] / amounts[entries]).min() + 1e-9)
        if more > 0 and program.c[cell] < 0:
            z[cell] += more
            left[taken] -= more * amounts[entries]
    return z
