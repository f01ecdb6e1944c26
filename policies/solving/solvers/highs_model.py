"""A linear program as HiGHS takes it: rows that are bounds of columns become such bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import highspy
import numpy as np

from apportion.errors import SolveError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.solvers.cone_program import ConeProgram

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["highs_model", "pass_model", "rows_that_are_bounds", "simplex_solver"]

_TOLERANCE = 1e-9
_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "solver": "simplex",
    "simplex_strategy": 1,  # the parallel one would drop the basis
    "primal_feasibility_tolerance": _TOLERANCE,
    "dual_feasibility_tolerance": _TOLERANCE,
}


def simplex_solver(*, presolve: bool = True) -> highspy.Highs:
    """Return a HiGHS without a program: the dual simplex method in one thread, without a word."""
    solver = highspy.Highs()
    for name, value in _OPTIONS.items():
        solver.setOptionValue(name, value)
    if not presolve:
        solver.setOptionValue("presolve", "off")
    return solver


def rows_that_are_bounds(program: ConeProgram) -> tuple[Ints, Ints, Floats]:
    """Find the rows that only say ``-a x <= 0`` with a > 0, one a column: rows, columns, a."""
    A = program.A.tocsr()
    single = np.flatnonzero((np.diff(A.indptr) == 1) & ~program.equality & (program.b == 0))
    entry = A.indptr[single]
    single, entry = single[A.data[entry] < 0], entry[A.data[entry] < 0]
    _, first = np.unique(A.indices[entry], return_index=True)
    column = A.indices[entry[first]].astype(np.intp)
    return single[first].astype(np.intp), column, -A.data[entry[first]].astype(float)


def highs_model(program: ConeProgram, row: Ints, lower: Floats) -> highspy.HighsLp:
    """Write the given rows of a linear program, and lower bounds of its columns, for HiGHS."""
    A = program.A[row].tocsc()
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = program.c.size, row.size
    lp.col_cost_ = program.c
    lp.col_lower_, lp.col_upper_ = lower, np.full(program.c.size, np.inf)
    lp.row_lower_ = np.where(program.equality[row], program.b[row], -np.inf)
    lp.row_upper_ = program.b[row]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = A.indptr, A.indices
    lp.a_matrix_.value_ = A.data
    return lp


def pass_model(solver: highspy.Highs, lp: highspy.HighsLp) -> None:
    """Pass a linear program to HiGHS, which is left without one where it refuses its numbers.

    Raises
    ------
    SolveError
        If it does; a change of a program that is not there would end the process.
    """
    if solver.passModel(lp) == highspy.HighsStatus.kError:
        raise SolveError("HiGHS refuses the numbers of the problem: they span too many decades.")
