"""What is solved for a declared problem: the same, or one of the same optimum that is linear.

* ``min over X of max over jobs of k / u``, as the makespan is, is posed over its inverse:
  ``max over X of min over jobs of u / k``.
* ``max over X of N(X) / D(X)``, N and D affine, is posed over ``Y = X * scale`` with ``D = 1``
  (Charnes and Cooper, 1962): every number that is no coefficient of X is multiplied by the scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.constraints import Equality, Inequality

from apportion.errors import InputError
from apportion.policies.problem import Problem
from apportion.policies.solving.worst_off.declared_levels import (
    SpeedProblem,
    is_of_each,
    is_ratio,
    levels_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.rows.declared_floors import DeclaredFloors

    Floats = NDArray[np.float64]
    Objective: TypeAlias = cp.Maximize | cp.Minimize

__all__ = [
    "Posed",
    "pose",
    "posed_objective",
    "posed_value",
    "reported",
    "staying_optimal",
]

_HAIR = 1e-12
"""By how much, relatively, throughputs that are the same in every optimum may give way."""


@dataclass(frozen=True, eq=False)
class Posed:
    """An objective and constraints over the expressions of a problem."""

    p: Problem
    objective: Objective
    constraints: Sequence[cp.Constraint]


def pose(policy: Policy, instance: Instance, floors: DeclaredFloors | None = None) -> Posed:
    """State a policy's problem as it is solved, with `floors` in place of its constraints."""
    stated = policy.constraints if floors is None else floors.constraints
    if is_ratio(policy, instance):
        return _over_scale(policy, instance, stated)
    p = Problem(instance)
    posed = Posed(p, posed_objective(policy, p), stated(p))
    for name, own in p.variables.items():
        if own.boolean:
            raise InputError(
                f"{policy!r} asks for the boolean variable {name!r}, which only a policy with "
                f"integral = True can have."
            )
    return posed


def posed_objective(policy: Policy, p: Problem) -> Objective:
    """State the objective of a policy, or its inverse where that is linear."""
    levels = levels_of(policy, p.instance)
    if levels is None or not (levels.proportional and levels.inverse):
        return policy.objective(p)
    return cp.Maximize(cp.min(cp.multiply(1 / levels.rate, p.throughput)))


def posed_value(policy: Policy, p: Problem) -> float:
    """Evaluate what is posed for a policy about the worst off job, where the variables are."""
    return float(np.asarray(posed_objective(policy, p).args[0].value).item())


def reported(policy: Policy, instance: Instance, value: float) -> tuple[float, float]:
    """Turn a posed optimal value into that of the declared problem, and give the slope there.

    Where a solver leaves a job without any throughput the declared value is infinite, and nothing
    that prices would say is known.
    """
    levels = levels_of(policy, instance)
    if levels is None or not (levels.proportional and levels.inverse):
        return value, 1.0
    return (1 / value, 1 / value**2) if value > 0 else (np.inf, 0.0)


def _over_scale(
    policy: Policy, instance: Instance, stated: Callable[[Problem], Sequence[cp.Constraint]]
) -> Posed:
    """Pose a ratio over ``Y = X * scale``."""
    p = Problem(instance, fractional=True)
    declared = policy.objective(p)
    ratio, constraints = declared.args[0], stated(p)
    numerator, denominator = ratio.args
    if not (numerator.is_affine() and denominator.is_affine()):
        raise InputError(
            f"The objective of {policy!r} is a ratio: both its sides must be affine in X."
        )
    one = (_homogeneous(denominator, p.scale) == 1).set_label("denominator = 1")
    return Posed(
        p,
        type(declared)(_homogeneous(numerator, p.scale)),
        [one, *(_over(constraint, p.scale, policy) for constraint in constraints)],
    )


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


def staying_optimal(policy: Policy, p: Problem, value: float) -> list[cp.Constraint] | None:
    """State linear constraints under which an objective that is none is no worse than `value`.

    The variables hold the values of an optimum. ``None`` where the objective is neither about the
    worst off job nor a sum of logarithms of throughputs, which are then the same in every optimum.
    """
    levels = levels_of(policy, p.instance)
    if levels is not None:
        return [p.throughput >= levels.demand(value)]
    if _sums_logarithms(policy, p.instance):
        return [p.throughput >= (1 - _HAIR) * np.asarray(p.throughput.value)]
    return None


def _sums_logarithms(policy: Policy, instance: Instance) -> bool:
    """Whether an objective is a sum of logarithms of throughputs and nothing else."""
    p = SpeedProblem(instance)
    objective = policy.objective(p)
    if any(variable is not p.throughput for variable in objective.variables()):
        return False
    return _of_logarithms(objective.args[0], p.throughput)


def _of_logarithms(expression: cp.Expression, throughput: cp.Expression) -> bool:
    """Whether an expression is affine in logarithms, each of what one job makes."""
    if isinstance(expression, cp.log):
        return is_of_each(expression.args[0], throughput)
    if expression.is_constant():
        return True
    return isinstance(expression, AffAtom) and all(
        _of_logarithms(each, throughput) for each in expression.args
    )
