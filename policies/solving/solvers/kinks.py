"""Prices where the objective has a kink: one choice, whichever solver found the optimum.

Dual values of a linear program are subgradients of its optimum with respect to the capacities. At
a kink there are many, and a solver returns whichever it meets. All of them go with any one optimum
x (complementary slackness): a dual value may differ from zero only on constraints that are tight
at x. Of the prices among them `DualFace.least` takes those with the least sum of squares, each GPU
counted by itself. The dual vectors form a polytope and the square is strictly convex, so there is
one such point. It depends neither on the solver nor on the order of jobs and types, and stays the
same if a type is split into two of equal speeds. With one type it is the gain by one GPU more.

The point is found from corners of the polytope, each the answer to one linear program, as in
Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11 (1976).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import highspy
import numpy as np
from scipy import sparse
from scipy.optimize import nnls
from scipy.sparse.linalg import splu

from apportion.errors import SolveError
from apportion.policies.solving.solvers.highs_model import (
    pass_model,
    rows_that_are_bounds,
    simplex_solver,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from apportion.policies.solving.solvers.cone_program import ConeProgram
    from apportion.policies.solving.solvers.point import Point

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["Bounds", "DualFace", "Priced", "least_duals"]

_TIGHT = 1e-9
"""Slack, in scaled numbers, up to which a constraint is tight at a corner that HiGHS returns."""
_PROVES = 1e-8
"""Largest part of its bound that a dual vector may have on constraints that are not quite tight."""
_NEAREST = 1e-14
"""How much nearer, in squares relative to the largest, another corner has to lead."""
_MOST_CORNERS = 100
_REGULAR, _MOVES = 1e-14, 1e-6
"""Squared weight of a dual vector's size, and squared part of a price in directions left open."""


@dataclass(frozen=True, eq=False)
class DualFace:
    """The dual vectors y of a linear program that go with one of its optima.

    The program is: minimise ``c'x`` subject to ``A x <= b``, ``x >= 0`` for some columns.

    Attributes
    ----------
    A, c
        The numbers of the program, shape (rows, columns) and (columns,).
    tight
        Rows that may have a dual value, shape (rows,).
    free
        Rows whose dual value has either sign: equalities.
    idle
        Columns that are zero at the optimum, whose reduced cost ``c + A'y`` may be positive.
    held
        Columns without such a condition.
    priced, units
        Rows of the capacities, with the weights of their squares.
    """

    A: sparse.csc_array
    c: Floats
    tight: Bools
    free: Bools
    idle: Bools
    held: Bools
    priced: Ints
    units: Floats

    def leaves_prices_open(self) -> bool:
        """Whether the conditions that hold with equality leave more prices than one.

        Each price is asked for with a tiny weight on the size of the dual vector. Where the
        equations determine it the answer is tiny too; where they do not, it moves.
        """
        rows = np.flatnonzero(self.tight)
        B = sparse.csc_array(self.A[rows][:, np.flatnonzero(~(self.idle | self._met()))].T)
        equations, unknowns = B.shape
        system = sparse.block_array(
            [[sparse.eye_array(equations), B], [B.T, -_REGULAR * sparse.eye_array(unknowns)]],
            format="csc",
        )
        priced = equations + np.searchsorted(rows, self.priced[self.tight[self.priced]])
        right = np.zeros((equations + unknowns, priced.size))
        right[priced, np.arange(priced.size)] = -1.0
        try:
            moved = splu(system).solve(right)[priced]
        except RuntimeError:  # a pivot that rounding made zero: there is a direction to move in
            return True
        return bool((np.diagonal(moved) * _REGULAR > _MOVES).any())

    def least(self, slack: Floats, limit: Floats) -> Floats | None:
        """Return the dual vector with the least prices, shape (rows,).

        ``None`` if rounding errors leave no dual vector at all, or none that proves the optimum.

        Parameters
        ----------
        slack, limit
            What the optimum leaves of the rows, and their right-hand sides.
        """
        y = self._nearest_to_zero()
        if y is None or np.abs(y * slack).sum() > _PROVES * np.abs(y * limit).sum():
            return None
        return y

    def _nearest_to_zero(self) -> Floats | None:
        """Go from corner to corner until none leads nearer to prices of zero."""
        try:
            solver = self._solver()
        except SolveError:  # numbers that HiGHS does not take
            return None
        priced, root = self.priced.astype(np.int32), np.sqrt(self.units)
        toward, weight = root, np.ones(1)
        found = np.zeros((0, self.tight.size))
        for _ in range(_MOST_CORNERS):
            cost = toward * root
            solver.changeColsCost(priced.size, priced, cost / float(cost.max()))
            solver.run()
            if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return None
            new = np.array(solver.getSolution().col_value)
            new = np.where(self.free, new, np.maximum(new, 0.0))
            if found.size:
                size = float(((found[:, self.priced] * root) ** 2).sum(axis=1).max())
                if float(toward @ (toward - new[self.priced] * root)) <= _NEAREST * size:
                    break
            found = np.vstack([found, new])
            weight = _nearest(found[:, self.priced] * root)
            toward = weight @ found[:, self.priced] * root
            if not toward.any():
                break
        return np.asarray(weight @ found)

    def _solver(self) -> highspy.Highs:
        """Pass the polytope to HiGHS: its columns are the dual values, its rows the conditions."""
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self.tight.size, self.c.size
        lp.col_cost_ = np.zeros(self.tight.size)
        lp.col_lower_ = np.where(self.tight & self.free, -np.inf, 0.0)
        lp.col_upper_ = np.where(self.tight, np.inf, 0.0)
        met = self._met()
        lp.row_lower_ = np.where(met, -np.inf, -self.c)
        lp.row_upper_ = np.where(met | self.idle, np.inf, -self.c)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = self.A.indptr, self.A.indices
        lp.a_matrix_.value_ = self.A.data
        solver = simplex_solver()
        pass_model(solver, lp)
        return solver

    def _met(self) -> Bools:
        """Columns whose condition holds whatever the dual values: none of them is in it."""
        counted = np.append(0, np.cumsum(self.tight[self.A.indices] & (self.A.data != 0)))
        return np.asarray(self.held | (np.diff(counted[self.A.indptr]) == 0))


