"""Whole decisions by HiGHS: branch and bound from a start, in one thread, with a fixed seed.

Costs are scaled to a largest of 1e4, for HiGHS counts what is below some 1e-8 as nothing. Of
decisions that are equal but for 1e-10 of the largest cost for each job, the one is taken in which
more jobs keep the option that they have: to stay is worth as much.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import highspy
import numpy as np
from scipy import sparse

from apportion.errors import InfeasibleError, SolveError
from apportion.policies.solving.highs import pass_linear_program, quiet_solver

if TYPE_CHECKING:
    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.types import Bools, Floats


STAYING = 1e-10
"""What it is worth to keep an option, in parts of the largest cost of a unit."""

_OPTIONS = {
    "threads": 1,
    "parallel": "off",
    "random_seed": 0,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": 1e-8,
    "primal_feasibility_tolerance": 1e-9,
}
_OPTIONS_FOR_SUMS = {
    "mip_heuristic_effort": 0.0,
    "mip_allow_restart": False,
    "mip_detect_symmetry": False,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_pscost_minreliable": 1,
}
"""Where the objective is a sum over cells, good decisions lie near the relaxation: HiGHS's own
search for some takes longer than the proof (2,048 GPUs and 240 jobs: 1.2 s of 1.6 s)."""
_LARGEST, _STAY = 1e4, 1e-6
"""Largest cost that HiGHS sees, and what it is worth to keep an option."""
_NO_WORSE = 1e-9
"""Part of a known value by which what is looked for may be worse; HiGHS counts less as nothing."""
_WORDS = {
    highspy.HighsModelStatus.kObjectiveBound: "infeasible",
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kTimeLimit: "time_limit",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnboundedOrInfeasible: "infeasible",
}
_FEASIBLE = 2
"""HiGHS's word for a point that meets all constraints."""


class Found(NamedTuple):
    """What HiGHS found.

    Attributes
    ----------
    x
        Its best point, whole numbers rounded, over the columns of the program.
    bound
        Its bound of the objective as it is minimised.
    status
        "optimal" or "time_limit".
    nodes
        Nodes of the search.
    """

    x: Floats
    bound: float
    status: str
    nodes: int


def branch_and_bound(
    whole: WholeProgram,
    start: Floats | None,
    *,
    budget_s: float,
    gap: float,
    beyond: Bools | None = None,
) -> Found:
    """Search for the best whole decision.

    Parameters
    ----------
    start
        A whole decision to begin with, over the first columns or all of them.
    budget_s
        Seconds that the search may take.
    gap
        Relative distance from the bound at which it stops.
    beyond
        Of the first columns those of which a decision better than `start` has a unit at least, as
        `start` is the best of the others; if there is none, `start` is what is found.

    Raises
    ------
    InfeasibleError
        If no whole decision meets the constraints.
    SolveError
        If the seconds ran out before there was any decision, or HiGHS failed.
    """
    options = _OPTIONS | (_OPTIONS_FOR_SUMS if whole.separable else {})
    solver = quiet_solver(options | {"mip_rel_gap": gap, "time_limit": budget_s})
    scale = (whole.largest_cost or 1.0) / _LARGEST
    cost = whole.program.c / scale
    cost[: whole.cells.size] -= _STAY * whole.stays
    _pass(solver, whole, cost)
    places = np.flatnonzero(whole.whole).astype(np.int32)
    kinds = np.full(places.size, int(highspy.HighsVarType.kInteger), dtype=np.uint8)
    solver.changeColsIntegrality(places.size, places, kinds)
    if beyond is not None:
        _only_better(solver, cost, start, beyond)
    elif start is not None:
        solver.setSolution(start.size, np.arange(start.size, dtype=np.int32), start)
    started = time.perf_counter()
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    word = _WORDS.get(status, str(solver.modelStatusToString(status)))
    if word == "infeasible" and beyond is not None and start is not None:
        return Found(start, whole.program.value(start), "optimal", int(info.mip_node_count))
    if word == "infeasible" or info.primal_solution_status != _FEASIBLE:
        raise _no_decision(word, repr(whole.policy), time.perf_counter() - started)
    x = np.array(solver.getSolution().col_value)
    x[whole.whole] = np.rint(x[whole.whole])
    bound = info.mip_dual_bound * scale + whole.program.offset
    return Found(x, bound, word, int(info.mip_node_count))


def _no_decision(word: str, policy: str, spent_s: float) -> SolveError:
    """Say why there is no decision, or none yet."""
    if word == "infeasible":
        return InfeasibleError(
            f"No whole decision meets the constraints of {policy}, though shares of time would."
        )
    reason = "time_limit_s struck" if word == "time_limit" else f"HiGHS stopped ({word})"
    return SolveError(f"{reason} after {spent_s:.3g} s and {policy} has no decision yet.")


def _only_better(solver: highspy.Highs, cost: Floats, start: Floats | None, beyond: Bools) -> None:
    """Ask for what is no worse than a start, with a unit of some column that it does not have."""
    places = np.flatnonzero(beyond).astype(np.int32)
    solver.addRow(1.0, np.inf, places.size, places, np.ones(places.size))
    if start is not None:
        value = float(cost @ start)
        solver.setOptionValue("objective_bound", value + _NO_WORSE * abs(value))


def _pass(solver: highspy.Highs, whole: WholeProgram, cost: Floats) -> None:
    """Pass the program to HiGHS; rows that are bounds of columns are left to the bounds."""
    program, k = whole.program, whole.cells.size
    row = np.concatenate([np.arange(whole.own), np.arange(whole.own + k, program.b.size)]).astype(
        np.intp
    )
    A = sparse.csc_array(program.A.tocsr()[row])
    A.eliminate_zeros()
    b = program.b[row]
    rows = np.where(program.equality[row], b, -np.inf), b
    pass_linear_program(solver, cost, A, (whole.lower, whole.upper), rows)
