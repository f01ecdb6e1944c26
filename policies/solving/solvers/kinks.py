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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.solving.certificate import Bounds, open_duals
from apportion.policies.solving.solvers.dual_face import DualFace
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
