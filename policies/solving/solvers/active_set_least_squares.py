"""A least sum of squares under linear constraints by active sets: exact where it succeeds.

The last choice of the second stage is a small quadratic program that differs little from the one
before. With a good guess of which constraints hold with equality it is one linear system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import lapack

from apportion.policies.solving.cone import rows_that_are_bounds
from apportion.policies.solving.stages import made_for

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

    from apportion.policies.solving.cone import ConeProgram

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

__all__ = ["least_squares"]

_MOST_COLUMNS = 500
_ROUNDS = 30
_ACCEPTED = 1e-10
_REGULAR = 1e-11
"""Keeps the system regular where constraints repeat each other; refinement takes it out again."""


class _Parts(NamedTuple):
    """The program without columns that are held at zero: dense, equalities and the others apart."""

    weight: Floats
    equal: Floats
    equal_to: Floats
    below: Floats
    limit: Floats
    nonnegative: Bools


@made_for()
def least_squares(
    program: ConeProgram, weight: Floats, near: Floats, *, tolerance: float = 1e-12
) -> Floats | None:
    """Minimise ``sum(weight * x**2)`` subject to the linear constraints of a program.

    Constraints that are violated join the set of those that hold with equality, and those with a
    dual value of the wrong sign leave it, all at once (a primal-dual active set method).

    Parameters
    ----------
    weight
        Weights >= 0, shape (columns,).
    near
        A point to take the first set from, shape (columns,).
    tolerance
        Below this a share, what is left of a limit, or a dual value counts as zero.

    Returns
    -------
    x
        The minimum, all conditions of optimality met to 1e-10, or to `tolerance` if that is more;
        ``None`` if the sets do not settle or the program is too large for dense matrices.
    """
    A = program.A.tocsr()
    held = _held_at_zero(program, A)
    if np.count_nonzero(~held) > _MOST_COLUMNS:
        return None
    bound_row, bound_column, _ = rows_that_are_bounds(program)
    nonnegative = np.zeros(held.size, dtype=bool)
    nonnegative[bound_column] = True
    below = ~program.equality
    below[bound_row] = False
    equal = A[program.equality].toarray()[:, ~held]
    filled = np.abs(equal).max(axis=1, initial=0.0) > 0
    parts = _Parts(
        weight=weight[~held],
        equal=equal[filled],
        equal_to=program.b[program.equality][filled],
        below=A[below].toarray()[:, ~held],
        limit=program.b[below],
        nonnegative=nonnegative[~held],
    )
    found = _settle(parts, near[~held], tolerance)
    if found is None:
        return None
    x = np.zeros(held.size)
    x[~held] = found
    return x


def _held_at_zero(program: ConeProgram, A: sparse.csr_array) -> Bools:
    """Columns that an equality with one entry holds at zero."""
    single = (np.diff(A.indptr) == 1) & program.equality & (program.b == 0)
    entry = A.indptr[:-1][single]
    held = np.zeros(program.c.size, dtype=bool)
    held[A.indices[entry[A.data[entry] != 0]]] = True
    return held


def _settle(parts: _Parts, near: Floats, tolerance: float) -> Floats | None:
    """Change the active set until the conditions of optimality hold."""
    at_zero = parts.nonnegative & (near <= tolerance)
    tight = parts.limit - parts.below @ near <= tolerance
    for _ in range(_ROUNDS):
        x, dual = _solve_with(parts, at_zero, tight)
        if x is None:
            return None
        rows = np.vstack([parts.equal, parts.below[tight]])
        pull = parts.weight * x + rows.T @ dual
        slack = parts.limit - parts.below @ x
        price = np.zeros(tight.size)
        price[tight] = dual[parts.equal_to.size :]
        below_zero = parts.nonnegative & ~at_zero & (x < -tolerance)
        leaves_zero = at_zero & (pull < -tolerance)
        violated, loose = ~tight & (slack < -tolerance), tight & (price < -tolerance)
        if not (below_zero.any() or leaves_zero.any() or violated.any() or loose.any()):
            accepted = max(tolerance, _ACCEPTED)
            wrong = np.abs(rows @ x - np.append(parts.equal_to, parts.limit[tight]))
            off = np.abs(pull[~at_zero]).max(initial=0.0)
            return np.asarray(x) if max(wrong.max(initial=0.0), off) <= accepted else None
        at_zero = (at_zero | below_zero) & ~leaves_zero
        tight = (tight | violated) & ~loose
    return None


def _solve_with(parts: _Parts, at_zero: Bools, tight: Bools) -> tuple[Floats | None, Floats]:
    """Solve the optimality conditions for one active set: shares and dual values."""
    free = np.flatnonzero(~at_zero)
    rows = np.vstack([parts.equal, parts.below[tight]])[:, free]
    right = np.append(np.zeros(free.size), np.append(parts.equal_to, parts.limit[tight]))
    size, columns = right.size, free.size
    if not size:  # LAPACK would complain of it on the standard output
        return np.zeros(at_zero.size), right
    system = np.zeros((size, size))
    system[:columns, columns:], system[columns:, :columns] = rows.T, rows
    diagonal = np.arange(size)
    system[diagonal[:columns], diagonal[:columns]] = parts.weight[free]
    regular = system.copy()
    regular[diagonal[:columns], diagonal[:columns]] += _REGULAR
    regular[diagonal[columns:], diagonal[columns:]] -= _REGULAR
    factors, pivots, failed = lapack.dgetrf(regular)
    if failed:
        return None, right
    solution, _ = lapack.dgetrs(factors, pivots, right)
    for _ in range(3):
        step, _ = lapack.dgetrs(factors, pivots, right - system @ solution)
        solution = solution + step
    x = np.zeros(at_zero.size)
    x[free] = solution[:columns]
    return x, solution[columns:]
