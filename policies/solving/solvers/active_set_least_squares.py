"""A least sum of squares under linear constraints by active sets: exact where it succeeds.

The last choice of the second stage is a small quadratic program that differs little from the one
before. With a good guess of which constraints hold with equality it is one linear system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.linalg import splu

from apportion.policies.solving.cone import rows_that_are_bounds
from apportion.policies.solving.stages import made_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from apportion.policies.solving.cone import ConeProgram

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]
    Solver = Callable[[Floats], Floats]

__all__ = ["least_squares"]

_DENSE = 120
"""Columns above which matrices are sparse."""
_ROUNDS = 30
_ACCEPTED = 1e-10
"""What was let go comes back only if missed by more: constraints that repeat others are rounded."""
_REGULAR = 1e-11
"""Keeps the system regular where constraints repeat each other; refinement takes it out again."""


class _Parts(NamedTuple):
    """The program without columns that are held at zero, equalities and the others apart.

    Matrices are dense, or all of them compressed by rows.
    """

    weight: Floats
    equal: Any
    equal_to: Floats
    below: Any
    limit: Floats
    nonnegative: Bools

    def rows(self, tight: Bools) -> Any:
        """Return the rows that hold: the equalities, and some of the others."""
        if isinstance(self.equal, np.ndarray):
            return np.vstack([self.equal, self.below[tight]])
        return sparse.vstack([self.equal, self.below[np.flatnonzero(tight)]], format="csr")


@made_for()
def least_squares(
    program: ConeProgram,
    weight: Floats,
    near: Floats,
    dual: Floats | None = None,
    *,
    tolerance: float = 1e-12,
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
    dual
        Its dual values, shape (rows,), if it is inside: what has more dual value than slack is
        taken to hold. Otherwise it is what has no slack.
    tolerance
        Below this a share, what is left of a limit, or a dual value counts as zero.

    Returns
    -------
    x
        The minimum, all conditions of optimality met to 1e-10, or to `tolerance` if that is more;
        ``None`` if the sets do not settle.
    """
    A = program.A.tocsr()
    held = _held_at_zero(program, A)
    bound_row, bound_column, factor = rows_that_are_bounds(program)
    nonnegative = np.zeros(held.size, dtype=bool)
    nonnegative[bound_column] = True
    below = ~program.equality
    below[bound_row] = False
    free = np.flatnonzero(~held)
    parts = _parts(program, A, below, free, weight[free], nonnegative[free])
    slack = parts.limit - parts.below @ near[free]
    if dual is None:
        at_zero, tight = near <= tolerance, slack <= tolerance
    else:
        price = np.zeros(held.size)
        price[bound_column] = dual[bound_row] * factor
        at_zero, tight = price > near, dual[below] > slack
    found = _settle(parts, parts.nonnegative & at_zero[free], tight, tolerance)
    if found is None:
        return None
    x = np.zeros(held.size)
    x[free] = found
    return x


def _held_at_zero(program: ConeProgram, A: sparse.csr_array) -> Bools:
    """Columns that an equality with one entry holds at zero."""
    single = (np.diff(A.indptr) == 1) & program.equality & (program.b == 0)
    entry = A.indptr[:-1][single]
    held = np.zeros(program.c.size, dtype=bool)
    held[A.indices[entry[A.data[entry] != 0]]] = True
    return held


def _parts(
    program: ConeProgram,
    A: sparse.csr_array,
    below: Bools,
    free: Ints,
    weight: Floats,
    nonnegative: Bools,
) -> _Parts:
    """Take the columns that are free, and leave out equalities of which they leave nothing."""
    matrices: list[Any] = [A[rows][:, free] for rows in (program.equality, below)]
    if free.size <= _DENSE:
        matrices = [each.toarray() for each in matrices]
    equal, others = matrices
    filled = np.flatnonzero(abs(equal).sum(axis=1))
    equal_to = program.b[program.equality][filled]
    return _Parts(weight, equal[filled], equal_to, others, program.b[below], nonnegative)


