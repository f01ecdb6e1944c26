"""Branch and bound over the few cells that matter: first near the relaxation, then all in reach.

A unit of a cell that the relaxation leaves empty costs at least its reduced cost above the bound.
So a decision that is the best of those over the cells of least reduced cost (the core) is the best
of all, unless cells that were left out cost less than the decision lies above the bound; then those
are let in, and the search is repeated from the decision (Balas and Zemel, "An algorithm for large
zero-one knapsack problems", Operations Research 28, 1980).
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
    from numpy.typing import NDArray

    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.policies.solving.whole.relaxation import Relaxed

    Floats = NDArray[np.float64]

__all__ = ["search"]

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
    needed = relaxed.slack(whole, best)
    reduced = np.sort(relaxed.reduced[: whole.cells.size])
    core = float(reduced[min(reduced.size - 1, whole.p.instance.rows + _CORE)])
    tried, nodes = min(core, needed), 0
    known: Found | None = None
    while True:
        narrow = relaxed.narrowed(whole, tried)
        inside = (best[: whole.cells.size] <= narrow.upper[: whole.cells.size]).all()
        try:
            found = branch_and_bound(
                narrow, best if inside else None, budget_s=_left(deadline), gap=gap
            )
        except SolveError:
            if known is None and _left(deadline) > 0:
                raise
            return known or Found(best, relaxed.bound, "time_limit", nodes)
        nodes += found.nodes
        if whole.program.value(found.x) <= whole.program.value(best):
            best = found.x
        needed = relaxed.slack(whole, best)
        near = relative_gap(whole.program.value(best), relaxed.bound) <= gap
        if needed <= tried or near or found.status != "optimal":
            proved = needed <= tried
            return Found(best, found.bound if proved else -np.inf, found.status, nodes)
        tried = needed
        known = Found(best, -np.inf, "time_limit", nodes)


def _left(deadline: float) -> float:
    """Seconds until the clock shows a value."""
    return max(deadline - time.perf_counter(), 0.0)
