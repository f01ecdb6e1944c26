"""Linear programs by HiGHS, and which solver a cone program goes to.

HiGHS, the dual simplex method, solves linear programs: exact vertices and duals. Clarabel, an
interior point, solves all others, and large ones (`interior_point`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

import highspy
import numpy as np
from scipy import sparse

from apportion.errors import SolveError
from apportion.policies.solving.cone import Point, rows_that_are_bounds
from apportion.policies.solving.solvers.clarabel_interior_point import interior_point
from apportion.policies.solving.solvers.first_basis import first_basis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.policies.solving.cone import ConeProgram
    from apportion.types import Floats

    Limits = tuple[Floats, Floats]

SolverName = Literal["auto", "highs", "clarabel", "arrow"]
"""Solvers by name; "arrow" is for policies solved level by level and not known to `optimise`."""

_LOG = logging.getLogger(__name__)
_SIMPLEX_ROWS = 2500
"""Above this many rows the simplex method loses to the interior point (measured); a row of one
entry is a bound, which costs nothing."""
_ROWS_FOR_CORNER = 200
"""Above so many rows a corner to begin with saves more than it takes (measured)."""
_TOLERANCE = 1e-9
"""Scaled programs have numbers about 1, and gaps of 1e-6 are to be met with digits to spare."""
_EXACT = 1e-13
"""By how much a vertex may miss a constraint for it to be taken as it is."""
_SMALL = 1e-6
"""Dual value of which rounding errors may be a part that matters."""
SIMPLEX = {
    "threads": 1,
    "solver": "simplex",
    "simplex_strategy": 1,  # the parallel one would drop the basis
    "primal_feasibility_tolerance": _TOLERANCE,
    "dual_feasibility_tolerance": _TOLERANCE,
}
"""Options of HiGHS: the dual simplex method in one thread."""
PRIMAL = SIMPLEX | {"presolve": "off", "simplex_strategy": 4}
"""The primal one: quick where the last basis, or at first shares of zero, are feasible."""


def optimise(program: ConeProgram, solver: SolverName = "auto") -> Point:
    """Solve a cone program; if the first solver fails, the other one has a try.

    On the optimal face of a problem most columns and rows go beforehand, settled by equalities.
    Elsewhere looking for any takes longer than it saves, and the primal simplex method half the
    pivots of the dual one (measured).

    Raises
    ------
    SolveError
        If no solver found an optimum, an infeasibility or an unbounded ray.
    """
    attempts, tried = ["clarabel"], []
    if program.is_linear_program:
        attempts.insert(0 if goes_to_simplex(program, solver) else 1, "highs")
    settled = np.count_nonzero(program.equality) > program.c.size / 4
    for name in attempts:
        try:
            if name == "clarabel":
                point = interior_point(program)
            elif settled:
                point = LoadedHighs(program).solve()
            else:
                point = LoadedHighs(program, options=PRIMAL).solve_surely()
        except SolveError as error:
            tried.append(f"{name}: {error}")
            continue
        if point.status in {"optimal", "infeasible", "unbounded"}:
            return point
        _LOG.info("%s stopped with status %s", name, point.status)
        tried.append(f"{name}: {point.status}")
    raise SolveError(
        f"No solver found an optimum ({'; '.join(tried)}). The same objective in other atoms, or "
        f"with numbers nearer to 1, may be solved; fallback='isolated' gives isolated shares."
    )


def goes_to_simplex(program: ConeProgram, solver: SolverName) -> bool:
    """Whether a linear program is for the simplex method first."""
    wide = np.count_nonzero(np.bincount(program.A.indices) > 1) > _SIMPLEX_ROWS
    return solver == "highs" or (solver == "auto" and not wide)


class LoadedHighs:
    """A linear program in HiGHS.

    Parameters
    ----------
    program
        The program; its rows keep their numbers here, though some become bounds of columns.
    presolve
        Off to keep the basis from one `solve` to the next.
    options
        Options of HiGHS.

    Attributes
    ----------
    aside, freed
        Which columns are set aside and which rows are lifted, shapes (columns,) and (rows,).
    """

    def __init__(
        self,
        program: ConeProgram,
        *,
        presolve: bool = True,
        options: Mapping[str, Any] = SIMPLEX,
    ) -> None:
        self._solver = quiet_solver(options if presolve else {**options, "presolve": "off"})
        self._new = options is PRIMAL
        self._limit_s = np.inf
        self.load(program)

    def load(self, program: ConeProgram) -> None:
        """Pass a whole program."""
        self.program = program
        self._least = np.where(program.equality, -np.inf, 0.0)
        self._bound_row, self._bound_column, self._factor = rows_that_are_bounds(program)
        self._kept = np.ones(program.linear, dtype=bool)
        self._kept[self._bound_row] = False
        self._row = np.flatnonzero(self._kept)
        self.aside = np.zeros(program.c.size, dtype=bool)
        self.freed = np.zeros(program.linear, dtype=bool)
        self._lower = np.full(program.c.size, -np.inf)
        self._lower[self._bound_column] = 0.0
        columns = self._lower, np.full(program.c.size, np.inf)
        b = program.b[self._row]
        rows = np.where(program.equality[self._row], b, -np.inf), b
        A = program.A if program.A.has_sorted_indices else program.A.sorted_indices()
        inside = self._kept[A.indices]
        place = (np.cumsum(self._kept) - 1)[A.indices[inside]].astype(np.int32)
        starts = np.append(0, np.cumsum(inside))[A.indptr].astype(np.int32)
        of_kept = A.data[inside], place, starts
        A = sparse.csc_array(of_kept, shape=(self._row.size, program.c.size))
        pass_linear_program(self._solver, program.c, A, columns, rows)

    def solve(self, budget_s: float | None = None) -> Point:
        """Solve from the last basis; a status other than "optimal" is HiGHS's own word.

        Parameters
        ----------
        budget_s
            Seconds that this solve may take; any number by default.
        """
        if self._new and self._row.size > _ROWS_FOR_CORNER:
            self._new = False
            # A corner next to the optimum, if one is known; zeros are feasible as well.
            if first := first_basis(self.program, self._bound_row):
                self._solver.setBasis(first.in_highs(self._row))
        # HiGHS holds the seconds of all runs of an instance together against its limit.
        limit_s = np.inf if budget_s is None else self._solver.getRunTime() + budget_s
        if limit_s != self._limit_s:
            self._solver.setOptionValue("time_limit", limit_s)
            self._limit_s = limit_s
        self._solver.run()
        status, solution = self._solver.getModelStatus(), self._solver.getSolution()
        y = np.zeros(self.program.linear)
        if solution.dual_valid:
            reduced = np.fromiter(solution.col_dual, float, self.aside.size)
            y[self._row] = -np.fromiter(solution.row_dual, float, self._row.size)
            y[self._bound_row] = reduced[self._bound_column] / self._factor
            np.maximum(y, self._least, out=y)
            y[self.freed] = 0.0
        x = np.fromiter(solution.col_value, float, self.aside.size)
        optimal = status == highspy.HighsModelStatus.kOptimal
        word = "optimal" if optimal else str(self._solver.modelStatusToString(status))
        return Point(x, y, word, "highs", optimal and self._only_optimum(y), self)

    def solve_surely(self) -> Point:
        """Solve by the primal method, and once more by the dual one where that is not certain."""
        point = self.solve()
        small = (point.y != 0) & (np.abs(point.y) < _SMALL)
        return self.solve_afresh() if small.any() or point.status != "optimal" else point

    def solve_on_face(self, face: ConeProgram) -> Point | None:
        """Go on among the optima that were found: with other costs, and more rows equalities.

        ``None`` where that ends a hair beside a constraint, as a simplex method may that goes on.
        """
        turned = face.equality & ~self.program.equality
        self.program, self._least = face, np.where(face.equality, -np.inf, 0.0)
        inside = np.flatnonzero(turned[self._row]).astype(np.int32)
        limit = face.b[self._row[inside]]
        change = self._solver.changeRowsBounds  # pyright: ignore[reportAttributeAccessIssue]
        change(inside.size, inside, limit, limit)
        column = self._bound_column[turned[self._bound_row]].astype(np.int32)
        zero = np.zeros(column.size)
        self._solver.changeColsBounds(column.size, column, zero, zero)
        every = np.arange(face.c.size, dtype=np.int32)
        self._solver.changeColsCost(every.size, every, face.c)
        point = self.solve_surely()
        left = face.b - face.A @ point.x
        missed = np.where(face.equality, np.abs(left), -left).max(initial=0.0)
        return point if point.status == "optimal" and missed <= _EXACT else None

    def solve_afresh(self) -> Point:
        """Solve by the dual method, from the last basis and nothing else.

        The primal one keeps dual values up to date step by step, and rounding errors with them.
        """
        basis = self._solver.getBasis()
        self._solver.clearSolver()
        self._solver.setOptionValue("simplex_strategy", SIMPLEX["simplex_strategy"])
        self._solver.setBasis(basis)
        return self.solve()

    def _only_optimum(self, y: Floats) -> bool:
        """Tell whether everything outside the basis is held where it is.

        By an equality, or by a dual value that is not zero: then any other point costs more.
        """
        equality = self.program.equality
        held = np.where(equality, ~self._kept, y > _TOLERANCE)
        held[self._bound_row[self.aside[self._bound_column]]] = False
        missing = np.count_nonzero(~self.aside) - np.count_nonzero(held)
        if missing <= 0 or missing > np.count_nonzero(equality):
            return bool(missing <= 0)
        holds = (equality & ~self.freed)[self._row]
        told, basic = self._solver.getBasicVariables()  # rows as numbers below 0
        rows = -1 - basic[basic < 0]
        held_there = np.count_nonzero(holds) - np.count_nonzero(holds[rows])
        return bool(told == highspy.HighsStatus.kOk and held_there >= missing)


class _Quiet(highspy.Highs):  # type: ignore[misc]
    """HiGHS without a word: some of its versions print their name before options can be set."""

    def enableCallbacks(self) -> None:
        """Begin, as the constructor does last, but with the output off."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()