def _nearest(corners: Floats) -> Floats:
    """Weights of the point nearest to zero in the convex hull of corners, one a row."""
    size = float(np.abs(corners).max()) or 1.0
    system = np.vstack([corners.T / size, np.ones(corners.shape[0])])
    weight, _ = nnls(system, np.append(np.zeros(corners.shape[1]), 1.0))
    return np.asarray(weight / weight.sum())


@dataclass(frozen=True, eq=False)
class Priced:
    """The capacities whose dual values are the prices.

    Attributes
    ----------
    rows
        Their rows.
    units
        Weights of the squares of their dual values: units of a resource times the square of the
        scale of its row.
    """

    rows: Ints
    units: Floats

    @classmethod
    def of(cls, rows: slice, capacity: Floats, scale: Floats) -> Priced:
        """Let every unit count; a resource of which there is none counts as one."""
        units = np.where(capacity > 0, capacity, 1.0) * scale[rows] ** 2
        return cls(np.arange(rows.start, rows.stop), units)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Constraints of a linear program on one column alone, and what is left out of it.

    Attributes
    ----------
    row, column, factor
        Rows that only say ``-factor * x <= 0`` of a column.
    held, held_row
        Columns that an equality holds at zero, shape (columns,), and its rows.
    """

    row: Ints
    column: Ints
    factor: Floats
    held: Bools
    held_row: Ints

    @classmethod
    def of(cls, program: ConeProgram) -> Bounds:
        """Read the bounds off the linear rows of a program."""
        A = sparse.csc_array(program.A[: program.linear])
        linear = replace(program, A=A, b=program.b[: program.linear])
        filled = A.data != 0
        entries = np.bincount(A.indices[filled], minlength=program.linear)
        held_row = np.flatnonzero((entries == 1) & linear.equality & (linear.b == 0))
        held = np.zeros(program.c.size, dtype=bool)
        if held_row.size:
            column = np.repeat(np.arange(program.c.size), np.diff(A.indptr))
            held[column[np.isin(A.indices, held_row) & filled]] = True
        return cls(*rows_that_are_bounds(linear), held, held_row)


def least_duals(
    program: ConeProgram,
    first: Point,
    bounds: Bounds,
    priced: Priced,
    slopes: Callable[[], ConeProgram] | None = None,
    without: Bools | None = None,
) -> Floats | None:
    """Return the dual vector with the least prices, or ``None`` if there is only one.

    Cones beside the half lines keep their dual values, which are gradients.

    Parameters
    ----------
    program, first, bounds, priced
        A scaled program, its optimum, its bounds and its capacities.
    slopes
        Makes the program of which the dual vector is to be, if that is another one with the same
        tight rows.
    without
        Rows that are lifted, shape (rows,).
    """
    if program.second_order:
        return None
    linear = program.linear
    tight, slack = _tight_rows(program, first)
    idle = np.zeros(program.c.size, dtype=bool)
    idle[bounds.column] = tight[bounds.row]
    tight[bounds.row] = tight[bounds.held_row] = False
    if without is not None:
        tight[without] = False
    rows = np.count_nonzero(tight)
    corner = first.solver == "highs"
    open_columns = idle.size - np.count_nonzero(bounds.held | idle)
    if not tight[priced.rows].any() or (corner and rows <= open_columns):
        return None  # as many equations as dual values
    program = slopes() if slopes is not None else program
    cost, A = program.c, program.A
    if not program.is_linear_program:
        cost = cost + program.P @ first.x + A[linear:].T @ first.y[linear:]
        A = sparse.csc_array(A[:linear])
    face = DualFace(A, cost, tight, program.equality, idle, bounds.held, priced.rows, priced.units)
    if not (corner or face.leaves_prices_open()):
        return None
    least = face.least(slack, program.b[:linear])
    if least is None:
        return None
    least[bounds.row] = np.maximum((cost + A.T @ least)[bounds.column], 0.0) / bounds.factor
    return np.append(least, first.y[linear:])


def _tight_rows(program: ConeProgram, first: Point) -> tuple[Bools, Floats]:
    """Tell which linear rows may have a dual value, and what they leave.

    An interior point ends in the middle of both faces: of a slack and its dual value one is large.
    """
    y = first.y[: program.linear]
    slack = (program.b - program.A @ first.x)[: program.linear]
    if first.solver == "highs":
        full = slack <= _TIGHT * np.maximum(1.0, np.abs(program.b[: program.linear]))
        return full | (y > _TIGHT) | program.equality, slack
    return (y > np.maximum(slack, 0.0)) | program.equality, slack
