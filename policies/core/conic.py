"""Curved programs: Clarabel, and one polish of its optimum to rounding errors.

An interior point stops where the objective is right to 1e-13, and where it is flat a share is right
to the root of that. The point does tell which bounds, rows and cones hold it: those with more dual
value than slack. Where the boundary of a cone is smooth it is an equation ``h(s) = 0`` of the slack
``s = b - A x``, with dual values ``y = -h'(s) m``. The optimum is a root of smooth equations,

    P x + c + A'y = 0 in the free columns,  h(b - A x) = 0 for all that holds

to which Newton's method converges quadratically. After each step what holds is told anew, by the
same rule. So the most even point of a face, which is a quadratic program, is exact as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import clarabel
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from apportion.errors import SolveError
from apportion.policies.core.canonical import Point
from apportion.policies.core.certificate import optimality_error
from apportion.policies.core.cones import Surface, surface
from apportion.policies.core.highs import linear_optimum

if TYPE_CHECKING:
    from apportion.policies.core.canonical import Cone, Program
    from apportion.types import Floats

# pyright: reportAttributeAccessIssue=false
# clarabel is a compiled module without stubs.

_TOLERANCE = 1e-9
_LARGE = 3000
"""Columns above which Clarabel rarely gets beyond its tolerance, and pays for the attempt."""
_ROUNDS, _PATIENCE = 30, 4
_ACCEPTED = 1e-10
"""Error in the conditions of optimality, in numbers around 1, of what is taken as exact."""
_EXACT, _ROUNDING = 1e-15, 1e-13
"""Errors at which no other step is tried: at once, and after one that made it no less."""
_SNAPS = 1e-2
"""Part of a cone's dual values up to which its slack is taken for zero, or the other way round, at
optima where that is so of both, which are no roots of smooth equations."""
_REGULAR = 1e-9
"""Keeps the equations regular where some repeat others; refinement takes it out again."""
_WORDS = {
    "Solved": "optimal",
    "AlmostSolved": "optimal",  # the certificate tells how far off it is
    "PrimalInfeasible": "infeasible",
    "AlmostPrimalInfeasible": "infeasible",
    "DualInfeasible": "unbounded",
    "AlmostDualInfeasible": "unbounded",
}


def optimum(program: Program, start: Any = None) -> Point:
    """Solve a scaled program: by HiGHS if it is linear, else by Clarabel, polished.

    Parameters
    ----------
    program
        The program.
    start
        The basis of a vertex to begin with, if it is linear.

    Raises
    ------
    SolveError
        If no solver found an optimum, an infeasibility or an unbounded ray.
    """
    point = linear_optimum(program, start) if program.is_linear else interior_point(program)
    if program.is_linear and point.status not in _WORDS.values():
        point = interior_point(program)
    if point.status in _WORDS.values():
        return point
    raise SolveError(
        f"No solver found an optimum ({point.solver}: {point.status}). The same objective in other "
        f"atoms, or with numbers nearer to 1, may be solved; fallback='isolated' gives isolated "
        f"shares."
    )


def interior_point(program: Program) -> Point:
    """Solve by Clarabel without the columns that are fixed, and polish what it finds."""
    free = np.flatnonzero(program.lower < program.upper)
    x = np.where(program.lower < program.upper, 0.0, program.lower)
    small = replace(
        program,
        P=sparse.csc_array(program.P[free][:, free]),
        c=(program.c + program.P @ x)[free],
        A=sparse.csc_array(program.A[:, free]),
        b=program.b - program.A @ x,
        lower=program.lower[free],
        upper=program.upper[free],
    )
    point = _clarabel(small)
    point = point if point.status in {"infeasible", "unbounded"} else polish(small, point)
    x[free] = point.x
    return replace(point, x=x)


def _clarabel(program: Program) -> Point:
    linear, columns = program.equality.size, np.arange(program.c.size)
    equal, below = np.flatnonzero(program.equality), np.flatnonzero(~program.equality)
    low, up = (columns[np.isfinite(each)] for each in (program.lower, program.upper))
    A, one = program.A.tocsr(), sparse.eye_array(columns.size, format="csr")
    rows = [A[equal], A[below], -one[low], one[up], A[linear:]]
    limits = [program.b[equal], program.b[below], -program.lower[low], program.upper[up]]
    signed = below.size + low.size + up.size
    cones = [clarabel.ZeroConeT(equal.size), clarabel.NonnegativeConeT(signed)]
    cones += map(_cone, program.cones)
    posed = (
        sparse.csc_array(sparse.triu(program.P)),
        program.c,
        sparse.csc_array(sparse.vstack(rows)),
        np.concatenate([*limits, program.b[linear:]]),
        cones,
    )
    # Where the objective is curved, an error in its value shows as its root in the solution.
    curved = not program.is_linear and columns.size <= _LARGE
    for gap in (_TOLERANCE / 10_000, _TOLERANCE) if curved else (_TOLERANCE,):
        result = _run(clarabel.DefaultSolver(*posed, _settings(gap, strict=curved)))
        word = str(result.status)
        if word in _WORDS:
            break
    z, y = np.array(result.z), np.zeros(program.b.size)
    y[equal], y[below] = z[: equal.size], z[equal.size :][: below.size]
    y[linear:] = z[equal.size + signed :]
    return Point(np.array(result.x), y, _WORDS.get(word, word), "clarabel")


def _run(solver: Any) -> Any:
    """Run Clarabel, whose compiled code may give up in a way of its own."""
    try:
        return solver.solve()
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # which is no Exception, and has no other name
            raise
        raise SolveError(f"Clarabel stopped: {error}") from error


def _cone(cone: Cone) -> Any:
    """Return a cone as Clarabel calls it."""
    if cone.kind == "second order":
        return clarabel.SecondOrderConeT(cone.size)
    if cone.kind == "semidefinite":
        return clarabel.PSDTriangleConeT(cone.order)
    if cone.kind == "exponential":
        return clarabel.ExponentialConeT()
    if len(cone.powers) == 2:
        return clarabel.PowerConeT(cone.powers[0])
    return clarabel.GenPowerConeT(list(cone.powers), 1)


def _settings(gap: float, *, strict: bool) -> clarabel.DefaultSettings:
    """Tolerances: a relative gap; `strict` lets "almost solved" pass only near the usual one."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 100
    settings.max_threads = 1
    settings.tol_feas = _TOLERANCE
    settings.tol_gap_rel = gap
    settings.tol_gap_abs = min(gap, _TOLERANCE / 1000)
    if strict and gap < _TOLERANCE:
        settings.reduced_tol_gap_rel = settings.reduced_tol_gap_abs = _TOLERANCE
        settings.reduced_tol_feas = _TOLERANCE
        settings.max_iter = 30  # what is not there by then never comes, and the next try is quick
    else:  # with caution: exponential cones may end in a corner otherwise
        settings.linesearch_backtrack_step, settings.min_switch_step_length = 0.5, 1e-3
    return settings


