"""A least sum of squares under linear constraints by active sets: exact where it succeeds.

The last choice of the second stage is a small quadratic program that differs little from the one
before. With a good guess of which constraints hold with equality it is one linear system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.linalg import splu

from apportion.policies.solving.cone import rows_that_are_bounds
from apportion.policies.solving.stages import made_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.solving.cone import ConeProgram
    from apportion.types import Bools, Floats, Ints


_ROUNDS = 30
_ACCEPTED = 1e-10
"""What was let go comes back only if missed by more: constraints that repeat others are rounded."""
_ROUNDED = 1e-15
"""Residual of rounding errors alone, beside numbers around 1."""
_REGULAR = 1e-11
"""Keeps the system regular where constraints repeat each other; refinement takes it out again."""
_FEW = 96
"""Equations up to which a full matrix is quicker to factor than a sparse one (measured)."""


class _Parts(NamedTuple):
    """The program without columns that equalities determine: equalities first, then other rows.

    Attributes
    ----------
    weight, nonnegative
        Of each column, shape (columns,).
    limit
        Right-hand side of each row, shape (rows,).
    equalities
        How many of the rows are.
    row, column, value
        The entries of the matrix, shape (entries,) each.
    """

    weight: Floats
    nonnegative: Bools
    limit: Floats
    equalities: int
    row: Ints
    column: Ints
    value: Floats

    @property
    def system(self) -> tuple[Ints, Ints, Floats]:
        """The conditions of optimality, all columns and rows active, as a symmetric matrix.

        Columns come before rows; row, column and value of each entry, in the order of columns.
        """
        columns, rows = self.weight.size, self.limit.size
        every, of_row = np.arange(columns + rows), self.row + columns
        row = np.concatenate([every, of_row, self.column])
        column = np.concatenate([every, self.column, of_row])
        diagonal = np.append(self.weight + _REGULAR, np.full(rows, -_REGULAR))
        order = np.lexsort((row, column))
        return row[order], column[order], np.concatenate([diagonal, self.value, self.value])[order]

    def of_rows(self, x: Floats) -> Floats:
        """Multiply the matrix by x."""
        size = self.limit.size
        return np.bincount(self.row, self.value * x[self.column], minlength=size).astype(float)

    def of_columns(self, y: Floats) -> Floats:
        """Multiply the transposed matrix by y."""
        size = self.weight.size
        return np.bincount(self.column, self.value * y[self.row], minlength=size).astype(float)


@made_for()
def least_squares(
    program: ConeProgram,
    weight: Floats,
    near: Floats,
    dual: Floats | None = None,
    *,
    tolerance: float = 1e-12,
    known: Ints | None = None,
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
    known
        Columns in which all points that meet the constraints are as near is.

    Returns
    -------
    x
        The minimum, all conditions of optimality met to 1e-10, or to `tolerance` if that is more;
        ``None`` if the sets do not settle.
    """
    bound_row, bound_column, factor = rows_that_are_bounds(program)
    bounds = np.zeros(program.b.size, dtype=bool)
    bounds[bound_row] = True
    nonnegative = np.zeros(program.c.size, dtype=bool)
    nonnegative[bound_column] = True
    x, free = np.zeros(program.c.size), np.ones(program.c.size, dtype=bool)
    if known is not None:
        x[known], free[known] = near[known], False
    left = _parts(program, weight, nonnegative, bounds, x, free)
    if left is None:
        return None
    parts, equal, below = left
    slack = (parts.limit - parts.of_rows(near[free]))[parts.equalities :]
    if dual is None:
        at_zero, tight = near <= tolerance, slack <= tolerance
    else:
        price = np.zeros(free.size)
        price[bound_column] = dual[bound_row] * factor
        at_zero, tight = price > near, dual[below] > slack
    guess = None if dual is None else np.append(dual[equal], dual[below])
    found = _settle(parts, parts.nonnegative & at_zero[free], tight, tolerance, guess)
    if found is None:
        return None
    x[free] = found
    return x


