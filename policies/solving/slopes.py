"""Slopes of affine expressions in some variables, read off their atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cvxpy as cp

    from apportion.types import Floats


def affine_in(
    expression: cp.Expression, *variables: cp.Expression
) -> tuple[list[Floats], float] | None:
    """Return the slopes of an expression in some variables, each of its shape, and the constant.

    ``None`` where it is of another kind, or in atoms of which nothing is known here. The adjoint
    of each atom on the way down to the variables is applied to the number 1.

    Parameters
    ----------
    expression
        A number.
    variables
        Variables of any shape; of products of matrices nothing is known here.
    """
    if expression.size != 1 or expression.parameters():
        return None
    slopes = [np.zeros(each.shape) for each in variables]
    constant = _spread(expression, np.ones(expression.shape), variables, slopes)
    return None if constant is None else (slopes, constant)


def _spread(
    expression: cp.Expression,
    by: Floats,
    variables: Sequence[cp.Expression],
    slopes: Sequence[Floats],
) -> float | None:
    """Add what the entries of an expression, times `by`, say of variables; return the constant."""
    for variable, slope in zip(variables, slopes, strict=True):
        if expression is variable:
            slope += by
            return 0.0
    if expression.is_constant():
        return float(np.ravel(by) @ np.ravel(expression.value))
    if not expression.args:
        return None
    first, *others = expression.args
    parts: list[tuple[cp.Expression, Floats]]
    if isinstance(expression, AddExpression):
        parts = [(each, by) for each in expression.args]
    elif isinstance(expression, Promote):
        parts = [(first, by.sum().reshape(first.shape))]
    elif isinstance(expression, NegExpression):
        parts = [(first, -by)]
    elif isinstance(expression, Sum) and expression.axis is None:
        parts = [(first, np.broadcast_to(by, first.shape))]
    elif isinstance(expression, DivExpression) and others[0].is_constant():
        parts = [(first, by / others[0].value)]
    elif isinstance(expression, multiply | MulExpression):
        factor, inner = (first, *others) if first.is_constant() else (*others, first)
        plain = isinstance(expression, multiply) or len(factor.shape) == len(inner.shape) == 1
        if not (plain and factor.is_constant()) or sparse.issparse(factor.value):
            return None
        parts = [(inner, by * factor.value)]
    else:
        return None
    if any(of_part.shape != part.shape for part, of_part in parts):
        return None
    constants = [_spread(*part, variables, slopes) for part in parts]
    return None if None in constants else float(sum(filter(None, constants)))
