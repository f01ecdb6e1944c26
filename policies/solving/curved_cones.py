"""Cones other than half lines: how far a slack is outside of one, and the way into its dual."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.solving.cone import Cone, Kind
    from apportion.types import Floats, Ints

_MOST_EXPONENT = 700.0
"""Up to which `exp` is a number."""


def _into_second_order(y: Floats, cone: Cone) -> Floats:
    return np.append(max(y[0], np.linalg.norm(y[1:])), y[1:])


def _into_semidefinite(y: Floats, cone: Cone) -> Floats:
    """Leave out what is below zero in the spectrum."""
    matrix, (column, row), root = matrix_of(y, cone)
    values, vectors = np.linalg.eigh(matrix)
    kept = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray(kept[row, column] * root, dtype=float)


def matrix_of(rows: Floats, cone: Cone) -> tuple[Floats, tuple[Ints, Ints], Floats]:
    """Return the matrix of some rows, and their places in it and factors."""
    column, row = np.tril_indices(cone.order)  # the upper triangle by columns
    root = np.where(row == column, 1.0, np.sqrt(2))
    matrix = np.zeros((cone.order, cone.order))
    matrix[row, column] = matrix[column, row] = rows / root
    return matrix, (column, row), root


def _into_exponential(y: Floats, cone: Cone) -> Floats:
    """Raise (u, v, w), of which ``-u exp(v / u - 1) <= w`` must hold, by as little as is enough."""
    u, v, w = y.tolist()
    if u >= 0:
        return np.maximum([0.0, v, w], 0.0)
    found = []
    for third in (w, max(w, -u)):
        if third > 0:
            found.append([u, max(v, u * (1 + np.log(third / -u))), third])
    if v / u - 1 < _MOST_EXPONENT:
        found.append([u, v, max(w, -u * np.exp(v / u - 1))])
    return np.array(min(found, key=lambda each: sum(each)))


def _into_power(y: Floats, cone: Cone) -> Floats:
    """Shorten the last, which is no longer than the others weighted allow."""
    powers, sides = np.array(cone.powers), np.maximum(y[:-1], 0.0)
    most = float(np.prod((sides / powers) ** powers))
    return np.append(sides, np.clip(y[-1], -most, most))


def _outside_exponential(s: Floats, cone: Cone) -> float:
    """By how much (x, y, z) miss ``y exp(x / y) <= z``: what x or z lack, whichever is less."""
    x, y, z = map(float, s)
    if y <= 0:
        return max(x, -y, -z)
    of_z = float(y * np.exp(min(x / y, _MOST_EXPONENT)) - z)
    return min(of_z, float(x - y * np.log(z / y))) if z > 0 else of_z


def _outside_power(s: Floats, cone: Cone) -> float:
    """By how much the last is longer than the others, weighted, allow."""
    most = np.prod(np.maximum(s[:-1], 0.0) ** np.array(cone.powers))
    return float(max(abs(s[-1]) - most, -s[:-1].min()))


OUTSIDE: dict[Kind, Callable[[Floats, Cone], float]] = {
    "second order": lambda s, _: float(np.linalg.norm(s[1:]) - s[0]),
    "semidefinite": lambda s, cone: -float(np.linalg.eigvalsh(matrix_of(s, cone)[0])[0]),
    "exponential": _outside_exponential,
    "power": _outside_power,
}
"""By how much a slack is outside of each cone, at most 0 inside."""
INTO_DUAL: dict[Kind, Callable[[Floats, Cone], Floats]] = {
    "second order": _into_second_order,
    "semidefinite": _into_semidefinite,
    "exponential": _into_exponential,
    "power": _into_power,
}
"""How a dual vector gets into the dual of each cone."""
