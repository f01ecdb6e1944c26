"""The Hungarian method: a solver for linear programs whose vertices are bipartite matchings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import multiply
from cvxpy.constraints import Equality, Inequality

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Matched(NamedTuple):
    """Rows and columns of the ones of M."""

    row: NDArray[np.intp]
    column: NDArray[np.intp]


def whole_vertex(declared: cp.Problem) -> Matched:
    """Solve ``min sum(C * M)``, M >= 0, whose rows sum to 1 and columns to 1 at most.

    The vertices of such a program are whole (Birkhoff), and the Hungarian method finds the best. C
    is read off the expression: nothing is compiled, which takes longer than to solve it.

    Raises
    ------
    ValueError
        If the program is of another form.
    """
    from scipy.optimize import linear_sum_assignment  # few solves need it

    goal, limits = declared.objective, {type(each): each for each in declared.constraints}
    product = goal.args[0].args[0] if isinstance(goal.args[0], cp.Sum) else goal.args[0]
    if not (isinstance(goal, cp.Minimize) and isinstance(product, multiply)):
        raise ValueError(f"{goal} is no least sum of C * M.")
    cost, M = product.args
    by_rows, by_columns = (_sums_to_one(limits.get(kind), M) for kind in (Equality, Inequality))
    if (by_rows, by_columns, len(declared.constraints)) != (1, 0, 2) or not M.is_nonneg():
        raise ValueError("The constraints do not say that M is a matching.")
    return Matched(*linear_sum_assignment(cost.value))


def _sums_to_one(limit: cp.Constraint | None, M: cp.Expression) -> int | None:
    """Return the axis along which a constraint compares sums of M with 1, if it does."""
    if limit is None:
        return None
    side, one = limit.args
    compares = isinstance(side, cp.Sum) and side.args[0] is M and np.all(one.value == 1)
    return side.axis if compares else None
