"""The interior point of Clarabel, for cone programs and for linear programs that are large."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import clarabel
import numpy as np
from scipy import sparse

from apportion.errors import SolveError
from apportion.policies.solving.cone import Cone, Point
from apportion.policies.solving.solvers.logarithmic_interior_point import sharpen
from apportion.policies.solving.solvers.newton import polish

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.cone import ConeProgram


@dataclass(frozen=True, eq=False)
class PowerChain:
    """A program with chains, and where its rows were in the other, below 0 for those of links."""

    program: ConeProgram
    row: NDArray[np.intp]

    @classmethod
    def of(cls, program: ConeProgram) -> PowerChain | None:
        """Take the power cones of a program apart; ``None`` if none has more than two sides."""
        if all(len(cone.powers) <= 2 for cone in program.cones):
            return None
        start, links = program.linear, 0
        cones, rows = [], list(range(start))
        for cone in program.cones:
            sides, powers = list(range(start, start := start + cone.size)), cone.powers
            while len(powers) > 2:
                both = powers[0] + powers[1]
                cones.append(Cone("power", 3, powers=(powers[0] / both, powers[1] / both)))
                rows += [*sides[:2], ~links]
                sides, powers = [~links, *sides[2:]], (both, *powers[2:])
                links += 1
            cones.append(cone._replace(size=len(sides), powers=powers))
            rows += sides
        row = np.array(rows)
        kept, of_link = np.flatnonzero(row >= 0), np.flatnonzero(row < 0)
        chosen = sparse.csr_array(
            (np.ones(kept.size), (kept, row[kept])), shape=(row.size, program.b.size)
        )
        linked = sparse.csr_array(
            (-np.ones(of_link.size), (of_link, ~row[of_link])), shape=(row.size, links)
        )
        chained = replace(
            program,
            P=sparse.csc_array(sparse.block_diag([program.P, sparse.csc_array((links, links))])),
            c=np.append(program.c, np.zeros(links)),
            A=sparse.csc_array(sparse.hstack([chosen @ program.A, linked])),
            b=np.asarray(chosen @ program.b, dtype=float),
            cones=tuple(cones),
        )
        return cls(chained, row)

    def back(self, point: Point, program: ConeProgram) -> Point:
        """Return a point of the chain's program as one of the program it was made of."""
        y = np.zeros(program.b.size)
        y[self.row[self.row >= 0]] = point.y[self.row >= 0]
        return point.at(point.x[: program.c.size], y)


# pyright: reportAttributeAccessIssue=false
# clarabel is a compiled module without stubs.


_TOLERANCE = 1e-9
"""As for HiGHS; what Clarabel reaches beyond it, later steps are spared."""
_LARGE = 3000


def interior_point(program: ConeProgram) -> Point:
    """Solve a cone program by the interior point; where it stops short, by other means."""
    point = _clarabel(program)
    if point.status in _WORDS.values():
        return point
    near = sharpen(program, point) if np.isfinite(point.x).all() else None
    near = near or polish(program, point)
    if near is not point:
        return replace(near, status="optimal")
    chain = PowerChain.of(program)
    return point if chain is None else chain.back(_clarabel(chain.program), program)


def _clarabel(program: ConeProgram) -> Point:
    linear = np.arange(program.linear)
    equal = linear[program.equality]
    order = np.concatenate(
        [equal, linear[~program.equality], np.arange(program.linear, program.b.size)]
    )
    cones = [clarabel.ZeroConeT(equal.size), clarabel.NonnegativeConeT(program.linear - equal.size)]
    cones += [_cone(cone) for cone in program.cones]
    A = sparse.csc_array(program.A[order])
    P = sparse.csc_array(sparse.triu(program.P))
    b = program.b[order]
    # Where the objective is curved, an error in its value shows as its root in the solution.
    # Large programs rarely get that far and pay for the attempt.
    curved = not program.is_linear_program and program.c.size <= _LARGE
    for gap in (_TOLERANCE / 10_000, _TOLERANCE) if curved else (_TOLERANCE,):
        settings = _settings(gap, strict=curved)
        result = _run(clarabel.DefaultSolver(P, program.c, A, b, cones, settings))
        status = _WORDS.get(str(result.status), str(result.status))
        if status in _WORDS.values():
            break
    y = np.empty(program.b.size)
    y[order] = result.z
    return Point(np.array(result.x), y, status, "clarabel")


_WORDS = {
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
    settings.tol_gap_abs = min(gap, _TOLERANCE / 1000)  # optimal values of 1e-3 are usual
    if strict and gap < _TOLERANCE:
        settings.reduced_tol_gap_rel = settings.reduced_tol_gap_abs = _TOLERANCE
        settings.reduced_tol_feas = _TOLERANCE
        settings.max_iter = 30  # what is not there by then never comes, and the next try is quick
    return settings
