"""What is solved for a declared problem: what its objective demands, read off its expression.

The objective is stated over a throughput that is a variable by itself, one number u for each job,
and its expression is taken apart: no author has to say of what kind it is.

* The least over jobs of ``k u``, or the largest of ``a + k / u``, is about the worst off job. It
  can be solved for u at any level (`Levels`). ``min over X of max over jobs of k / u``, as the
  makespan is, is posed over its inverse, which is linear: ``max over X of min over jobs of u / k``.
* One affine expression over another becomes a linear program too (`ratio`).
* All else is solved as it stands.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, multiply
from cvxpy.atoms.affine.unary_operators import NegExpression

from apportion.errors import InputError
from apportion.policies.base import form_of
from apportion.policies.problem import Problem
from apportion.policies.solving.earlier import constraints_of
from apportion.policies.solving.ratio import Bargains, affine_in, over_scale
from apportion.policies.solving.worst_off.declared_levels import Levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.base import Policy
    from apportion.policies.core.forms import Form
    from apportion.policies.instance import Instance
    from apportion.types import Floats

    Objective: TypeAlias = cp.Maximize | cp.Minimize


class SpeedProblem(Problem):
    """A `Problem` in which the throughput is a variable by itself, not a sum over X."""

    @cached_property
    def throughput(self) -> cp.Expression:
        """Steps/s of each job, shape (jobs,)."""
        return cp.Variable(self.instance.jobs, name="throughput")


class Gains(NamedTuple):
    """An objective ``slope @ throughput + constant``.

    Attributes
    ----------
    slope
        Per step/s of each job, shape (jobs,).
    maximised
        Whether more is better.
    """

    slope: Floats
    constant: float
    maximised: bool


class ReadOff(NamedTuple):
    """What was read off the objective of a policy, ``None`` where it is of another kind.

    Attributes
    ----------
    policy
        The policy.
    levels
        Of the worst off job.
    ratio
        Whether it is one expression over another.
    gains
        What throughputs add, if it is affine in them; none where a policy has constraints or
        variables of its own.
    bargains
        What it weighs, if it is a ratio of sums and nothing else.
    exact
        Whether all of its numbers are certain, see `Problem.inexact`.
    """

    policy: Policy
    levels: Levels | None
    ratio: bool
    gains: Gains | None
    bargains: Bargains | None
    exact: bool


_FOUND: WeakKeyDictionary[Instance, ReadOff] = WeakKeyDictionary()


def levels_of(policy: Policy, instance: Instance) -> Levels | None:
    """Return the levels of a policy; ``None`` if its objective is of another kind."""
    return read_off(policy, instance).levels


def has_earlier(policy: Policy) -> bool:
    """Whether objectives of a policy count before its last one."""
    return hasattr(policy, "earlier_objectives")


def read_off(policy: Policy, instance: Instance) -> ReadOff:
    """Take an objective apart, once for each instance, with which what was found is kept."""
    known = _FOUND.get(instance)
    if known is None or known.policy is not policy:
        p = SpeedProblem(instance)
        form = form_of(policy, p)
        if form is not None and (read := _of_form(policy, form, p)):
            known = _FOUND[instance] = read
            return known
        objective = policy.objective(p)
        fits = isinstance(objective, cp.Maximize | cp.Minimize)  # what is not, cvxpy refuses
        value = objective.args[0] if fits else objective
        ratio = isinstance(value, DivExpression) and not value.args[1].is_constant()
        levels = _levels(policy, p, objective) if fits and not ratio else None
        plain = fits and not levels and not has_earlier(policy)
        found = _linear(policy, p, objective, ratio) if plain else None
        gains = found if isinstance(found, Gains) else None
        bargains = found if isinstance(found, Bargains) else None
        known = _FOUND[instance] = ReadOff(policy, levels, ratio, gains, bargains, not p.inexact)
    return known


def _of_form(policy: Policy, form: Form, p: SpeedProblem) -> ReadOff | None:
    """Return what a policy says in numbers; ``None`` where its expression has to be read."""
    if form.kind in ("level", "inverse"):
        offset = form.offset if hasattr(form, "offset") else form.a
        numbers = _Form(form.k, offset, inverse=form.kind == "inverse")
        levels = _levels(policy, p, None, numbers)
        return levels and ReadOff(policy, levels, False, None, None, not p.inexact)
    if has_earlier(policy) or policy.constraints(p) or p.variables:
        return None
    gains = Gains(form.k, form.constant, form.maximise) if form.kind == "gain" else None
    bargains = None
    if form.price is not None and p.instance.solo and not p.inexact:
        bargains = Bargains(form.k[:, None] * p.instance.throughput, form.price, form.maximise)
    if gains is None and bargains is None:
        return None
    return ReadOff(policy, None, bargains is not None, gains, bargains, not p.inexact)


def _linear(
    policy: Policy, p: SpeedProblem, objective: Objective, ratio: bool
) -> Gains | Bargains | None:
    """Read an objective that is affine in the throughputs, or a ratio of sums, and nothing else."""
    if ratio:
        read: Gains | Bargains | None = Bargains.of(objective, p)
    else:
        found = affine_in(objective.args[0], p.throughput)
        maximised = isinstance(objective, cp.Maximize)
        read = None if found is None else Gains(found[0][0], found[1], maximised)
    return None if read is None or policy.constraints(p) or p.variables else read


def _levels(
    policy: Policy, p: Problem, objective: Objective | None, form: _Form | None = None
) -> Levels | None:
    """Take the least or the largest of an expression apart, or a form that a policy tells."""
    if objective is not None:
        worst = objective.args[0]
        least = isinstance(objective, cp.Maximize) and isinstance(worst, cp.min)
        largest = isinstance(objective, cp.Minimize) and isinstance(worst, cp.max)
        if not (least or largest) or objective.parameters():
            return None
        form = _form(worst.args[0], p.throughput)
        form = None if form is None or form.inverse is least else form
    if form is None:
        return None
    factor, offset = np.zeros((2, p.instance.jobs))
    factor[:], offset[:] = form.factor, form.offset
    fits = (factor > 0) & np.isfinite(factor) & (offset >= 0) & np.isfinite(offset)
    # With an offset t times the throughput would improve the level more than t-fold, or less.
    if not fits.all() or (offset.any() and not form.inverse):
        return None
    constrained = has_earlier(policy) or bool(policy.constraints(p))
    return Levels(factor, offset, form.inverse, constrained, not offset.any())


def is_of_each(expression: cp.Expression, u: cp.Expression) -> bool:
    """Whether an expression is ``offset + factor * u``, entry by entry."""
    form = _form(expression, u)
    return form is not None and not form.inverse


class _Form(NamedTuple):
    """An expression ``offset + factor * u``, or ``offset + factor / u``, entry by entry."""

    factor: Any
    offset: Any
    inverse: bool


def _form(expression: cp.Expression, u: cp.Expression) -> _Form | None:
    """Read an elementwise expression in u; ``None`` where it is of another form."""
    if expression is u:
        return _Form(1.0, 0.0, inverse=False)
    inner: list[cp.Expression] = []
    constants: list[cp.Expression] = []
    for arg in expression.args:
        (constants if arg.is_constant() else inner).append(arg)
    if len(inner) != 1 or inner[0].shape != u.shape:
        return None
    form = _form(inner[0], u)
    if form is None:
        return None
    if isinstance(expression, AddExpression):
        return form._replace(offset=form.offset + sum(each.value for each in constants))
    if isinstance(expression, NegExpression):
        return form._replace(factor=-form.factor, offset=-form.offset)
    if isinstance(expression, multiply):
        by = constants[0].value
        return form._replace(factor=by * form.factor, offset=by * form.offset)
    if isinstance(expression, DivExpression) and expression.args[1].is_constant():
        by = constants[0].value
        return form._replace(factor=form.factor / by, offset=form.offset / by)
    if _inverts(expression) and not form.inverse and not np.any(form.offset):
        return _Form(1 / form.factor, 0.0, inverse=True)
    return None


def _inverts(expression: cp.Expression) -> bool:
    """Whether an expression is one over another."""
    if not isinstance(expression, _POWER):
        return False
    power = expression.p
    return float(getattr(power, "value", power)) == -1.0


_POWER: Any = type(cp.inv_pos(cp.Variable()))
"""The class of powers, whose name is another in other versions of cvxpy."""


class Posed(NamedTuple):
    """An objective and constraints over the expressions of a problem."""

    p: Problem
    objective: Objective
    constraints: Sequence[cp.Constraint]


def pose(policy: Policy, instance: Instance) -> Posed:
    """State a policy's problem as it is solved."""
    fractional = read_off(policy, instance).ratio
    p = Problem(instance, fractional=fractional)
    stated = policy.constraints(p)
    if has_earlier(policy):
        stated = constraints_of(policy, p)
    if fractional:
        return Posed(p, *over_scale(policy, p, stated))
    posed = Posed(p, posed_objective(policy, p), stated)
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
    """Turn a posed optimal value into that of the declared problem, and give the slope there."""
    return declared(levels_of(policy, instance), value)


def declared(levels: Levels | None, value: float) -> tuple[float, float]:
    """Turn a posed value of an objective, of levels or another, into that which is declared.

    Where a solver leaves a job without any throughput the declared value is infinite, and nothing
    that prices would say is known.
    """
    if levels is None or not (levels.proportional and levels.inverse):
        return value, 1.0
    return (1 / value, 1 / value**2) if value > 0 else (np.inf, 0.0)


def fills_further(policy: Policy) -> bool:
    """Whether no optimum of the objective is enough, as levels beyond the first count too."""
    return bool(getattr(policy, "lexicographic", False))
