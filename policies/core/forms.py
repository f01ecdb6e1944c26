"""What an objective is, in numbers: read off its expression, or returned by the policy itself.

With ``u`` the throughputs of jobs (steps/s) an objective is solved by the core if it has one form:

========  ===================================  =========
level     min over jobs of ``k u``             maximised
inverse   max over jobs of ``offset + k / u``  minimised
gain      ``k @ u + constant``                 either
log       ``k @ log(u) + constant``            maximised
ratio     ``k @ u / sum(price * X)``           maximised
========  ===================================  =========

The expression stays the definition. It is evaluated at two throughputs, and compared at a third.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import DivExpression
from cvxpy.constraints import Inequality

from apportion.errors import InputError
from apportion.policies.base import earlier_objectives, form_of
from apportion.policies.problem import Problem

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.types import Floats, Ints

_SAME = 1e-9
"""Relative distance of values that are the same but for rounding."""
_MOST_LIMITS = 8
"""Upper bounds of a policy's own that are taken as resources, at most."""
_INVERSE: Any = type(cp.inv_pos(cp.Variable()))
"""The class of powers, whose name differs between versions of cvxpy."""


class SpeedProblem(Problem):
    """A `Problem` whose throughput is a variable by itself, so that objectives can be read off."""

    @cached_property
    def throughput(self) -> cp.Expression:
        """Steps/s of each job, shape (jobs,)."""
        return cp.Variable(self.instance.jobs, name="throughput")


@dataclass(frozen=True, eq=False)
class Form:
    """An objective in numbers; see the table of this module.

    A policy may return one from ``form(p)`` beside its objective, made by `level`, `inverse`,
    `gain`, `log` or `ratio`. Entries of `k` count all jobs of a class where they are summed.

    Attributes
    ----------
    kind
        "level", "inverse", "gain", "log" or "ratio".
    k, offset
        Numbers of each job, shape (jobs,).
    maximise
        Whether more is better.
    constant
        What is added to a sum.
    price
        Denominator of a ratio, shape (rows, options).
    limits
        Upper bounds of the policy on ``sum(amount * X)``: pairs of amount, shape (rows, options),
        and the bound.
    inexact
        Certified relative error of the numbers, see `Problem.inexact`.
    """

    kind: str
    k: Floats
    offset: Floats
    maximise: bool = True
    constant: float = 0.0
    price: Floats | None = None
    limits: tuple[tuple[Floats, float], ...] = ()
    inexact: float = 0.0

    @classmethod
    def level(cls, k: ArrayLike) -> Form:
        """Maximise the least of ``k u``; k > 0."""
        return cls("level", _positive("level", k), np.zeros(np.size(k)))

    @classmethod
    def inverse(cls, k: ArrayLike, offset: ArrayLike = 0.0) -> Form:
        """Minimise the largest of ``offset + k / u``; k > 0, offset >= 0."""
        factor = _positive("inverse", k)
        added = _finite(offset)
        if not (np.isfinite(added).all() and (added >= 0).all() and added.size in (1, factor.size)):
            raise InputError(
                "offset of Form.inverse must be finite numbers >= 0, one for each job."
            )
        added = np.broadcast_to(added, factor.shape)
        return cls("inverse", factor, added + 0.0, maximise=False)

    @classmethod
    def gain(cls, k: ArrayLike, constant: float = 0.0) -> Form:
        """Maximise ``k @ u + constant``."""
        return cls("gain", _numbers("gain", k), np.zeros(np.size(k)), constant=_constant(constant))

    @classmethod
    def log(cls, k: ArrayLike, constant: float = 0.0) -> Form:
        """Maximise ``k @ log(u) + constant``; k > 0."""
        return cls("log", _positive("log", k), np.zeros(np.size(k)), constant=_constant(constant))

    @classmethod
    def ratio(cls, k: ArrayLike, price: Floats) -> Form:
        """Maximise ``k @ u / sum(price * X)``; price of shape (rows, options)."""
        prices = _finite(price)
        if prices.ndim != 2 or not np.isfinite(prices).all():
            raise InputError("price of Form.ratio must be finite numbers, of each row and option.")
        return cls("ratio", _numbers("ratio", k), np.zeros(np.size(k)), price=prices)

    @property
    def about_worst(self) -> bool:
        """Whether the objective is about the job that is worst off."""
        return self.kind in ("level", "inverse")

    def demand(self, t: float) -> tuple[Floats, Floats]:
        """Return the steps/s that each job needs at a level, and their derivative by the level.

        The level of an inverse form is minus its value, so that more is better.
        """
        if self.kind == "level":
            return t / self.k, 1.0 / self.k
        left = np.maximum(-t - self.offset, 1e-100)
        return self.k / left, self.k / left**2

    def level_of(self, u: Floats) -> float:
        """Return the level of throughputs."""
        if self.kind == "level":
            return float((self.k * u).min())
        return -float((self.offset + self.k / np.maximum(u, 1e-300)).max())

    def value(self, u: Floats, X: Floats) -> float:
        """Return the objective of throughputs and shares as it is stated."""
        if self.about_worst:
            return self.level_of(u) if self.maximise else -self.level_of(u)
        if self.kind == "log":
            return float(self.k @ np.log(np.maximum(u, 1e-300))) + self.constant
        total = float(self.k @ u) + self.constant
        if self.price is not None:
            return total / float((self.price * X).sum())
        return total if self.maximise else -total

    def reordered(self, rows: Ints, options: Ints) -> Form:
        """Return the form of jobs and options in another order, or of some of them."""
        price = self.price
        if price is not None:
            price = price[np.ix_(rows, options)]
        return replace(self, k=self.k[rows], offset=self.offset[rows], price=price)


