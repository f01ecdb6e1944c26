"""Branch and bound over the few cells that matter: first near the relaxation, then all in reach.

A unit of a cell that the relaxation leaves empty costs at least its reduced cost above the bound.
So a decision that is the best of those over the cells of least reduced cost (the core) is the best
of all, unless cells that were left out cost less than the decision lies above the bound; then those
are let in, and a better decision is looked for that has a unit of one at least (after Balas and
Zemel, "An algorithm for large zero-one knapsack problems", Operations Research 28, 1980).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import SolveError
from apportion.policies.solving.certificate import relative_gap
from apportion.policies.solving.whole.branch_and_bound import Found, branch_and_bound
from apportion.policies.solving.whole.rounding import likely, rounded_down

if TYPE_CHECKING:
    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.policies.solving.whole.relaxation import Relaxed
    from apportion.types import Floats


_CORE = 120
"""Cells of the core beside one for each row."""


def search(whole: WholeProgram, relaxed: Relaxed, deadline: float, gap: float) -> Found:
    """Search for the best whole decision, beginning with the core.

    Parameters
    ----------
    whole, relaxed
        A program and its relaxation.
    deadline
        Value of the clock at which the search ends.
    gap
        Relative distance from the bound at which it ends too.
    """
    if relaxed.whole:
        start = np.where(whole.whole, np.rint(relaxed.x), relaxed.x)
        slack = relaxed.slack(whole, start)
        return branch_and_bound(
            relaxed.narrowed(whole, slack), start, budget_s=_left(deadline), gap=gap
        )
    best = rounded_down(whole, relaxed.x)
    if best is None:
        start = likely(whole, relaxed.x)
        return branch_and_bound(whole, start, budget_s=_left(deadline), gap=gap)
    return _from_core(whole, relaxed, best, deadline, gap)


def _from_core(
    whole: WholeProgram, relaxed: Relaxed, best: Floats, deadline: float, gap: float
) -> Found:
    """Search the core, then all cells in reach of what was found there."""
    if relative_gap(whole.program.value(best), relaxed.bound) <= gap and not whole.stays.any():
        return Found(best, relaxed.bound, "optimal", 0)
    cells = slice(whole.cells.size)
    reduced = np.sort(relaxed.reduced[cells])
    core = float(reduced[min(reduced.size - 1, whole.p.instance.rows + _CORE)])
    tried = min(core, relaxed.slack(whole, best))
    narrow = relaxed.narrowed(whole, tried)
    inside = (best[cells] <= narrow.upper[cells]).all()
    try:
        known = branch_and_bound(
            narrow, best if inside else None, budget_s=_left(deadline), gap=gap
        )
    except SolveError:
        if _left(deadline) > 0:
            raise
        return Found(best, relaxed.bound, "time_limit", 0)
    value = whole.program.value
    best = known.x if value(known.x) <= value(best) else best
    if (needed := relaxed.slack(whole, best)) <= tried:
        return known._replace(x=best)
    unproved = Found(best, -np.inf, known.status, known.nodes)
    if relative_gap(value(best), relaxed.bound) <= gap or known.status != "optimal":
        return unproved
    wide = relaxed.narrowed(whole, needed)
    beyond = (wide.upper > narrow.upper)[cells]
    try:
        found = branch_and_bound(wide, best, budget_s=_left(deadline), gap=gap, beyond=beyond)
    except SolveError:
        return unproved._replace(status="time_limit")
    best = found.x if value(found.x) <= value(best) else best
    bound, nodes = min(known.bound, found.bound), known.nodes + found.nodes
    return Found(best, bound if found.status == "optimal" else -np.inf, found.status, nodes)


def _left(deadline: float) -> float:
    """Seconds until the clock shows a value."""
    return max(deadline - time.perf_counter(), 0.0)
