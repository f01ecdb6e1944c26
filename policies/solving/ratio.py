"""Slopes of affine expressions, and a ratio of two of these: a linear program, or a rule.

``max over X of N(X) / D(X)``, N and D affine, is posed over ``Y = X * scale`` with ``D = 1``
(Charnes and Cooper, 1962): every number that is no coefficient of X is multiplied by the scale.
Where N and D are sums over single jobs the best bargains are shared by a rule (`at_best_bargains`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.constraints import Equality, Inequality
from scipy import sparse

from apportion.errors import InputError
from apportion.policies.solution import Attempted
from apportion.policies.solving.certificate import relative_gap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.problem import Problem
    from apportion.types import Bools, Floats


_SAME, _OTHER = 1e-13, 1e-9
"""Part of a number by which another one that is the same may differ, and by which others do."""


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


class Bargains(NamedTuple):
    """A ratio of sums over X, without constants: what a cell adds, and what that costs.

    The ratio of two sums lies between the ratios of their summands, so that it is best where jobs
    run under nothing but the best bargains.

    Attributes
    ----------
    adds, costs
        Of all the time of a job under an option, shape (jobs, options).
    maximised
        Whether more is better.
    """

    adds: Floats
    costs: Floats
    maximised: bool

    @classmethod
    def of(cls, objective: cp.Maximize | cp.Minimize, p: Problem) -> Bargains | None:
        """Read them off a ratio of which `p` has the variables; ``None`` if it is another one."""
        sides = [affine_in(side, p.throughput, p.X) for side in objective.args[0].args]
        sums = [found[0] for found in sides if found is not None and found[1] == 0]
        if len(sums) < 2 or p.inexact or not p.instance.solo:
            return None
        speed = p.instance.throughput
        adds, costs = (of_speed[:, None] * speed + of_time for of_speed, of_time in sums)
        return cls(adds, costs, isinstance(objective, cp.Maximize))

    def attempted(self, told: Instance, X: Floats, best: float, stats: Any) -> Attempted:
        """Return shares beside the best ratio that there is; more GPUs would not make it better."""
        objective = float((self.adds * X).sum() / (self.costs * X).sum())
        prices = np.zeros(told.capacity.size)
        return Attempted(X, objective, relative_gap(objective, best), prices, stats)


def at_best_bargains(told: Instance, found: Bargains) -> Attempted | None:
    """Spend most on the best bargains, then most evenly, where nothing but GPUs limits jobs.

    ``None`` where that takes a program.
    """
    alone = told.own_usage is None and told.hard.size == told.capacity.size
    known = best_of(told, found) if alone else None
    X = None if known is None else _shared_evenly(told, known[0], found.costs)
    if known is None or X is None:
        return None
    return found.attempted(told, X, known[1], {"solver": "bargains", "changed": 0})


def best_of(told: Instance, found: Bargains) -> tuple[Bools, float] | None:
    """Return the cells with the best ratio, and that ratio, which no allocation is better than.

    ``None`` where no job runs, something costs nothing, a ratio is nearly as good, or one on a type
    without GPUs no worse: that type has a price.
    """
    able = told.throughput > 0
    runs = able & (told.capacity > 0)[told.option_accelerator]
    if not runs.any() or not (found.costs[able] > 0).all():
        return None
    sign = 1.0 if found.maximised else -1.0
    ratio = np.divide(sign * found.adds, found.costs, out=np.full(able.shape, -np.inf), where=able)
    best = float(ratio[runs].max())
    behind = (best - ratio) / (abs(best) or 1.0)
    chosen = runs & (behind <= _SAME)
    if ((behind < _OTHER) & ~chosen).any():
        return None
    return chosen, sign * best


def _shared_evenly(told: Instance, best: Bools, costs: Floats) -> Floats | None:
    """Share the best bargains as the second stage does: spend most, then most evenly.

    Where each job has one, and a GPU of a type costs all alike, what is spent is the GPUs held: all
    of a type, or as many as its jobs can hold. The least sum of ``GPUs * X**2`` such that ``sum of
    GPUs * X`` is a constant has one X for all, so each has ``min(1, GPUs of the type / GPUs asked
    for)`` of its time.

    Returns
    -------
    X
        Shares of time, shape (jobs, options); ``None`` where there is more to choose.
    """
    job, option = np.nonzero(best)
    kind, gpus = told.option_accelerator[option], told.gpus[job, option] * told.count[job]
    if (np.diff(job) == 0).any() or not (gpus > 0).all():
        return None
    each, dearest = costs[job, option] / gpus, np.zeros(told.capacity.size)
    np.maximum.at(dearest, kind, each)
    if (each < (1 - _SAME) * dearest[kind]).any():
        return None
    asked = np.bincount(kind, gpus, told.capacity.size)[kind]
    X = np.zeros(best.shape)
    X[job, option] = np.minimum(1.0, told.capacity[kind] / asked)
    return X


def over_scale(
    policy: Policy, p: Problem, stated: Sequence[cp.Constraint]
) -> tuple[cp.Maximize | cp.Minimize, list[cp.Constraint]]:
    """Pose a ratio, and the constraints stated, over ``Y = X * scale`` of a fractional problem."""
    declared = policy.objective(p)
    numerator, denominator = declared.args[0].args
    if not (numerator.is_affine() and denominator.is_affine()):
        raise InputError(
            f"The objective of {policy!r} is a ratio: both its sides must be affine in X."
        )
    one = (_homogeneous(denominator, p.scale) == 1).set_label("denominator = 1")
    objective = type(declared)(_homogeneous(numerator, p.scale))
    return objective, [one, *(_over(constraint, p.scale, policy) for constraint in stated)]


def _over(constraint: cp.Constraint, scale: cp.Variable, policy: Policy) -> cp.Constraint:
    """Multiply what is no coefficient of X in a constraint by the scale."""
    linear = isinstance(constraint, Equality | Inequality)
    if not (linear and all(side.is_affine() for side in constraint.args)):
        raise InputError(
            f"The objective of {policy!r} is a ratio: its constraints must be affine in X; "
            f"{constraint.label or constraint} is not."
        )
    low, high = (_homogeneous(side, scale) for side in constraint.args)
    posed = low == high if isinstance(constraint, Equality) else low <= high
    return posed.set_label(constraint.label) if constraint.label else posed


def _homogeneous(affine: cp.Expression, scale: cp.Variable) -> cp.Expression:
    """Multiply the constant part of an affine expression by the scale."""
    if not _adds_constants(affine):
        return affine
    constant = _constant_part(affine)
    if affine.is_constant():
        return cp.multiply(constant, scale)
    return affine + cp.multiply(constant, scale - 1)


def _adds_constants(affine: cp.Expression) -> bool:
    """Whether an affine expression has constants beside its coefficients."""
    if affine.is_constant():
        return True
    constants = [arg for arg in affine.args if arg.is_constant()]
    if constants and not isinstance(affine, multiply | MulExpression | DivExpression):
        return True
    return any(_adds_constants(arg) for arg in affine.args if not arg.is_constant())


def _constant_part(affine: cp.Expression) -> Floats:
    """Value of an expression where all its variables are zero."""
    values = [(variable, variable.value) for variable in affine.variables()]
    for variable, _ in values:
        variable.value = np.zeros(variable.shape)
    constant = np.asarray(affine.value, dtype=float)
    for variable, value in values:
        variable.value = value
    return constant