def _parts(
    program: ConeProgram,
    weight: Floats,
    nonnegative: Bools,
    bounds: Bools,
    x: Floats,
    free: Bools,
) -> tuple[_Parts, Ints, Ints] | None:
    """Determine columns that are the last ones of an equality, and leave them out.

    Parameters
    ----------
    weight, nonnegative
        Of each column, shape (columns,).
    bounds
        Rows that are bounds of columns, shape (rows,).
    x, free
        What is known of the columns, and which are not known, shape (columns,): both are changed.

    Returns
    -------
    parts
        What is left.
    equal, below
        Places of its equalities, and of the inequalities, which are no bounds.
    ``None`` where the columns that are known miss a constraint.
    """
    A, equality = program.A, program.equality
    filled = A.data != 0
    column = np.repeat(np.arange(weight.size), np.diff(A.indptr))[filled]
    row, value = A.indices[filled], np.asarray(A.data[filled], dtype=float)
    unused = equality.copy()
    while True:
        left = program.b - np.bincount(row, value * x[column], equality.size)
        inside = free[column]
        last = inside & unused[row]
        last &= (np.bincount(row[last], minlength=equality.size) == 1)[row]
        if not last.any():
            break
        x[column[last]] = left[row[last]] / value[last] + 0.0
        free[column[last]] = unused[row[last]] = False
    of_row = np.bincount(row[inside], minlength=equality.size)
    missed = np.where(equality, np.abs(left), -left)[of_row == 0].max(initial=0.0)
    below_zero = x.min(where=nonnegative, initial=0.0)
    if max(missed, -below_zero) > _ACCEPTED:
        return None
    equal, below = (np.flatnonzero(each & (of_row > 0)) for each in (equality, ~equality & ~bounds))
    kept = np.append(equal, below)
    place = np.full(equality.size, -1)
    place[kept] = np.arange(kept.size)
    inside &= place[row] >= 0
    of_free = np.cumsum(free) - 1
    parts = _Parts(
        weight[free],
        nonnegative[free],
        left[kept],
        equal.size,
        place[row[inside]],
        of_free[column[inside]],
        value[inside],
    )
    return parts, equal, below


def _settle(
    parts: _Parts, at_zero: Bools, tight: Bools, tolerance: float, guess: Floats | None
) -> Floats | None:
    """Change the active set until the conditions of optimality hold.

    What repeats other constraints may leave the set for its dual value, and be missed by a rounding
    error then. It does not come back for less than what is accepted.
    """
    accepted, first, system = max(tolerance, _ACCEPTED), parts.equalities, parts.system
    missed = np.full(tight.size, tolerance)
    for _ in range(_ROUNDS):
        holds = np.append(np.ones(first, dtype=bool), tight)
        found = _solve_with(parts, system, at_zero, holds, guess)
        if found is None:
            return None
        x, dual = found
        pull = parts.weight * x + parts.of_columns(dual)
        left = parts.limit - parts.of_rows(x)
        slack, price = left[first:], dual[first:]
        below_zero = parts.nonnegative & ~at_zero & (x < -tolerance)
        leaves_zero = at_zero & (pull < -tolerance)
        violated, loose = ~tight & (slack < -missed), tight & (price < -tolerance)
        if not (below_zero.any() or leaves_zero.any() or violated.any() or loose.any()):
            wrong = np.abs(left[holds]).max(initial=0.0)
            off = np.abs(pull[~at_zero]).max(initial=0.0)
            return x if max(wrong, off) <= accepted else None
        at_zero = (at_zero | below_zero) & ~leaves_zero
        tight = (tight | violated) & ~loose
        missed[loose] = accepted
    return None


def _solve_with(
    parts: _Parts,
    system: tuple[Ints, Ints, Floats],
    at_zero: Bools,
    holds: Bools,
    guess: Floats | None,
) -> tuple[Floats, Floats] | None:
    """Solve the optimality conditions of columns and rows that are active: shares, dual values.

    Where there are several, the dual values are those next to a guess, or to zero.
    """
    x, dual = np.zeros(at_zero.size), np.zeros(holds.size)
    free = ~at_zero
    active = np.append(free, holds)
    columns, size = int(np.count_nonzero(free)), int(np.count_nonzero(active))
    if not columns:
        return None if size else (x, dual)
    row, column, value = system
    inside = active[row] & active[column]
    place = np.cumsum(active) - 1
    row, column, value = place[row[inside]], place[column[inside]], value[inside]
    factors = _factored(row, column, value, size)
    if factors is None:
        return None
    right, solution = np.append(np.zeros(columns), parts.limit[holds]), np.zeros(size)
    if guess is not None:
        solution[columns:] = guess[holds]
    sign = np.repeat([_REGULAR, -_REGULAR], [columns, size - columns])
    for _ in range(4):
        made = np.bincount(row, value * solution[column], minlength=size)
        rest = right - (made - sign * solution)
        if np.abs(rest).max() <= _ROUNDED:
            break
        solution = solution + factors(rest)
    x[free], dual[holds] = solution[:columns], solution[columns:]
    return x, dual


def _factored(
    row: Ints, column: Ints, value: Floats, size: int
) -> Callable[[Floats], Floats] | None:
    """Return what solves a square system given by its entries in the order of columns."""
    if size <= _FEW:
        full = np.zeros((size, size))
        full[row, column] = value
        factor, solve = lapack.dgetrf, lapack.dgetrs  # pyright: ignore[reportAttributeAccessIssue]
        both, pivots, failed = factor(full)
        return None if failed else lambda right: solve(both, pivots, right)[0]
    starts = np.searchsorted(column, np.arange(size + 1)).astype(np.int32)
    entries = value, row.astype(np.int32), starts
    try:
        factors = splu(sparse.csc_array(entries, shape=(size, size)), permc_spec="MMD_AT_PLUS_A")
    except RuntimeError:  # a pivot that rounding made zero
        return None
    return factors.solve
