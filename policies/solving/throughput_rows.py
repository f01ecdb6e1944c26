"""Programs of objectives about the throughputs alone, without the core of cvxpy: the same numbers.

Most policies are an affine expression of the throughputs, or the least or largest entry of one.
What each cell of X adds to it is the speed in that cell times what stands above it, read off the
expression from the inside out, in the order in which the core multiplies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression
from scipy import sparse

from apportion.policies.solving.cone import ConeProgram, among_limits

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

    Floats = NDArray[np.float64]
    Objective: TypeAlias = cp.Maximize | cp.Minimize

__all__ = ["program_of_throughputs"]


def program_of_throughputs(objective: Objective, p: Problem) -> ConeProgram | None:
    """Compile an objective about throughputs alone under the limits that all policies share.

    ``None`` for any other one, and where jobs share devices or a ratio is maximised: see
    `apportion.policies.solving.cone.straight`.
    """
    minimised, goal = isinstance(objective, cp.Minimize), objective.args[0]
    if not p.instance.solo or isinstance(p.scale, cp.Variable) or p.variables:
        return None
    worst = isinstance(goal, cp.max if minimised else cp.min) and goal.axis is None
    found = _rows(goal.args[0] if worst else goal, p)
    if found is None or found.each is not worst:
        return None
    sign, size = 1 if minimised else -1, p.X.size
    jobs, width = (p.instance.jobs if worst else 0), size + worst
    c, offset, cells = np.zeros(width), 0.0, sign * found.cells.ravel(order="F")
    b = sign * (0.0 - found.constant) + 0.0
    if worst:  # rows ``sign * e <= t``, t the first column
        c[0] = 1.0
        row = np.tile(np.arange(jobs, dtype=np.int32), 1 + p.instance.options)
        starts = np.append(0, jobs + np.arange(size + 1)).astype(np.int32)
        entries = np.append(np.full(jobs, -1.0), cells), row, starts
        A = sparse.csc_array(entries, shape=(jobs, width))
    else:
        c, offset, b = cells, -float(b[0]), b[:0]
        A = sparse.csc_array((0, width))
    equality, P = np.zeros(jobs, dtype=bool), sparse.csc_array((width, width))
    columns = {p.X.id: int(worst)}
    return among_limits(ConeProgram(P, c, A, b, equality, offset, 1.0, columns, {}), p, jobs)


class _Rows(NamedTuple):
    """An affine expression of the throughputs.

    Attributes
    ----------
    cells
        What each cell of X adds to it, shape (jobs, options).
    constant
        What is added, shape (jobs,), or (1,) for one number.
    each
        Whether it is a number for each job, of its cells alone, or one, of all cells.
    """

    cells: Floats
    constant: Floats
    each: bool


def _rows(expression: cp.Expression, p: Problem) -> _Rows | None:
    """Read an expression from the inside out; ``None`` in atoms of which nothing is known here."""
    if expression is p.throughput:
        return _Rows(p.instance.throughput, np.zeros(p.instance.jobs), each=True)
    if not isinstance(expression, AddExpression | MulExpression | NegExpression | Sum):
        return None  # products entry by entry, and quotients, are cases of MulExpression
    inner = [each for each in expression.args if not each.is_constant()]
    others = [each for each in expression.args if each.is_constant()]
    if len(inner) != 1 or any(each.parameters() for each in others):
        return None
    found = _rows(inner[0], p)
    if found is None:
        return None
    if isinstance(expression, Sum):
        return found._replace(constant=found.constant.sum(keepdims=True), each=False)
    if isinstance(expression, NegExpression):
        return found._replace(cells=-found.cells, constant=-found.constant)
    if any(sparse.issparse(each.value) or each.is_complex() for each in others):
        return None
    values = [np.ravel(np.asarray(each.value, dtype=float)) for each in others]
    if any(value.size != found.constant.size for value in values):
        return None
    if isinstance(expression, AddExpression):
        return found._replace(constant=sum(values, start=found.constant))
    (by,) = values
    if isinstance(expression, DivExpression):
        if expression.args[0] is not inner[0]:
            return None
        by = 1.0 / by
    cells, constant = by[:, None] * found.cells, by * found.constant
    if found.each and not isinstance(expression, multiply):  # a row by a column
        if expression.args[0] is not others[0] or expression.size != 1:
            return None
        return _Rows(cells, constant.sum(keepdims=True), each=False)
    return _Rows(cells, constant, found.each)
