"""HiGHS kept alive: load a linear program once, change numbers, solve again from the last basis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import highspy
import numpy as np

from apportion.policies.point import Point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.canonical import ConeProgram

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["PersistentHighs", "rows_that_are_bounds"]

_TOLERANCE = 1e-9
_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "simplex_strategy": 1,
    "primal_feasibility_tolerance": _TOLERANCE,
    "dual_feasibility_tolerance": _TOLERANCE,
}


def rows_that_are_bounds(program: ConeProgram) -> tuple[Ints, Ints, Floats]:
    """Find the rows that only say ``-a x <= 0`` with a > 0, one a column: rows, columns, a."""
    A = program.A.tocsr()
    single = np.flatnonzero((np.diff(A.indptr) == 1) & ~program.equality & (program.b == 0))
    entry = A.indptr[single]
    single, entry = single[A.data[entry] < 0], entry[A.data[entry] < 0]
    _, first = np.unique(A.indices[entry], return_index=True)
    column = A.indices[entry[first]].astype(np.intp)
    return single[first].astype(np.intp), column, -A.data[entry[first]].astype(float)


class PersistentHighs:
    """A linear program in HiGHS, solved by the dual simplex method: exact vertices and duals.

    Parameters
    ----------
    program
        The program; its rows keep their numbers here, though some become bounds of columns.
    presolve
        Off to keep the basis from one `solve` to the next.
    """

    def __init__(self, program: ConeProgram, *, presolve: bool = True) -> None:
        self._rows_in_all = program.linear
        self._bound_row, self._bound_column, self._factor = rows_that_are_bounds(program)
        kept = np.ones(program.linear, dtype=bool)
        kept[self._bound_row] = False
        self._row = np.flatnonzero(kept)
        self._place = np.cumsum(kept) - 1
        A = program.A[self._row].tocsc()
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = program.c.size, self._row.size
        lp.col_cost_ = program.c
        lower = np.full(program.c.size, -np.inf)
        lower[self._bound_column] = 0.0
        lp.col_lower_, lp.col_upper_ = lower, np.full(program.c.size, np.inf)
        lp.row_lower_ = np.where(program.equality[self._row], program.b[self._row], -np.inf)
        lp.row_upper_ = program.b[self._row]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = A.indptr, A.indices
        lp.a_matrix_.value_ = A.data
        self._solver = highspy.Highs()
        for name, value in _OPTIONS.items():
            self._solver.setOptionValue(name, value)
        if not presolve:
            self._solver.setOptionValue("presolve", "off")
        self._solver.passModel(lp)

    def change_column(self, column: int, rows: Ints, values: Floats) -> None:
        """Give a column new coefficients in some inequalities."""
        for row, value in zip(self._place[rows].tolist(), values.tolist(), strict=True):
            self._solver.changeCoeff(row, column, value)

    def change_limits(self, rows: Ints, values: Floats) -> None:
        """Give some inequalities new right-hand sides."""
        places = self._place[rows].astype(np.int32)
        below = np.full(places.size, -np.inf)
        change = self._solver.changeRowsBounds  # pyright: ignore[reportAttributeAccessIssue]
        change(places.size, places, below, values)

    def solve(self) -> Point:
        """Solve from the last basis; a status other than "optimal" is HiGHS's own word."""
        self._solver.run()
        status, solution = self._solver.getModelStatus(), self._solver.getSolution()
        y = np.zeros(self._rows_in_all)
        if solution.dual_valid:
            y[self._row] = -np.array(solution.row_dual)
            y[self._bound_row] = np.array(solution.col_dual)[self._bound_column] / self._factor
        x = np.array(solution.col_value)
        optimal = status == highspy.HighsModelStatus.kOptimal
        word = "optimal" if optimal else str(self._solver.modelStatusToString(status))
        return Point(x, y, word, "highs")
