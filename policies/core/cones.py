"""Cones other than half lines: what is outside, the way into the dual, and boundaries as equations.

Where neither a slack s nor its dual values y are zero s is on the boundary, which is an equation
``h(s) = 0``, negative inside. Semidefinite cones are not taken that way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.policies.core.canonical import Cone
    from apportion.types import Floats, Ints

_MOST_EXPONENT = 700.0
"""Up to which `exp` is a number."""
_LEAST = 1e-150
"""Sides are at least this: their products and quotients, squared, are still numbers."""


def outside(cone: Cone, s: Floats) -> float:
    """By how much a slack is outside of a cone, at most 0 inside."""
    if cone.kind == "second order":
        return float(np.linalg.norm(s[1:]) - s[0])
    if cone.kind == "semidefinite":
        return -float(np.linalg.eigvalsh(matrix_of(cone, s)[0])[0])
    if cone.kind == "power":
        most = np.prod(np.maximum(s[:-1], 0.0) ** np.array(cone.powers))
        return float(max(abs(s[-1]) - most, -s[:-1].min()))
    x, y, z = map(float, s)  # y exp(x / y) <= z: what x or z lack, whichever is less
    if y <= 0:
        return max(x, -y, -z)
    of_z = float(y * np.exp(min(x / y, _MOST_EXPONENT)) - z)
    return min(of_z, float(x - y * np.log(z / y))) if z > 0 else of_z


def into_dual(cone: Cone, y: Floats) -> Floats:
    """Move dual values into the dual of a cone, by little if they are nearly there."""
    if cone.kind == "second order":
        return np.append(max(y[0], np.linalg.norm(y[1:])), y[1:])
    if cone.kind == "semidefinite":
        matrix, (column, row), root = matrix_of(cone, y)
        values, vectors = np.linalg.eigh(matrix)
        kept = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return np.asarray(kept[row, column] * root, dtype=float)
    if cone.kind == "power":
        powers, sides = np.array(cone.powers), np.maximum(y[:-1], 0.0)
        most = float(np.prod((sides / powers) ** powers))
        return np.append(sides, np.clip(y[-1], -most, most))
    u, v, w = y.tolist()  # -u exp(v / u - 1) <= w
    if u >= 0:
        return np.maximum([0.0, v, w], 0.0)
    found = [
        [u, max(v, u * (1 + np.log(third / -u))), third] for third in (w, max(w, -u)) if third > 0
    ]
    if v / u - 1 < _MOST_EXPONENT:
        found.append([u, v, max(w, -u * np.exp(v / u - 1))])
    return np.array(min(found, key=lambda each: sum(each)))


class Surface(NamedTuple):
    """Equations by which a cone holds its slack; none where it does not.

    Their `slope` h'(s) has the shape (equations, size); `bend`, of shape (size, size), are the
    second derivatives added up with the multipliers. The dual values of the slack are
    ``-slope.T @ multiplier``.
    """

    h: Floats
    slope: Any
    multiplier: Floats
    bend: Any


def _inside(size: int) -> Surface:
    """Hold nothing."""
    return Surface(np.zeros(0), np.zeros((0, size)), np.zeros(0), np.zeros((size, size)))


def _apex(s: Floats, y: Floats) -> Surface:
    """Hold all of a slack at zero."""
    return Surface(-s, -np.eye(s.size), y, np.zeros((s.size, s.size)))


def surface(cone: Cone, s: Floats, y: Floats, snap: float) -> Surface:
    """Return how a cone holds a slack with some dual values.

    What is below the part `snap` of the other is taken for zero.
    """
    size, of_dual = np.abs(s).max(), np.abs(y).max()
    if of_dual <= snap * size:
        return _inside(s.size)
    if size <= snap * of_dual:
        return _apex(s, y)
    if cone.kind == "second order":
        return _second_order(s, y)
    return _power(cone, s, y) if cone.kind == "power" else _exponential(s, y)


def _second_order(s: Floats, y: Floats) -> Surface:
    """``|v| <= t`` for s = (t, v)."""
    length, of_dual = np.linalg.norm(s[1:]), np.linalg.norm(y[1:])
    if s[0] + length <= y[0] - of_dual or length == 0:
        return _apex(s, y)
    if s[0] - length >= y[0] + of_dual:
        return _inside(s.size)
    to = s[1:] / length
    bend = np.zeros((s.size, s.size))
    bend[1:, 1:] = y[0] / length * (np.eye(to.size) - np.outer(to, to))
    return Surface(np.array([length - s[0]]), np.append(-1.0, to)[None], y[:1], bend)


def _exponential(s: Floats, y: Floats) -> Surface:
    """``r exp(q / r) <= z`` for s = (q, r, z), as ``q - r log(z / r) <= 0``."""
    q, r, z = s
    inside = r * np.log(z / r) - q
    if inside >= -y[0]:
        return _inside(s.size)
    slope = np.array([[1.0, 1 - np.log(z / r), -r / z]])
    bend = -y[0] * np.array([[0, 0, 0], [0, 1 / r, -1 / z], [0, -1 / z, r / z**2]])
    return Surface(np.array([-inside]), slope, -y[:1], bend)


def _power(cone: Cone, s: Floats, y: Floats) -> Surface:
    """``|w| <= product of s_i**p_i``, solved for the least of the s_i, shares as it may be zero."""
    least, powers = int(s[:-1].argmin()), np.array(cone.powers)
    q = np.append(-powers, 1.0) / powers[least]
    sides = np.append(np.maximum(s[:-1], _LEAST), max(abs(s[-1]), _LEAST))
    others = np.arange(s.size) != least
    needed = float(np.prod(sides[others] ** q[others]))
    if s[least] - needed >= y[least]:
        return _inside(s.size)
    part = np.where(others, q / sides, 0.0) * np.append(np.ones(powers.size), np.sign(s[-1]))
    slope = needed * part
    slope[least] = -1.0
    bend = y[least] * needed * (np.outer(part, part) - np.diag(np.where(others, q / sides**2, 0)))
    return Surface(np.array([needed - s[least]]), slope[None], y[[least]], bend)


def matrix_of(cone: Cone, rows: Floats) -> tuple[Floats, tuple[Ints, Ints], Floats]:
    """Return the matrix of some rows, and their places in it and factors."""
    column, row = np.tril_indices(cone.order)  # the upper triangle by columns
    root = np.where(row == column, 1.0, np.sqrt(2))
    matrix = np.zeros((cone.order, cone.order))
    matrix[row, column] = matrix[column, row] = rows / root
    return matrix, (column, row), root