def polish(program: Program, point: Point) -> Point:
    """Return the optimum of a program to rounding errors, or the best point on the way there.

    Parameters
    ----------
    program
        A program whose numbers are around 1.
    point
        Its optimum, to within a solver's tolerances.
    """
    finite = np.isfinite(point.x).all() and np.isfinite(point.y).all()
    if not finite or any(cone.kind == "semidefinite" for cone in program.cones):
        return point
    with np.errstate(all="ignore"):
        best = error, x, y = _by_newton(program, point.x, point.y, 0.0)
        if error > _ACCEPTED and program.cones:
            error, x, y = _by_newton(program, point.x, point.y, _SNAPS)
    if error <= _ACCEPTED:
        return replace(point, x=x, y=y, exact=True, status="optimal")
    return replace(point, x=best[1], y=best[2])


def _by_newton(program: Program, x: Floats, y: Floats, snap: float) -> tuple[float, Floats, Floats]:
    """Return the error of the best point on the way of Newton's method, and the point."""
    best, since = (optimality_error(program, x, y), x, y), 0
    for _ in range(_ROUNDS):
        step = _step(program, x, y, snap)
        if step is None or not all(np.isfinite(each).all() for each in step):
            break
        x, y = step
        slack = program.b - program.A @ x
        for cone, at in program.cone_rows():  # make dual values exactly normal to cones
            held = surface(cone, slack[at], y[at], snap)
            y[at] = -held.slope.T @ held.multiplier
        error = optimality_error(program, x, y) if np.isfinite(y).all() else np.inf
        since = 0 if error < best[0] / 2 else since + 1
        if error < best[0]:
            best = error, x, y
        done = best[0] <= (_EXACT if since == 0 else _ROUNDING)
        if done or since > _PATIENCE or not np.isfinite(error):
            break
    return best


