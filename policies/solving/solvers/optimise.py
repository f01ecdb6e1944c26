"""The solvers behind every policy: HiGHS for linear programs, Clarabel for the others."""

# pyright: reportAttributeAccessIssue=false
# clarabel is a compiled module without stubs.
from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

import clarabel
import numpy as np
from scipy import sparse

from apportion.errors import SolveError
from apportion.policies.solving.solvers.highs import PersistentHighs, rows_that_are_bounds
from apportion.policies.solving.solvers.point import Point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.solvers.cone_program import Cone, ConeProgram

    Floats = NDArray[np.float64]

__all__ = ["Point", "SolverName", "optimise"]

SolverName = Literal["auto", "highs", "clarabel", "arrow"]
"""Solvers by name; "arrow" is for policies solved level by level and not known to `optimise`."""

_LOG = logging.getLogger(__name__)
_SIMPLEX_ROWS = 1500
"""Above this many rows the simplex method loses to the interior point (measured)."""
_TOLERANCE = 1e-9
_LARGE = 3000


def optimise(program: ConeProgram, solver: SolverName = "auto") -> Point:
    """Solve a cone program; if the first solver fails, the other one has a try.

    Raises
    ------
    SolveError
        If no solver found an optimum, an infeasibility or an unbounded ray.
    """
    attempts = _order(program, solver)
    tried = []
    for name in attempts:
        try:
            point = PersistentHighs(program).solve() if name == "highs" else _clarabel(program)
        except SolveError as error:
            tried.append(f"{name}: {error}")
            continue
        if point.status in {"optimal", "infeasible", "unbounded"}:
            return point
        _LOG.info("%s stopped with status %s", name, point.status)
        tried.append(f"{name}: {point.status}")
    raise SolveError(f"No solver found an optimum ({'; '.join(tried)}).")


def _order(program: ConeProgram, solver: SolverName) -> list[str]:
    """Names of the solvers to try, best first."""
    if not program.is_linear_program:
        return ["clarabel"]
    wide = program.linear - rows_that_are_bounds(program)[0].size > _SIMPLEX_ROWS
    first = solver if solver != "auto" else ("clarabel" if wide else "highs")
    return [first, "clarabel" if first == "highs" else "highs"]


def _clarabel(program: ConeProgram) -> Point:
    """Solve a cone program by the interior point."""
    linear = np.arange(program.linear)
    equal = linear[program.equality]
    order = np.concatenate(
        [equal, linear[~program.equality], np.arange(program.linear, program.b.size)]
    )
    cones = [clarabel.ZeroConeT(equal.size), clarabel.NonnegativeConeT(program.linear - equal.size)]
    cones += [_clarabel_cone(cone) for cone in program.cones]
    A = sparse.csc_array(program.A[order])
    P = sparse.csc_array(sparse.triu(program.P))
    b = program.b[order]
    # Where the objective is curved, an error in its value shows as its root in the solution.
    # Large programs rarely get that far and pay for the attempt.
    curved = not program.is_linear_program and program.c.size <= _LARGE
    for gap in (_TOLERANCE / 10_000, _TOLERANCE) if curved else (_TOLERANCE,):
        settings = _clarabel_settings(gap, strict=curved)
        result = _run(clarabel.DefaultSolver(P, program.c, A, b, cones, settings))
        status = _CLARABEL_WORDS.get(str(result.status), str(result.status))
        if status in _CLARABEL_WORDS.values():
            break
    y = np.empty(program.b.size)
    y[order] = result.z
    return Point(np.array(result.x), y, status, "clarabel")


_CLARABEL_WORDS = {
    "Solved": "optimal",
    "AlmostSolved": "optimal",  # the certificate tells how far off it is
    "PrimalInfeasible": "infeasible",
    "AlmostPrimalInfeasible": "infeasible",
    "DualInfeasible": "unbounded",
    "AlmostDualInfeasible": "unbounded",
}


def _run(solver: Any) -> Any:
    """Run Clarabel, whose compiled code may give up in a way of its own."""
    try:
        return solver.solve()
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # which is no Exception, and has no other name
            raise
        raise SolveError(f"Clarabel stopped: {error}") from error


def _clarabel_cone(cone: Cone) -> Any:
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


def _clarabel_settings(gap: float, *, strict: bool) -> clarabel.DefaultSettings:
    """Tolerances: a relative gap; `strict` lets "almost solved" pass only near the usual one."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 100
    settings.max_threads = 1
    settings.tol_feas = _TOLERANCE
    settings.tol_gap_rel = gap
    settings.tol_gap_abs = min(gap, _TOLERANCE / 1000)  # optimal values of 1e-3 are usual
    if strict and gap < _TOLERANCE:
        settings.reduced_tol_gap_rel = settings.reduced_tol_gap_abs = _TOLERANCE
        settings.reduced_tol_feas = _TOLERANCE
        settings.max_iter = 30  # what is not there by then never comes, and the next try is quick
    return settings
