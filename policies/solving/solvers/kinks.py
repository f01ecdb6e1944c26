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

import numpy as np
from scipy import sparse
from scipy.optimize import nnls
from scipy.sparse.linalg import splu

from apportion.policies.solving.solvers.cone_program import ConeProgram, equilibrate
from apportion.policies.solving.solvers.highs import PersistentHighs, rows_that_are_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

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

    The program is: minimise ``c'x`` subject to ``A x <= b``, ``x >= 0`` for some columns. Here are
    the rows that are tight at the optimum only.

    Attributes
    ----------
    A, c
        The numbers of the program, shape (tight rows, columns) and (columns,).
    signed
        Rows with a dual value >= 0: inequalities, shape (tight rows,).
    idle
        Columns that are zero at the optimum, whose reduced cost ``c + A'y`` may be positive.
    priced
        Rows of the capacities with a price, among the tight ones.
    units
        Units of each such capacity, times the square of the scale of its price.
    """

    A: sparse.csc_array
    c: Floats
    signed: Bools
    idle: Bools
    priced: Ints
    units: Floats

    def leaves_prices_open(self) -> bool:
        """Whether the conditions that hold with equality leave more prices than one.

        Each price is asked for with a tiny weight on the size of the dual vector. Where the
        equations determine it the answer is tiny too; where they do not, it moves.
        """
        B = sparse.csc_array(self.A[:, np.flatnonzero(~self.idle)].T)
        equations, unknowns = B.shape
        system = sparse.block_array(
            [[sparse.eye_array(equations), B], [B.T, -_REGULAR * sparse.eye_array(unknowns)]],
            format="csc",
        )
        right = np.zeros((equations + unknowns, self.priced.size))
        right[equations + self.priced, np.arange(self.priced.size)] = -1.0
        moved = splu(system).solve(right)[equations + self.priced]
        return bool((np.diagonal(moved) * _REGULAR > _MOVES).any())

    def least(self, slack: Floats, limit: Floats) -> Floats | None:
        """Return the dual vector with the least prices, shape (tight rows,).

        ``None`` if rounding errors leave no dual vector at all, or none that proves the optimum.

        Parameters
        ----------
        slack, limit
            What the optimum leaves of the rows, next to nothing, and their right-hand sides.
        """
        y = self._nearest_to_zero()
        if y is None or np.abs(y * slack).sum() > _PROVES * np.abs(y * limit).sum():
            return None
        return y

    def _nearest_to_zero(self) -> Floats | None:
        """Go from corner to corner until none leads nearer to prices of zero."""
        program, scale = self._program()
        corners = PersistentHighs(program)
        root = np.sqrt(self.units) * scale[self.priced]
        toward, found = root, np.zeros((0, scale.size))
        weight = np.zeros(0)
        for _ in range(_MOST_CORNERS):
            cost = toward * root
            corners.change_costs(self.priced, cost / float(cost.max()))
            point = corners.solve()
            if point.status != "optimal":
                return None
            new = np.where(self.signed, np.maximum(point.x, 0.0), point.x)
            if found.size:
                size = float(((found[:, self.priced] * root) ** 2).sum(axis=1).max())
                if float(toward @ (toward - new[self.priced] * root)) <= _NEAREST * size:
                    break
            found = np.vstack([found, new])
            weight = _nearest(found[:, self.priced] * root)
            toward = weight @ found[:, self.priced] * root
            if not toward.any():
                break
        return np.asarray(weight @ found * scale)

    def _program(self) -> tuple[ConeProgram, Floats]:
        """State the polytope as a linear program over the dual values of the tight rows, scaled."""
        rows = self.A.shape[0]
        conditions = sparse.csc_array(self.A.T)
        bounds = sparse.csc_array(
            -sparse.eye_array(rows, format="csr")[np.flatnonzero(self.signed)]
        )
        stacked = sparse.vstack([-conditions, bounds], format="csc")
        equality = np.append(~self.idle, np.zeros(bounds.shape[0], dtype=bool))
        cost = np.zeros(rows)
        cost[self.priced] = 1.0
        plain = ConeProgram(
            P=sparse.csc_array((rows, rows)),
            c=cost,
            A=stacked,
            b=np.append(self.c, np.zeros(bounds.shape[0])),
            equality=equality,
            second_order=(),
            exponential=0,
            offset=0.0,
            cost_scale=1.0,
            columns={},
            rows={},
        )
        program, scale, _ = equilibrate(plain)
        return program, scale


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
    rows, worth = np.flatnonzero(tight), tight[priced.rows]
    corner = first.solver == "highs"
    if not worth.any() or (corner and rows.size <= np.count_nonzero(~(bounds.held | idle))):
        return None  # as many equations as dual values
    program = slopes() if slopes is not None else program
    cost = program.c + program.P @ first.x + program.A[linear:].T @ first.y[linear:]
    A = sparse.csc_array(program.A[rows])
    A.eliminate_zeros()
    there = ~bounds.held & (np.diff(A.indptr) > 0)
    face = DualFace(
        A=sparse.csc_array(A[:, np.flatnonzero(there)]),
        c=cost[there],
        signed=~program.equality[rows],
        idle=idle[there],
        priced=(np.cumsum(tight) - 1)[priced.rows[worth]],
        units=priced.units[worth],
    )
    if not (corner or face.leaves_prices_open()):
        return None
    least = face.least(slack[rows], program.b[rows])
    if least is None:
        return None
    y = first.y.copy()
    y[:linear] = 0.0
    y[rows] = least
    y[bounds.row] = np.maximum((cost + A.T @ least)[bounds.column], 0.0) / bounds.factor
    return y


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
