"""The optimum of a curved program to rounding errors, from one to a solver's tolerance.

An interior point stops where the objective is right to 1e-13, and where it is flat a share is right
to the root of that. The point does tell which constraints hold it: half lines at zero, cones in
their apex or on their boundary. Where a boundary is smooth it is an equation ``h(s) = 0`` of the
slack ``s = b - A x``, with ``y = -h'(s) m`` for its dual values and a multiplier m, and the optimum
is a root of smooth equations, the conditions of Karush, Kuhn and Tucker::

    P x + c + A'y = 0,    h(b - A x) = 0 for all that hold

to which Newton's method converges quadratically. What neither a constraint nor a curvature settles
stays about where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import lstsq

from apportion.policies.solving.certificate import into_dual_cone, violation
from apportion.policies.solving.solvers.boundaries import apex, surface

if TYPE_CHECKING:
    from apportion.policies.solving.cone import ConeProgram, Point
    from apportion.policies.solving.solvers.boundaries import Surface
    from apportion.types import Floats, Ints


_MOST = 1000
"""Columns and equations above which no dense system is solved."""
_ROUNDS, _PATIENCE = 10, 1
_ACCEPTED = 1e-11
"""By how much a condition of optimality may be missed, in numbers around 1."""

_EXACT = 1e-14
"""By how much all conditions are missed where another step would find rounding errors only."""
_RANK = 1e-12
"""What is nothing beside the largest number of the equations, each in a unit of its own."""


def polish(program: ConeProgram, point: Point) -> Point:
    """Return the optimum of a curved program to rounding errors, or the point that is given.

    Which it is where what holds a degenerate optimum cannot be told, and where the program is too
    large for dense matrices.

    Parameters
    ----------
    program
        A program whose numbers are around 1.
    point
        Its optimum, to within a solver's tolerances.
    """
    if program.is_linear_program or program.c.size > _MOST:
        return point
    conditions = _Conditions.at(program, point)
    now, best, least, since = (point.x, point.y), (point.x, point.y), np.inf, 0
    for _ in range(_ROUNDS):
        with np.errstate(all="ignore"):
            step = conditions.step(*now)
        since = 0 if step is not None and step.error < least / 2 else since + 1
        if step is None or since > _PATIENCE or least <= _EXACT:
            break
        if not since:
            best, least = (now[0], step.held), step.error
        now = step.x, step.y
    x, y = best
    wrong = np.abs(y - into_dual_cone(program, y)).max(initial=0.0)
    if not max(least, wrong, violation(program, x)) <= _ACCEPTED:
        return point
    return point.at(x, y)


class _Step(NamedTuple):
    """Where a step of Newton's method leads, and what it set out from.

    There the dual values are `held`, by the multipliers and where x was, and no condition is missed
    by more than `error`.
    """

    x: Floats
    y: Floats
    held: Floats
    error: float


@dataclass(frozen=True, eq=False)
class _Conditions:
    """The conditions of optimality of a program, of which some inequalities hold."""

    program: ConeProgram
    A: Floats
    P: Floats
    holds: Ints

    @classmethod
    def at(cls, program: ConeProgram, point: Point) -> _Conditions:
        """Take from a point which inequalities hold: those with more dual value than slack."""
        linear = program.linear
        slack = (program.b - program.A @ point.x)[:linear]
        holds = np.flatnonzero(program.equality | (point.y[:linear] > np.maximum(slack, 0.0)))
        return cls(program, program.A.toarray(), program.P.toarray(), holds)

    def step(self, x: Floats, y: Floats) -> _Step | None:
        """Linearise the conditions about a point and solve them; ``None`` if they are not smooth.

        With multipliers m and the Hessian H of ``x'Px/2 + m'h(b - Ax)``::

            H dx + J'(m + dm) = -(P x + c),    J dx = -h
        """
        program, slack = self.program, self.program.b - self.A @ x
        held, hessian = [(self.holds, apex(slack[self.holds], y[self.holds]))], self.P.copy()
        start = program.linear
        for cone in program.cones:
            place = np.arange(start, start := start + cone.size)
            found = surface(cone, slack[place], y[place])
            if found is not None:
                held.append((place, found))
                if found.bend is not None:
                    hessian += self.A[place].T @ found.bend @ self.A[place]
        J = np.concatenate([-each.slope @ self.A[place] for place, each in held])
        m = np.concatenate([each.multiplier for _, each in held])
        h = np.concatenate([each.h for _, each in held])
        off = np.append(self.P @ x + program.c + J.T @ m, h)
        if off.size > _MOST or not (np.isfinite(hessian).all() and np.isfinite(off).all()):
            return None
        system = np.block([[hessian, J.T], [J, np.zeros((h.size, h.size))]])
        unit = _units(hessian, J)
        # Equations that repeat each other need not agree before the optimum: the least squares do.
        solution = lstsq(
            system * unit * unit[:, None], -off * unit, cond=_RANK, lapack_driver="gelsy"
        )[0]
        step = unit * solution
        before, after = (self._dual(held, multipliers) for multipliers in (m, m + step[x.size :]))
        return _Step(x + step[: x.size], after, before, float(np.abs(off).max()))

    def _dual(self, held: list[tuple[Ints, Surface]], multipliers: Floats) -> Floats:
        """Return the dual values of all rows for multipliers of what holds."""
        dual, first = np.zeros(self.program.b.size), 0
        for place, each in held:
            dual[place] = -multipliers[first : (first := first + each.h.size)] @ each.slope
        return dual


def _units(hessian: Floats, J: Floats) -> Floats:
    """Return what columns, then equations are multiplied by, so that no number is far above 1.

    Equations keep their size: what rounding leaves of one that says nothing is not to count.
    """
    column = 1 / np.sqrt(np.maximum(np.abs(hessian).max(axis=1), 1.0))
    largest = np.abs(J * column).max(axis=1)
    row = np.abs(J).max(axis=1) / np.where(largest > 0, largest, 1.0)
    return np.append(column, row)
