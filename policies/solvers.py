"""The solvers behind every policy: HiGHS for linear programs, Clarabel for the others."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import clarabel
import highspy
import numpy as np
from scipy import sparse

from apportion.errors import SolveError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.canonical import ConeProgram

    Floats = NDArray[np.float64]

__all__ = ["Point", "SolverName", "optimise"]

SolverName = Literal["auto", "highs", "clarabel"]

_LOG = logging.getLogger(__name__)
_SIMPLEX_ROWS = 1500
"""Above this many rows the simplex method loses to the interior point (measured)."""
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Point:
    """What a solver returned: primal and dual vectors, status, the name of the solver.

    `status` is "optimal", "infeasible", "unbounded", or the solver's own word; where it is
    "infeasible", `y` is a certificate: its nonzero rows cannot hold together.
    """

    x: Floats
    y: Floats
    status: str
    solver: str


def optimise(program: ConeProgram, solver: SolverName = "auto") -> Point:
    """Solve a cone program; if the first solver fails, the other one has a try.

    Raises
    ------
    SolveError
        If no solver found an optimum, an infeasibility or an unbounded ray.
    """
    attempts = _order(program, solver)
    tried = []
    for name in attempts:
        point = _highs(program) if name == "highs" else _clarabel(program)
        if point.status in {"optimal", "infeasible", "unbounded"}:
            return point
        _LOG.info("%s stopped with status %s", name, point.status)
        tried.append(f"{name}: {point.status}")
    raise SolveError(f"No solver found an optimum ({'; '.join(tried)}).")


def _order(program: ConeProgram, solver: SolverName) -> list[str]:
    """Names of the solvers to try, best first."""
    if not program.is_linear_program:
        return ["clarabel"]
    wide = program.linear - _bounds(program)[0].size > _SIMPLEX_ROWS
    first = solver if solver != "auto" else ("clarabel" if wide else "highs")
    return [first, "clarabel" if first == "highs" else "highs"]


def _bounds(program: ConeProgram) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Rows that only say ``-a x <= 0`` with a > 0, their columns and their a."""
    A = program.A.tocsr()
    single = np.flatnonzero((np.diff(A.indptr) == 1) & ~program.equality & (program.b == 0))
    entry = A.indptr[single]
    single, entry = single[A.data[entry] < 0], entry[A.data[entry] < 0]
    _, first = np.unique(A.indices[entry], return_index=True)
    return single[first], A.indices[entry[first]], -A.data[entry[first]]


def _highs(program: ConeProgram) -> Point:
    """Solve a linear program by the dual simplex method: exact vertices, exact duals."""
    bound_row, bound_column, factor = _bounds(program)
    kept = np.ones(program.linear, dtype=bool)
    kept[bound_row] = False
    rows = np.flatnonzero(kept)
    A = program.A[rows].tocsc()
    size = program.c.size
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = size, rows.size
    lp.col_cost_ = program.c
    lower = np.full(size, -np.inf)
    lower[bound_column] = 0.0
    lp.col_lower_, lp.col_upper_ = lower, np.full(size, np.inf)
    lp.row_lower_ = np.where(program.equality[rows], program.b[rows], -np.inf)
    lp.row_upper_ = program.b[rows]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    solver = _quiet_highs()
    solver.passModel(lp)
    solver.run()
    solution = solver.getSolution()
    y = np.zeros(program.linear)
    if solution.dual_valid:
        y[rows] = -np.array(solution.row_dual)
        y[bound_row] = np.array(solution.col_dual)[bound_column] / factor
    x = np.array(solution.col_value) if solution.value_valid else np.zeros(size)
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kOptimal:
        return Point(x, y, "optimal", "highs")
    # Which rows conflict is read off Clarabel's certificate; HiGHS only returns rays after
    # switching off presolve and restarting.
    return Point(x, y, str(solver.modelStatusToString(status)), "highs")


def _quiet_highs() -> highspy.Highs:
    solver = highspy.Highs()
    options = {
        "output_flag": False,
        "threads": 1,
        "simplex_strategy": 1,
        "primal_feasibility_tolerance": _TOLERANCE,
        "dual_feasibility_tolerance": _TOLERANCE,
    }
    for name, value in options.items():
        solver.setOptionValue(name, value)
    return solver


def _clarabel(program: ConeProgram) -> Point:
    """Solve a cone program by the interior point."""
    linear = np.arange(program.linear)
    equal = linear[program.equality]
    order = np.concatenate(
        [equal, linear[~program.equality], np.arange(program.linear, program.b.size)]
    )
    cones = [clarabel.ZeroConeT(equal.size), clarabel.NonnegativeConeT(program.linear - equal.size)]
    cones += [clarabel.SecondOrderConeT(size) for size in program.second_order]
    cones += [clarabel.ExponentialConeT()] * program.exponential
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_rel = settings.tol_feas = _TOLERANCE
    settings.tol_gap_abs = _TOLERANCE / 1000  # optimal values of 1e-3 are usual
    A = sparse.csc_array(program.A[order])
    P = sparse.csc_array(sparse.triu(program.P))
    result = clarabel.DefaultSolver(P, program.c, A, program.b[order], cones, settings).solve()
    y = np.empty(program.b.size)
    y[order] = result.z
    status = str(result.status)
    names = {
        "Solved": "optimal",
        "AlmostSolved": "optimal",  # the certificate tells how far off it is
        "PrimalInfeasible": "infeasible",
        "AlmostPrimalInfeasible": "infeasible",
        "DualInfeasible": "unbounded",
        "AlmostDualInfeasible": "unbounded",
    }
    return Point(np.array(result.x), y, names.get(status, status), "clarabel")
