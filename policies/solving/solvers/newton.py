"""The optimum of a curved program to rounding errors, from one to a solver's tolerance.

An interior point stops where the objective is right to 1e-13, and where it is flat a share is right
to the root of that. The point does tell which constraints hold it: half lines at zero, cones in
their apex or on their boundary. Where a boundary is smooth it is an equation ``h(s) = 0`` of the
slack ``s = b - A x``, with ``y = -h'(s) m`` for its dual values and a multiplier m, and the optimum
is a root of smooth equations, the conditions of Karush, Kuhn and Tucker::

    P x + c + A'y = 0,    h(b - A x) = 0 for all that hold

to which Newton's method converges quadratically. What neither a constraint nor a curvature settles
stays about where it is. Which part of a cone holds a slack s with dual values y is read off
``s - y``: s has the positive part of its spectrum, y the negative one. With neither of them zero s
is on the boundary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import lstsq

from apportion.policies.solving.certificate import into_dual_cone, violation
from apportion.policies.solving.curved_cones import matrix_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.solving.cone import Cone, ConeProgram, Kind, Point
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


_LEAST = 1e-150
"""Sides are at least this: their products and quotients, squared, are still numbers."""


class Surface(NamedTuple):
    """Equations ``h(s) = 0``, negative inside, by which a constraint holds its slack.

    Their `slope` h'(s) has the shape (equations, size); `bend`, of shape (size, size), are the
    second derivatives added up with the multipliers, ``None`` if they are zero. The dual values of
    the slack are ``-slope.T @ multiplier``.
    """

    h: Floats
    slope: Floats
    multiplier: Floats
    bend: Floats | None = None


def surface(cone: Cone, s: Floats, y: Floats) -> Surface | None:
    """Return how a cone holds a slack with some dual values; ``None`` if it does not."""
    return _SURFACES[cone.kind](cone, s, y)


def apex(s: Floats, y: Floats) -> Surface:
    """Hold all of a slack at zero."""
    return Surface(-s, -np.eye(s.size), y)


def _second_order(cone: Cone, s: Floats, y: Floats) -> Surface | None:
    """``|v| <= t`` for s = (t, v)."""
    length, of_dual = np.linalg.norm(s[1:]), np.linalg.norm(y[1:])
    if s[0] + length <= y[0] - of_dual or length == 0:
        return apex(s, y)
    if s[0] - length >= y[0] + of_dual:
        return None
    to = s[1:] / length
    bend = np.zeros((s.size, s.size))
    bend[1:, 1:] = y[0] / length * (np.eye(to.size) - np.outer(to, to))
    return Surface(np.array([length - s[0]]), np.append(-1.0, to)[None], y[:1], bend)


def _exponential(cone: Cone, s: Floats, y: Floats) -> Surface | None:
    """``r exp(q / r) <= z`` for s = (q, r, z), as ``q - r log(z / r) <= 0``."""
    q, r, z = s
    inside = r * np.log(z / r) - q
    if inside >= -y[0]:
        return None
    slope = np.array([[1.0, 1 - np.log(z / r), -r / z]])
    bend = -y[0] * np.array([[0, 0, 0], [0, 1 / r, -1 / z], [0, -1 / z, r / z**2]])
    return Surface(np.array([-inside]), slope, -y[:1], bend)


def _power(cone: Cone, s: Floats, y: Floats) -> Surface | None:
    """``|w| <= product of s_i**p_i``, solved for the least of the s_i, shares as it may be zero."""
    least, powers = int(s[:-1].argmin()), np.array(cone.powers)
    q = np.append(-powers, 1.0) / powers[least]
    sides = np.append(np.maximum(s[:-1], _LEAST), max(abs(s[-1]), _LEAST))
    others = np.arange(s.size) != least
    needed = float(np.prod(sides[others] ** q[others]))
    if s[least] - needed >= y[least]:
        return None
    part = np.where(others, q / sides, 0.0) * np.append(np.ones(powers.size), np.sign(s[-1]))
    slope = needed * part
    slope[least] = -1.0
    bend = y[least] * needed * (np.outer(part, part) - np.diag(np.where(others, q / sides**2, 0)))
    return Surface(np.array([needed - s[least]]), slope[None], y[[least]], bend)


def ranges(cone: Cone, s: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Return eigenvectors of a matrix s beside which its dual values y are zero, or it is.

    Shapes (order, of y), (order, of s), and the eigenvalues of s that go with the latter.
    """
    S, Y = matrix_of(s, cone)[0], matrix_of(y, cone)[0]
    of_dual = int(np.count_nonzero(np.linalg.eigvalsh(S - Y) < 0))
    values, vectors = np.linalg.eigh(S)
    return vectors[:, :of_dual], vectors[:, of_dual:], values[of_dual:]


def block(cone: Cone, left: Floats, right: Floats) -> Floats:
    """Return the entries of ``left' S right`` by rows of the cone, shape (left, right, size)."""
    _, (column, row), root = matrix_of(np.zeros(cone.size), cone)
    both = left[row][:, :, None] * right[column][:, None]
    both += left[column][:, :, None] * right[row][:, None]
    return np.moveaxis(both / np.where(row == column, 2.0, root)[:, None, None], 0, 2)


def triangle(blocks: Floats) -> Floats:
    """Return rows for the upper triangle of symmetric blocks, as a semidefinite cone has them."""
    first, second = np.tril_indices(len(blocks))
    return np.asarray(blocks[first, second].T * np.where(first == second, 1.0, np.sqrt(2))).T


def _semidefinite(cone: Cone, s: Floats, y: Floats) -> Surface | None:
    """Keep the rank: with N and R that span what S is not and is, its part on N beside R is zero.

    That part is ``N'SN - N'SR (R'SR)^-1 R'SN``, where N and R are eigenvectors of S at this slack.
    """
    N, R, values = ranges(cone, s, y)
    if not N.size:
        return None
    (S, _, _), (Y, _, _) = matrix_of(s, cone), matrix_of(y, cone)
    prices, beside = N.T @ Y @ N, block(cone, N, R)
    weighed = np.einsum("pq,qbs->pbs", prices, beside) / values[:, None]
    return Surface(
        h=-triangle(N.T @ S @ N),
        slope=-triangle(block(cone, N, N)),
        multiplier=triangle(prices),
        bend=2 * np.tensordot(weighed, beside, ((0, 1), (0, 1))),
    )


_SURFACES: dict[Kind, Callable[[Cone, Floats, Floats], Surface | None]] = {
    "second order": _second_order,
    "exponential": _exponential,
    "power": _power,
    "semidefinite": _semidefinite,
}
