"""Prices where the objective has a kink: one choice, whichever solver found the optimum.

Dual values of a linear program are subgradients of its optimum with respect to the capacities. At a
kink there are many, and a solver returns whichever it meets. All of them go with any one optimum x
(complementary slackness): a dual value may differ from zero only on constraints that are tight at
x. Of the prices among them those are taken that have the least sum of squares, each GPU counted by
itself. The choice depends neither on the solver nor on the order of jobs and types, and stays the
same if a type is split into two of equal speeds. With one type it is the gain by one GPU more.

The dual vectors form a polytope, and a sum of squares is strictly convex: there is one such point.
It is found from corners of the polytope, each the answer to one linear program, as in Wolfe,
"Finding the nearest point in a polytope", Mathematical Programming 11 (1976).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import highspy
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from apportion.errors import SolveError
from apportion.policies.solving.certificate import Bounds, open_duals
from apportion.policies.solving.highs import SIMPLEX, pass_linear_program, quiet_solver
from apportion.policies.solving.stages import made_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.solving.cone import ConeProgram, Point
    from apportion.types import Bools, Floats, Ints


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


@made_for("quadratic", "exponential")
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
    left = open_duals(program, first, bounds, priced.rows, without)
    if left is None:
        return None
    tight, idle, slack = left
    corner, linear = first.solver == "highs", program.linear
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
        root, there = np.sqrt(self.units), self.tight[self.priced]  # the others have no price
        priced = (np.cumsum(self.tight) - 1)[self.priced[there]].astype(np.int32)
        toward, weight = root, np.ones(1)
        found = np.zeros((0, self.tight.size))
        for _ in range(_MOST_CORNERS):
            cost = (toward * root)[there]
            solver.changeColsCost(priced.size, priced, cost / float(cost.max()))
            solver.run()
            if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return None
            new = np.zeros(self.tight.size)
            new[self.tight] = solver.getSolution().col_value
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
        """Pass the polytope to HiGHS: its columns are the dual values, its rows the conditions.

        Of both only those that say anything, after which there is nothing to presolve.
        """
        met, A = self._met(), self.A
        inside = self.tight[A.indices] & ~np.repeat(met, np.diff(A.indptr))
        place = (np.cumsum(self.tight) - 1)[A.indices[inside]].astype(np.int32)
        starts = np.append(0, np.cumsum(inside))[A.indptr[np.append(~met, True)]]
        duals = int(np.count_nonzero(self.tight))
        entries = A.data[inside], place, starts.astype(np.int32)
        conditions = sparse.csr_array(entries, shape=(starts.size - 1, duals))
        columns = np.where(self.free[self.tight], -np.inf, 0.0), np.full(duals, np.inf)
        least = -self.c[~met]
        rows = least, np.where(self.idle[~met], np.inf, least)
        solver = quiet_solver({**SIMPLEX, "presolve": "off"})
        pass_linear_program(solver, np.zeros(duals), conditions, columns, rows)
        return solver

    def _met(self) -> Bools:
        """Columns whose condition holds whatever the dual values: none of them is in it."""
        counted = np.append(0, np.cumsum(self.tight[self.A.indices] & (self.A.data != 0)))
        return np.asarray(self.held | (np.diff(counted[self.A.indptr]) == 0))


def _nearest(corners: Floats) -> Floats:
    """Weights of the point nearest to zero in the convex hull of corners, one a row."""
    if corners.shape[0] == 1:
        return np.ones(1)
    from scipy.optimize import nnls  # few solves need it, and all would wait for it

    size = float(np.abs(corners).max()) or 1.0
    system = np.vstack([corners.T / size, np.ones(corners.shape[0])])
    weight, _ = nnls(system, np.append(np.zeros(corners.shape[1]), 1.0))
    return np.asarray(weight / weight.sum())