def _finite(numbers: ArrayLike) -> Floats:
    """Return numbers as an array; NaN for what is none."""
    try:
        return np.asarray(numbers, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)


def _constant(number: float) -> float:
    if _finite(number).ndim or not np.isfinite(_finite(number)):
        raise InputError(f"constant of a Form must be a finite number; it is {number!r}.")
    return float(number)


def _numbers(kind: str, k: ArrayLike) -> Floats:
    numbers = _finite(k)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise InputError(f"k of Form.{kind} must be finite numbers, one for each job.")
    return numbers


def _positive(kind: str, k: ArrayLike) -> Floats:
    numbers = _numbers(kind, k)
    if not (numbers > 0).all():
        raise InputError(f"k of Form.{kind} must be numbers above 0, one for each job.")
    return numbers


def read(policy: Policy, instance: Instance) -> Form | None:
    """Return the form of a policy's problem; ``None`` where it has none of them.

    Constraints of the policy are part of it if each is one upper bound on a sum over X.
    """
    p = SpeedProblem(instance)
    if earlier_objectives(policy, p):
        return None
    limits: list[tuple[Floats, float]] = []
    for each in policy.constraints(p):
        if (found := _upper_bounds(each, p)) is None:
            return None
        limits += found
    form = stated_form(policy, p)
    if form is None or p.variables or len(limits) > _MOST_LIMITS:
        return None
    return replace(form, limits=tuple(limits), inexact=p.inexact)


def stated_form(policy: Policy, p: SpeedProblem) -> Form | None:
    """Return the form that a policy returns itself, or read it off the expression.

    A subclass that states another objective without a form is read off.
    """
    if (form := form_of(policy, p)) is not None:
        return _checked(form, policy, p)
    goal = policy.objective(p)
    if not isinstance(goal, cp.Maximize | cp.Minimize):
        return None  # who solves it as it stands says what is wrong
    up, e = isinstance(goal, cp.Maximize), goal.args[0]
    if isinstance(e, DivExpression) and not e.args[1].is_constant():
        return _ratio(e, p) if up else None
    if [each.id for each in e.variables()] != [p.throughput.id]:
        return None
    curved = [each for each in e.atoms() if not issubclass(each, AffAtom)]
    with np.errstate(all="ignore"):
        if e.is_affine():
            return _gain(e, up, p)
        if isinstance(e, cp.min if up else cp.max) and e.args[0].shape == p.throughput.shape:
            rest = [each for each in curved if each is not type(e)]
            if all(each is _INVERSE for each in rest):
                return _inverse(e.args[0], p) if rest else _level(e.args[0], up, p)
        elif up and all(each is cp.log for each in curved):
            return _log(e, p)
    return None


def _checked(form: Form, policy: Policy, p: Problem) -> Form:
    if not isinstance(form, Form) or form.k.shape != (p.instance.jobs,):
        raise InputError(f"form(p) of {policy!r} must return a Form with one number for each job.")
    return form


