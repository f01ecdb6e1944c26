"""Objectives that are affine in the throughputs of the jobs, read off their expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression

if TYPE_CHECKING:
    import cvxpy as cp

    from apportion.types import Floats


def affine_in(expression: cp.Expression, u: cp.Expression) -> tuple[Floats, float] | None:
    """Return ``slope`` and ``constant`` of an expression ``slope @ u + constant``.

    ``None`` where it is of another kind, or in atoms of which nothing is known here. The adjoint
    of each atom on the way down to ``u`` is applied to the number 1.

    Parameters
    ----------
    expression
        A number.
    u
        A variable of shape (n,).
    """
    if expression.size != 1 or expression.parameters():
        return None
    found = np.zeros(u.size + 1)
    return (found[:-1], float(found[-1])) if _spread(expression, np.ones(1), u, found) else None


def _spread(expression: cp.Expression, by: Floats, u: cp.Expression, found: Floats) -> bool:
    """Add what the entries of an expression, times `by`, say of u; tell whether that is all."""
    if expression.size != by.size:
        return False
    if expression is u:
        found[:-1] += by
        return True
    if expression.is_constant():
        found[-1] += by @ np.ravel(expression.value)
        return True
    if not expression.args or any(len(each.shape) > 1 for each in expression.args):
        return False
    first, *others = expression.args
    if isinstance(expression, AddExpression):
        return all(_spread(each, by, u, found) for each in expression.args)
    if isinstance(expression, Promote):
        return _spread(first, by.sum(keepdims=True), u, found)
    if isinstance(expression, NegExpression):
        return _spread(first, -by, u, found)
    if isinstance(expression, Sum):
        return _spread(first, np.broadcast_to(by, (first.size,)), u, found)
    if isinstance(expression, DivExpression) and others[0].is_constant():
        return _spread(first, by / np.ravel(others[0].value), u, found)
    if isinstance(expression, multiply | MulExpression):
        factor, inner = (first, *others) if first.is_constant() else (*others, first)
        known = factor.is_constant()
        return known and _spread(inner, by * np.ravel(factor.value), u, found)
    return False