def quiet_solver(options: Mapping[str, Any]) -> highspy.Highs:
    """Return a HiGHS without a program that prints nothing."""
    solver = _Quiet()
    for name, value in options.items():
        solver.setOptionValue(name, value)
    return solver


def pass_linear_program(
    solver: highspy.Highs,
    c: Floats,
    A: sparse.csr_array | sparse.csc_array,
    columns: Limits,
    rows: Limits,
) -> None:
    """Pass min c'x with rows[0] <= A x <= rows[1] and columns[0] <= x <= columns[1] to HiGHS.

    Parameters
    ----------
    c
        Costs, shape (columns,).
    A
        Compressed by rows or by columns, and passed as it is; shape (rows, columns).
    columns, rows
        Lower and upper limits of each.

    Raises
    ------
    SolveError
        If HiGHS refuses the numbers: it is then left without a program, and a change of one that
        is not there would end the process.
    """
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = A.shape
    lp.col_cost_ = c
    lp.col_lower_, lp.col_upper_ = columns
    lp.row_lower_, lp.row_upper_ = rows
    word = highspy.MatrixFormat
    lp.a_matrix_.format_ = word.kRowwise if A.format == "csr" else word.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    if solver.passModel(lp) == highspy.HighsStatus.kError:
        raise SolveError("HiGHS refuses the numbers of the problem: they span too many decades.")


def optimal_vertex(c: Floats, A: sparse.csr_array, rows: Limits) -> Floats | None:
    """Minimise c'x over x >= 0 with rows[0] <= A x <= rows[1]; ``None`` without an optimum."""
    solver = quiet_solver(SIMPLEX)
    pass_linear_program(solver, c, A, (np.zeros(c.size), np.full(c.size, np.inf)), rows)
    solver.run()
    optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return np.array(solver.getSolution().col_value) if optimal else None
