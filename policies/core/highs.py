"""Linear programs by HiGHS, and their optimal vertices to rounding errors.

    minimise c'x  subject to  row_lower <= A x <= row_upper,  lower <= x <= upper

A simplex method stops where limits and signs are met to 1e-10. Its basis says which of them hold as
equations; these are solved once more, so that the vertex and its dual values have no other error
than that of one linear system.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from apportion.errors import SolveError
from apportion.policies.core.canonical import Point

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.policies.core.canonical import Program
    from apportion.types import Bools, Floats, Ints

    Limits = tuple[Floats, Floats]

TIE = 1e-11
"""Dual value, or slack, of an exact vertex that is taken for zero."""
SIMPLEX = {
    "threads": 1,
    "solver": "simplex",
    "simplex_strategy": 1,  # the parallel one would drop the basis
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}
"""Options of HiGHS: the dual simplex method in one thread."""
_PRIMAL = SIMPLEX | {"presolve": "off", "simplex_strategy": 4}
_MANY = 2500
"""Rows above which the interior point, which then goes to a vertex, is quicker (measured)."""
_MISSED = 1e-9
"""By how much a vertex that was solved once more may miss a limit; else the basis was a bad one."""
_WORDS = {"Optimal": "optimal", "Infeasible": "infeasible", "Unbounded": "unbounded"}


def quiet_solver(options: Mapping[str, Any]) -> highspy.Highs:
    """Return a HiGHS without a program that prints nothing."""
    solver = highspy.Highs()
    for name, value in {"output_flag": False, **options}.items():
        solver.setOptionValue(name, value)
    return solver


def pass_program(
    solver: highspy.Highs,
    c: Floats,
    A: sparse.csr_array | sparse.csc_array,
    columns: Limits,
    rows: Limits,
    whole: Bools | None = None,
) -> None:
    """Pass a program to HiGHS; columns that are `whole`, shape (columns,), take integers only.

    Raises
    ------
    SolveError
        If HiGHS refuses the numbers: it is then left without a program, and a change of one that
        is not there would end the process.
    """
    word, least = highspy.MatrixFormat, int(highspy.ObjSense.kMinimize)
    form = int(word.kRowwise if A.format == "csr" else word.kColwise)
    kind = np.zeros(c.size, dtype=np.int32) if whole is None else whole.astype(np.int32)
    size, entries = (c.size, A.shape[0], A.nnz), (A.indptr, A.indices, A.data)
    status = solver.passModel(*size, form, least, 0.0, c, *columns, *rows, *entries, kind)
    if status == highspy.HighsStatus.kError:
        raise SolveError("HiGHS refuses the numbers of the problem: they span too many decades.")


def optimal_vertex(c: Floats, A: sparse.csr_array, rows: Limits) -> Floats | None:
    """Minimise c'x over x >= 0 with rows[0] <= A x <= rows[1]; ``None`` without an optimum."""
    solver = quiet_solver(SIMPLEX)
    pass_program(solver, c, A, (np.zeros(c.size), np.full(c.size, np.inf)), rows)
    solver.run()
    optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return np.array(solver.getSolution().col_value) if optimal else None


def linear_optimum(program: Program, start: Any = None) -> Point:
    """Solve a linear program; its optimum is an exact vertex.

    Parameters
    ----------
    program
        The program, scaled.
    start
        The basis of a vertex of the same rows and columns to begin with.
    """
    large = program.b.size > _MANY and start is None
    solver = quiet_solver(_PRIMAL | ({"solver": "ipm", "presolve": "choose"} if large else {}))
    rows = np.where(program.equality, program.b, -np.inf), program.b
    pass_program(solver, program.c, program.A, (program.lower, program.upper), rows)
    if start is not None:
        solver.setBasis(start)
    solver.run()
    found = solver.getSolution()
    word = str(solver.modelStatusToString(solver.getModelStatus()))
    point = Point(
        x=np.array(found.col_value),
        y=-np.array(found.row_dual),
        status=_WORDS.get(word, word),
        solver="highs",
    )
    told, inside = solver.getBasicVariables()  # rows as numbers below 0
    if word != "Optimal" or told != highspy.HighsStatus.kOk:
        return point
    return replace(_solved_once_more(program, point, inside), basis=solver.getBasis())


def _solved_once_more(program: Program, point: Point, inside: Ints) -> Point:
    """Solve the equations of a basis: the same vertex to rounding errors, and what is unique.

    Parameters
    ----------
    program, point
        The program and its vertex, to a solver's tolerances.
    inside
        What is in the basis: columns, and rows as -1 - row.
    """
    A, b = program.A, program.b
    basic, tight = np.zeros(program.c.size, dtype=bool), np.ones(b.size, dtype=bool)
    basic[inside[inside >= 0]], tight[-1 - inside[inside < 0]] = True, False
    x = np.clip(point.x, program.lower, program.upper)
    y = np.where(tight, point.y, 0.0)
    if basic.any():
        try:
            factors: Any = splu(sparse.csc_array(A[:, np.flatnonzero(basic)].tocsr()[tight]))
        except RuntimeError:  # a pivot that rounding made zero
            return point
        for _ in range(2):
            x[basic] += factors.solve((b - A @ x)[tight])
            cost = np.asarray(program.c + A.T @ y, dtype=float)
            y[tight] -= factors.solve(cost[basic], "T")
    slack, reduced = b - A @ x, program.c + A.T @ y
    room = np.minimum(x - program.lower, program.upper - x)
    short = np.where(program.equality, np.abs(slack), -slack)
    missed = max(-room.min(initial=0.0), short.max(initial=0.0))
    wrong = -y[~program.equality].min(initial=0.0)
    if not max(missed, wrong) <= _MISSED:
        return point
    movable = ~basic & (program.lower < program.upper) & (np.abs(reduced) <= TIE)
    loose = tight & ~program.equality & (y <= TIE)
    at_limit = (basic & (room <= TIE)).any() or (~tight & (slack <= TIE)).any()
    return Point(
        x=x,
        y=np.where(program.equality, y, np.maximum(y, 0.0)),
        status="optimal",
        solver="highs",
        exact=True,
        unique=not (movable.any() or loose.any()),
        one_dual=not at_limit,
    )