def _at(e: cp.Expression, p: SpeedProblem, u: Floats) -> Floats:
    p.throughput.save_value(u)
    return np.asarray(e.value, dtype=float)


def _third(instance: Instance, seed: int = 0) -> Floats:
    """Return throughputs at which what was read is compared with the expression.

    Those of two seeds are not in proportion, or a logarithm of a sum would pass for a sum of them.
    """
    drawn = np.random.default_rng(seed).uniform(0.2, 1.0, instance.jobs)
    return np.asarray(instance.fastest_throughput * drawn)


def _fits(there: Floats, expected: Floats, k: Floats) -> bool:
    return bool(np.isfinite(k).all() and np.allclose(there, expected, rtol=_SAME, atol=0.0))


def _level(e: cp.Expression, up: bool, p: SpeedProblem) -> Form | None:
    k, x = _at(e, p, np.ones(p.instance.jobs)), _third(p.instance)
    fits = up and _fits(_at(e, p, x), k * x, k) and (k > 0).all()
    return Form.level(k) if fits else None


def _inverse(e: cp.Expression, p: SpeedProblem) -> Form | None:
    unit, x = np.maximum(p.instance.fastest_throughput, 1e-300), _third(p.instance)
    one, two = _at(e, p, unit), _at(e, p, 2 * unit)
    k = 2 * (one - two)
    offset = np.where(one - k > 1e-13 * one, one - k, 0.0)
    fits = _fits(_at(e, p, x), offset + k * unit / x, k) and (k > 0).all()
    return Form.inverse(k * unit, offset) if fits else None


def _gain(e: cp.Expression, up: bool, p: SpeedProblem) -> Form | None:
    sign = 1.0 if up else -1.0
    constant, k = float(_at(e, p, np.zeros(p.instance.jobs))), _slope(e, p.throughput)
    if not np.isfinite([constant, *k]).all():
        return None
    return replace(Form.gain(sign * k, sign * constant), maximise=up)


def _log(e: cp.Expression, p: SpeedProblem) -> Form | None:
    x = _third(p.instance)
    value = float(_at(e, p, x))
    k = _slope(e, p.throughput) * x
    other = _third(p.instance, 1)
    _at(e, p, other)
    fits = _fits(_slope(e, p.throughput) * other, k, k) and (k > 0).all()
    return Form.log(k, value - float(k @ np.log(x))) if fits else None


def _ratio(e: cp.Expression, p: SpeedProblem) -> Form | None:
    made, paid = e.args
    variables = [[each.id for each in side.variables()] for side in e.args]
    if variables != [[p.throughput.id], [p.X.id]] or not (made.is_affine() and paid.is_affine()):
        return None
    p.X.save_value(np.zeros(p.X.shape))
    if float(_at(made, p, np.zeros(p.instance.jobs))) or float(paid.value):
        return None
    price = _slope(paid, p.X).reshape(p.X.shape, order="F")
    return Form.ratio(_slope(made, p.throughput), price) if np.isfinite(price).all() else None


def _slope(e: cp.Expression, variable: cp.Variable) -> Floats:
    """Return the gradient of an expression, the entries of the variable first."""
    gradient = e.grad[variable]
    dense = gradient.toarray() if hasattr(gradient, "toarray") else gradient
    return np.asarray(dense, dtype=float).ravel(order="F")


def _upper_bounds(constraint: Any, p: Problem) -> list[tuple[Floats, float]] | None:
    """Return amounts and bounds of a constraint on sums over X; ``None`` for another one."""
    if not isinstance(constraint, Inequality) or constraint.size > _MOST_LIMITS:
        return None
    low, high = constraint.args
    if not (low.is_affine() and high.is_constant() and [v.id for v in low.variables()] == [p.X.id]):
        return None
    p.X.save_value(np.zeros(p.X.shape))
    most = np.ravel(high.value - np.asarray(low.value, dtype=float), order="F")
    gradient = low.grad[p.X]
    dense = np.asarray(
        gradient.toarray() if hasattr(gradient, "toarray") else gradient, dtype=float
    )
    amounts = dense.reshape(p.X.size, most.size)
    if not ((amounts >= 0).all() and (most > 0).all() and np.isfinite(most).all()):
        return None
    return [
        (amount.reshape(p.X.shape, order="F"), float(bound))
        for amount, bound in zip(amounts.T, most, strict=True)
    ]
