"""The boundaries of cones as smooth equations, where they hold a slack.

Which part of a cone holds a slack s with dual values y is read off ``s - y``: s has the positive
part of its spectrum, y the negative one. With neither of them zero s is on the boundary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.policies.solving.certificate import matrix_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.solving.cone import Cone, Kind
    from apportion.types import Floats


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
