"""What a policy about the worst off job demands at a level, read off its declared objective.

The objective is stated over a throughput that is a variable by itself, one number u for each job,
and its expression is taken apart: the least over jobs of ``k u``, or the largest of ``a + k / u``.
Each can be solved for u at any level, so that no author has to say what a level demands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, multiply
from cvxpy.atoms.affine.unary_operators import NegExpression

from apportion.policies.problem import Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance

    Floats = NDArray[np.float64]

__all__ = ["Levels", "SpeedProblem", "is_of_each", "is_ratio", "levels_of"]


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels of the jobs by their throughput u, of which the worst one is the objective.

    Either ``factor * u``, the least of which is maximised, or ``offset + factor / u``, the largest
    of which is minimised. Without offsets the second kind is posed over its inverse, ``u /
    factor``, and so is a linear program too; a level is then one of the inverse.

    Attributes
    ----------
    factor, offset
        Coefficients of each job, ``factor > 0`` and ``offset >= 0``, shape (jobs,).
    inverse
        Whether it is the second kind.
    constrained
        Whether the policy has constraints of its own, which no level knows of.
    """

    factor: Floats
    offset: Floats
    inverse: bool
    constrained: bool

    @cached_property
    def proportional(self) -> bool:
        """Whether what is demanded is in proportion to the level."""
        return not self.offset.any()

    @property
    def maximised(self) -> bool:
        """Whether a level is better the larger it is."""
        return self.proportional

    @cached_property
    def rate(self) -> Floats:
        """Steps/s that each job must make per unit of a level that demands in proportion."""
        return self.factor if self.inverse else 1 / self.factor

    def level(self, throughput: Floats) -> float:
        """Return the level of the worst job at some throughputs, shape (jobs,)."""
        if self.proportional:
            return float((throughput / self.rate).min())
        with np.errstate(divide="ignore"):
            return float((self.offset + self.factor / throughput).max())

    def demand(self, level: float) -> Floats:
        """Return the steps/s that each job must make for no level to be worse than `level`.

        Infinite where no throughput is enough. The demands shrink as the level gets worse, to
        nothing, and t times the demands improve it at most t-fold.
        """
        if self.proportional:
            return level * self.rate
        left = level - self.offset
        return np.divide(self.factor, left, out=np.full_like(left, np.inf), where=left > 0)


class SpeedProblem(Problem):
    """A `Problem` in which the throughput is a variable by itself, not a sum over X."""

    @cached_property
    def throughput(self) -> cp.Expression:
        """Steps/s of each job, shape (jobs,)."""
        return cp.Variable(self.instance.jobs, name="throughput")


class _Read(NamedTuple):
    """What was read off the objective of a policy."""

    policy: Policy
    levels: Levels | None
    ratio: bool


_FOUND: WeakKeyDictionary[Instance, _Read] = WeakKeyDictionary()


def levels_of(policy: Policy, instance: Instance) -> Levels | None:
    """Return the levels of a policy on an instance; ``None`` if its objective is of another kind.

    Derived once for each instance and kept with it.
    """
    return _read(policy, instance).levels


def is_ratio(policy: Policy, instance: Instance) -> bool:
    """Whether the objective of a policy is one expression over another."""
    return _read(policy, instance).ratio


def _read(policy: Policy, instance: Instance) -> _Read:
    """Look up what is known of an objective, or take it apart."""
    known = _FOUND.get(instance)
    if known is None or known.policy is not policy:
        p = SpeedProblem(instance)
        objective = policy.objective(p)
        stated = isinstance(objective, cp.Maximize | cp.Minimize)  # what is not, cvxpy refuses
        value = objective.args[0] if stated else objective
        ratio = isinstance(value, DivExpression) and not value.args[1].is_constant()
        levels = _levels(policy, p, objective) if stated and not ratio else None
        known = _FOUND[instance] = _Read(policy, levels, ratio)
    return known


def _levels(policy: Policy, p: SpeedProblem, objective: cp.Maximize | cp.Minimize) -> Levels | None:
    """Take the least or the largest of an expression apart."""
    worst = objective.args[0]
    least = isinstance(objective, cp.Maximize) and isinstance(worst, cp.min)
    largest = isinstance(objective, cp.Minimize) and isinstance(worst, cp.max)
    if not (least or largest) or objective.parameters():
        return None
    form = _form(worst.args[0], p.throughput)
    if form is None or form.inverse is least:
        return None
    factor, offset = (np.broadcast_to(part, p.throughput.shape).astype(float) for part in form[:2])
    if not ((factor > 0) & np.isfinite(factor) & (offset >= 0) & np.isfinite(offset)).all():
        return None
    if least and offset.any():
        return None  # t times the throughput would improve the level more than t-fold, or less
    return Levels(factor, offset, form.inverse, constrained=bool(policy.constraints(p)))


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
    inner = [arg for arg in expression.args if not arg.is_constant()]
    if len(inner) != 1 or inner[0].shape != u.shape:
        return None
    form = _form(inner[0], u)
    if form is None:
        return None
    constants = [arg.value for arg in expression.args if arg.is_constant()]
    if isinstance(expression, AddExpression):
        return form._replace(offset=form.offset + sum(constants))
    if isinstance(expression, NegExpression):
        return form._replace(factor=-form.factor, offset=-form.offset)
    if isinstance(expression, multiply):
        (by,) = constants
        return form._replace(factor=by * form.factor, offset=by * form.offset)
    if isinstance(expression, DivExpression) and expression.args[1].is_constant():
        (by,) = constants
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
