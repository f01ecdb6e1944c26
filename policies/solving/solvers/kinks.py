"""Prices where the objective has a kink: one choice, whichever solver found the optimum.

Dual values of a linear program are subgradients of its optimum with respect to the capacities. At
a kink there are many, and a solver returns whichever it meets. All of them go with any one optimum
x (complementary slackness): a dual value may differ from zero only on constraints that are tight
at x. Of the prices among them those are taken that have the least sum of squares, each GPU counted
by itself (`apportion.policies.solving.solvers.dual_face`). The choice depends neither on the solver
nor on the order of jobs and types, and stays the same if a type is split into two of equal speeds.
With one type it is the gain by one GPU more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.solving.layers import made_for
from apportion.policies.solving.solvers.dual_face import DualFace
from apportion.policies.solving.solvers.highs_model import rows_that_are_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from apportion.policies.solving.solvers.cone_program import ConeProgram
    from apportion.policies.solving.solvers.point import Point

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["Bounds", "Priced", "least_duals"]

_TIGHT = 1e-9
"""Slack, in scaled numbers, up to which a constraint is tight at a corner that HiGHS returns."""


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