def _settle(parts: _Parts, at_zero: Bools, tight: Bools, tolerance: float) -> Floats | None:
    """Change the active set until the conditions of optimality hold.

    What repeats other constraints may leave the set for its dual value, and be missed by a rounding
    error then. It does not come back for less than what is accepted.
    """
    accepted = max(tolerance, _ACCEPTED)
    missed = np.full(tight.size, tolerance)
    for _ in range(_ROUNDS):
        rows = parts.rows(tight)
        x, dual = _solve_with(parts, rows, at_zero, tight)
        if x is None:
            return None
        pull = parts.weight * x + rows.T @ dual
        slack = parts.limit - parts.below @ x
        price = np.zeros(tight.size)
        price[tight] = dual[parts.equal_to.size :]
        below_zero = parts.nonnegative & ~at_zero & (x < -tolerance)
        leaves_zero = at_zero & (pull < -tolerance)
        violated, loose = ~tight & (slack < -missed), tight & (price < -tolerance)
        if not (below_zero.any() or leaves_zero.any() or violated.any() or loose.any()):
            wrong = np.abs(rows @ x - np.append(parts.equal_to, parts.limit[tight]))
            off = np.abs(pull[~at_zero]).max(initial=0.0)
            return np.asarray(x) if max(wrong.max(initial=0.0), off) <= accepted else None
        at_zero = (at_zero | below_zero) & ~leaves_zero
        tight = (tight | violated) & ~loose
        missed[loose] = accepted
    return None


def _solve_with(
    parts: _Parts, rows: Any, at_zero: Bools, tight: Bools
) -> tuple[Floats | None, Floats]:
    """Solve the optimality conditions for one active set: shares and dual values."""
    free = np.flatnonzero(~at_zero)
    right = np.append(np.zeros(free.size), np.append(parts.equal_to, parts.limit[tight]))
    size, columns = right.size, free.size
    if not size:  # LAPACK would complain of it on the standard output
        return np.zeros(at_zero.size), right
    weight, cells = parts.weight[free], rows[:, free]
    dense = isinstance(rows, np.ndarray)
    if not (dense or columns):
        return None, right
    system, solve = _dense(weight, cells) if dense else _compressed(weight, cells)
    if solve is None:
        return None, right
    solution = solve(right)
    for _ in range(3):
        solution = solution + solve(right - system @ solution)
    x = np.zeros(at_zero.size)
    x[free] = solution[:columns]
    return x, solution[columns:]


def _dense(weight: Floats, rows: Any) -> tuple[Any, Solver | None]:
    """Factor the conditions: their matrix, and a function that nearly solves them."""
    size, columns = weight.size + rows.shape[0], weight.size
    system = np.zeros((size, size))
    system[:columns, columns:], system[columns:, :columns] = rows.T, rows
    diagonal = np.arange(size)
    system[diagonal[:columns], diagonal[:columns]] = weight
    regular = system.copy()
    regular[diagonal[:columns], diagonal[:columns]] += _REGULAR
    regular[diagonal[columns:], diagonal[columns:]] -= _REGULAR
    factors, pivots, failed = lapack.dgetrf(regular)
    solver = None if failed else lambda right: lapack.dgetrs(factors, pivots, right)[0]
    return system, solver


def _compressed(weight: Floats, rows: Any) -> tuple[Any, Solver | None]:
    """Factor the conditions where most of their numbers are zero."""
    system = sparse.block_array([[sparse.diags_array(weight), rows.T], [rows, None]], format="csc")
    sign = np.append(np.full(weight.size, _REGULAR), np.full(rows.shape[0], -_REGULAR))
    try:
        factors = splu(system + sparse.diags_array(sign, format="csc"))
    except RuntimeError:  # a pivot that rounding made zero
        return system, None
    return system, factors.solve
