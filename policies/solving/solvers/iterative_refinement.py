"""Linear programs to rounding errors: what an optimum lacks, magnified and solved again.

A simplex method stops where all conditions of optimality are met to some 1e-9. Where levels build
upon each other, what is left over for the last job may be as little as that. So the program of the
correction is posed, with limits and costs magnified until its own errors show, and its solution is
added to the optimum (iterative refinement for linear programming, Gleixner, Steffy and Wolter,
INFORMS Journal on Computing 28(3), 2016).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import highspy
import numpy as np
from scipy import sparse

from apportion.policies.solving.cone import rows_that_are_bounds
from apportion.policies.solving.highs import pass_linear_program, quiet_solver

if TYPE_CHECKING:
    from apportion.policies.solving.cone import ConeProgram, Point
    from apportion.types import Bools, Floats


_ENOUGH = 1e-13
"""Error that is a rounding error of sums of some numbers around 1."""
_MOST = 1e6
"""Most that a correction is magnified; HiGHS loses itself where limits lie further apart."""
_LESS = (1e3, 1.0)
"""Most that limits are magnified where it does so all the same: columns may be all but alike."""
_ABOVE = 1e-9
"""Value that is certainly no rounding error."""
_ROUNDS = 3
_MOST_COLUMNS = 20_000
"""Columns up to which it costs little beside an interior point to go from that to a corner."""
_TOLERANCE = 1e-8
"""Of one solve: each round takes the error of the one before and solves for it, scaled up."""
_OPTIONS = {
    "threads": 1,
    "solver": "simplex",
    "presolve": "off",
    "primal_feasibility_tolerance": _TOLERANCE,
    "dual_feasibility_tolerance": _TOLERANCE,
}


class _Program(NamedTuple):
    """Minimise ``c'x`` subject to ``A x + s = b``; some x, and s of inequalities, at least 0."""

    A: sparse.csc_array
    b: Floats
    c: Floats
    signed: Bools
    """Which of x and s cannot be below zero, shape (columns + rows,)."""
    fixed: Bools
    """Which of them are zero."""


class _Iterate(NamedTuple):
    """Values of x and s together, and dual values of the rows."""

    value: Floats
    y: Floats


def corner(program: ConeProgram, point: Point) -> Point:
    """Go from an interior point's optimum of a linear program to a corner, to rounding errors.

    A simplex method begins at what is inside there, and has few steps to make. Optima of large
    programs stay.
    """
    return point if program.c.size > _MOST_COLUMNS else refine(program, point)


def refine(program: ConeProgram, point: Point) -> Point:
    """Return the optimum of a linear program to rounding errors, or what comes nearest to it.

    Parameters
    ----------
    program
        A linear program whose numbers are around 1.
    point
        Its optimum, to within a solver's tolerances.
    """
    bound_row, bound_column, factor = rows_that_are_bounds(program)
    row = np.ones(program.b.size, dtype=bool)
    row[bound_row] = False
    bounded = np.zeros(program.c.size, dtype=bool)
    bounded[bound_column] = True
    equal = program.equality[row]
    posed = _Program(
        A=sparse.csc_array(program.A[row]),
        b=program.b[row],
        c=program.c,
        signed=np.concatenate([bounded, ~equal]),
        fixed=np.concatenate([np.zeros_like(bounded), equal]),
    )
    x = np.where(bounded, np.maximum(point.x, 0.0), point.x)
    slack = np.where(equal, 0.0, np.maximum(posed.b - posed.A @ x, 0.0))
    now = _Iterate(np.concatenate([x, slack]), point.y[row])
    error = _errors(posed, now)
    for _ in range(_ROUNDS):
        if max(error) <= _ENOUGH:
            break
        primal, dual = (min(1 / max(each, 1e-300), _MOST) for each in error)
        tries = (_corrected(posed, now, min(primal, most), dual) for most in (_MOST, *_LESS))
        found = ((_errors(posed, each), each) for each in tries if each is not None)
        better = next((each for each in found if max(each[0]) < max(error)), None)
        if better is None:
            break
        error, now = better
    y = np.zeros(program.b.size)
    y[row] = now.y
    y[bound_row] = np.maximum(_reduced(posed, now.y)[bound_column], 0.0) / factor
    return replace(point, x=now.value[: program.c.size], y=y)


def _reduced(program: _Program, y: Floats) -> Floats:
    """Reduced cost of each x and s."""
    return np.concatenate([program.c + program.A.T @ y, y])


def _missing(program: _Program, value: Floats) -> Floats:
    """Return what each row lacks."""
    columns = program.c.size
    return np.asarray(program.b - program.A @ value[:columns] - value[columns:], dtype=float)


def _errors(program: _Program, now: _Iterate) -> tuple[float, float]:
    """By how much the limits are missed, and by how much the conditions on the dual values."""
    reduced = _reduced(program, now.y)
    wrong = np.where(program.signed, np.maximum(-reduced, 0.0), np.abs(reduced))
    paid = np.where(program.signed, np.minimum(np.abs(reduced), now.value), 0.0)
    dual = np.where(program.fixed, 0.0, np.maximum(wrong, paid))
    return float(np.abs(_missing(program, now.value)).max(initial=0.0)), float(dual.max())


def _corrected(program: _Program, now: _Iterate, larger: float, dearer: float) -> _Iterate | None:
    """Add the optimal correction, limits and costs magnified; ``None`` if none is found."""
    lower = np.where(program.signed, -larger * now.value, -np.inf)
    lower[program.fixed] = 0.0
    A = sparse.hstack([program.A, sparse.eye_array(program.b.size)], format="csc")
    columns = lower, np.where(program.fixed, 0.0, np.inf)
    missing = larger * _missing(program, now.value)
    cost = dearer * _reduced(program, now.y)
    solver = quiet_solver(_OPTIONS)
    pass_linear_program(solver, cost, A, columns, (missing, missing))
    _start(solver, program, now)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    found = solver.getSolution()
    value = now.value + np.asarray(found.col_value) / larger
    y = now.y - np.asarray(found.row_dual) / dearer
    value = np.where(program.signed, np.maximum(value, 0.0), value)
    return _Iterate(value, np.where(program.signed[program.c.size :], np.maximum(y, 0.0), y))


def _start(solver: highspy.Highs, program: _Program, now: _Iterate) -> None:
    """Begin with what is above its limit; HiGHS makes a basis of that, and of logical columns."""
    inside = (~program.signed | (now.value > _ABOVE)) & ~program.fixed
    word = highspy.HighsBasisStatus
    basis = highspy.HighsBasis()
    basis.col_status = [word.kBasic if each else word.kLower for each in inside.tolist()]
    basis.row_status = [word.kLower] * program.b.size
    basis.alien, basis.valid = True, True
    solver.setBasis(basis)
