"""By how much the numbers of a linear program would have to change for a point to be its optimum.

Errors are measured against the sizes of the terms that they are sums of. So a program may hold
limits, shares and dual values of any size: what another unit would change does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.cone import ConeProgram, Point

    Floats = NDArray[np.float64]

__all__ = ["backward_error"]


def backward_error(program: ConeProgram, point: Point) -> float:
    """Return the largest relative error of a point in the optimality conditions.

    They are: every constraint is met, the dual vector has the right signs and ``c + A'y = 0``, and
    no constraint that has slack has a dual value. Infinite if a number is not finite.

    Parameters
    ----------
    program
        A linear program.
    point
        What a solver made of it.
    """
    A, b, c, x, y = program.A, program.b, program.c, point.x, point.y
    if x.size != c.size or y.size != b.size:  # the solver has no point at all
        return np.inf
    column_of = np.repeat(np.arange(c.size), np.diff(A.indptr))
    made = A.data * x[column_of]
    paid = A.data * y[A.indices]
    rows, columns = b.size, c.size
    slack = b - np.bincount(A.indices, weights=made, minlength=rows)
    size = np.abs(b) + np.bincount(A.indices, weights=np.abs(made), minlength=rows)
    missing = c + np.bincount(column_of, weights=paid, minlength=columns)
    worth = np.abs(c) + np.bincount(column_of, weights=np.abs(paid), minlength=columns)
    short = np.where(program.equality, np.abs(slack), np.maximum(-slack, 0.0))
    free = np.where(program.equality, 0.0, np.maximum(-y, 0.0))
    gap = abs(float(np.where(program.equality, 0.0, slack) @ y))
    total = float(np.abs(c) @ np.abs(x) + np.abs(b) @ np.abs(y))
    errors = (
        _largest(short, np.maximum(size, 1.0)),
        _largest(missing, np.maximum(worth, np.abs(c).max(initial=0.0))),
        _largest(free, np.maximum(np.abs(y).max(initial=0.0), 1e-300)),
        gap / total if total > 0 else 0.0,
    )
    worst = max(errors)
    return worst if np.isfinite(worst) else np.inf


def _largest(error: Floats, size: Floats | float) -> float:
    """Largest of some errors relative to sizes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.abs(error) / size
    return float(np.where(error == 0, 0.0, relative).max(initial=0.0))