def _held(program: Program, slack: Floats, y: Floats, snap: float) -> Surface:
    """Return what holds a point: tight rows and boundaries of cones, as one surface."""
    linear = program.equality.size
    rows = np.flatnonzero(program.equality | (y[:linear] > slack[:linear]))
    tight, none = -sparse.eye_array(linear, format="csr")[rows], sparse.csr_array((linear, linear))
    each = [Surface(-slack[rows], tight, y[rows], none)]
    each += [surface(cone, slack[at], y[at], snap) for cone, at in program.cone_rows()]
    h, slopes, multipliers, bends = zip(*each, strict=True)
    return Surface(
        np.concatenate(h),
        sparse.block_diag(slopes, format="csr"),
        np.concatenate(multipliers),
        sparse.block_diag(bends, format="csr"),
    )


def _step(program: Program, x: Floats, y: Floats, snap: float) -> tuple[Floats, Floats] | None:
    """Linearise the conditions about a point and solve them; ``None`` if they are not smooth.

    With multipliers m and the Hessian H of ``x'Px/2 + m'h(b - Ax)``::

        H dx + J'(m + dm) = -(P x + c),    J dx = -h
    """
    reduced = program.reduced(x, y)
    low, up = reduced > x - program.lower, -reduced > program.upper - x
    x = np.where(low, program.lower, np.where(up, program.upper, x))
    free = np.flatnonzero(~(low | up))
    held, A = _held(program, program.b - program.A @ x, y, snap), program.A[:, free]
    J = sparse.csc_array(-held.slope @ A)
    H = sparse.csc_array(program.P[free][:, free] + A.T @ held.bend @ A)
    gradient = (program.P @ x + program.c)[free] + J.T @ held.multiplier
    solution = _solved(H, J, -np.append(gradient, held.h))
    if solution is None:
        return None
    x[free] += solution[: free.size]
    return x, -held.slope.T @ (held.multiplier + solution[free.size :])


def _solved(H: sparse.csc_array, J: sparse.csc_array, right: Floats) -> Floats | None:
    """Solve ``[[H, J'], [J, 0]] z = right``, each column and row in a unit of its own."""
    columns, rows = H.shape[0], J.shape[0]
    column = 1 / np.sqrt(np.maximum(_largest(H, columns), 1.0))
    size = _largest(sparse.csc_array(J.T), rows)
    J = sparse.csc_array(J @ sparse.diags_array(column))
    # Equations keep their size: what rounding leaves of one that says nothing is not to count.
    row = size / np.maximum(_largest(sparse.csc_array(J.T), rows), 1e-300)
    unit = np.append(column, np.where(size > 0, row, 1.0))
    by_column = sparse.diags_array(column)
    J = sparse.diags_array(unit[columns:]) @ J
    system = sparse.block_array([[by_column @ H @ by_column, J.T], [J, None]], format="csc")
    if system.shape != (columns + rows, columns + rows):
        return None
    sign = np.repeat([_REGULAR, -_REGULAR], [columns, rows])
    right = right * unit
    if not (np.isfinite(system.data).all() and np.isfinite(right).all()):
        return None
    try:
        factors = splu(sparse.csc_array(system + sparse.diags_array(sign)))
    except RuntimeError:  # a pivot that rounding made zero
        return None
    solution = factors.solve(right)
    for _ in range(3):
        solution = solution + factors.solve(right - system @ solution)
    return unit * solution


def _largest(matrix: sparse.csc_array, columns: int) -> Floats:
    """Return the largest entry of each column."""
    largest = np.zeros(columns)
    np.maximum.at(largest, np.repeat(np.arange(columns), np.diff(matrix.indptr)), abs(matrix.data))
    return largest
