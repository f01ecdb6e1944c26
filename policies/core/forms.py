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

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import DivExpression
from cvxpy.constraints import Inequality

from apportion.checks import choice
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
    offset: Floats = field(default_factory=lambda: np.zeros(1))
    maximise: bool = True
    constant: float = 0.0
    price: Floats | None = None
    limits: tuple[tuple[Floats, float], ...] = ()
    inexact: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that are none, or of which there is not one for each job."""
        choice("kind of Form", self.kind, ("level", "inverse", "gain", "log", "ratio"))
        k, offset = _numbers(self.k), _numbers(self.offset)
        price = None if self.price is None else _numbers(self.price)
        positive = self.kind in ("level", "inverse", "log")
        if k.ndim != 1 or not np.isfinite(k).all() or (positive and not (k > 0).all()):
            which = "numbers above 0" if positive else "finite numbers"
            raise InputError(f"k of Form.{self.kind} must be {which}, one for each job.")
        if not (np.isfinite(offset).all() and (offset >= 0).all() and offset.size in (1, k.size)):
            raise InputError(
                "offset of Form.inverse must be finite numbers >= 0, one for each job."
            )
        if _numbers(self.constant).ndim or not np.isfinite(_numbers(self.constant)):
            raise InputError(f"constant of a Form must be a finite number; it is {self.constant}.")
        if price is not None and (price.ndim != 2 or not np.isfinite(price).all()):
            raise InputError("price of Form.ratio must be finite numbers, of each row and option.")
        object.__setattr__(self, "offset", np.broadcast_to(offset, k.shape) + 0.0)

    @classmethod
    def level(cls, k: ArrayLike) -> Form:
        """Maximise the least of ``k u``; k > 0."""
        return cls("level", _numbers(k))

    @classmethod
    def inverse(cls, k: ArrayLike, offset: ArrayLike = 0.0) -> Form:
        """Minimise the largest of ``offset + k / u``; k > 0, offset >= 0."""
        return cls("inverse", _numbers(k), _numbers(offset), maximise=False)

    @classmethod
    def gain(cls, k: ArrayLike, constant: float = 0.0) -> Form:
        """Maximise ``k @ u + constant``."""
        return cls("gain", _numbers(k), constant=constant)

    @classmethod
    def log(cls, k: ArrayLike, constant: float = 0.0) -> Form:
        """Maximise ``k @ log(u) + constant``; k > 0."""
        return cls("log", _numbers(k), constant=constant)

    @classmethod
    def ratio(cls, k: ArrayLike, price: ArrayLike) -> Form:
        """Maximise ``k @ u / sum(price * X)``; price of shape (rows, options)."""
        return cls("ratio", _numbers(k), price=_numbers(price))

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


def _numbers(numbers: Any) -> Floats:
    """Return numbers as an array; NaN for what is none."""
    try:
        return np.asarray(numbers, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)


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
        if not isinstance(form, Form) or form.k.shape != (p.instance.jobs,):
            raise InputError(
                f"form(p) of {policy!r} must return a Form with one number for each job."
            )
        return form
    goal = policy.objective(p)
    if not isinstance(goal, cp.Maximize | cp.Minimize):
        return None  # who solves it as it stands says what is wrong
    with np.errstate(all="ignore"):
        try:
            return _read_off(goal.args[0], isinstance(goal, cp.Maximize), p)
        except InputError:  # numbers that no form has
            return None


def _read_off(e: cp.Expression, up: bool, p: SpeedProblem) -> Form | None:
    """Read numbers off an expression, evaluated at two throughputs, and compare at a third."""
    u, jobs = p.throughput, p.instance.jobs
    if isinstance(e, DivExpression) and not e.args[1].is_constant():
        return _ratio(e.args[0], e.args[1], p) if up else None
    if [each.id for each in e.variables()] != [u.id]:
        return None
    curved = [each for each in e.atoms() if not issubclass(each, AffAtom)]
    if e.is_affine():
        sign = 1.0 if up else -1.0
        constant = float(_at(e, u, np.zeros(jobs)))  # a gradient is one at some point
        return replace(Form.gain(sign * _slope(e, u), sign * constant), maximise=up)
    unit = p.instance.fastest_throughput
    # Not in proportion, or a logarithm of a sum would pass for a sum of logarithms.
    x, other = np.random.default_rng(0).uniform(0.2, 1.0, (2, jobs)) * unit
    if isinstance(e, cp.min if up else cp.max) and e.args[0].shape == u.shape:
        each, rest = e.args[0], [atom for atom in curved if atom is not type(e)]
        if up and not rest:
            k = _at(each, u, np.ones(jobs))
            return Form.level(k) if _same(_at(each, u, x), k * x) else None
        if up or any(atom is not _INVERSE for atom in rest):
            return None
        one, two = _at(each, u, unit), _at(each, u, 2 * unit)
        k = 2 * (one - two)
        offset = np.where(one - k > 1e-13 * one, one - k, 0.0)
        form = Form.inverse(k * unit, offset)
        return form if _same(_at(each, u, x), offset + form.k / x) else None
    if not up or any(atom is not cp.log for atom in curved):
        return None
    value = float(_at(e, u, x))
    k = _slope(e, u) * x
    _at(e, u, other)
    form = Form.log(k, value - float(k @ np.log(x)))
    return form if _same(_slope(e, u) * other, k) else None


def _ratio(made: cp.Expression, paid: cp.Expression, p: SpeedProblem) -> Form | None:
    variables = [[each.id for each in side.variables()] for side in (made, paid)]
    if variables != [[p.throughput.id], [p.X.id]] or not (made.is_affine() and paid.is_affine()):
        return None
    if _at(made, p.throughput, np.zeros(p.instance.jobs)) or _at(paid, p.X, np.zeros(p.X.shape)):
        return None
    price = _slope(paid, p.X).reshape(p.X.shape, order="F")
    return Form.ratio(_slope(made, p.throughput), price)


def _at(e: cp.Expression, variable: cp.Variable, value: Floats) -> Floats:
    variable.save_value(value)
    return np.asarray(e.value, dtype=float)


def _same(there: Floats, expected: Floats) -> bool:
    return np.allclose(there, expected, rtol=_SAME, atol=0.0)


def _slope(e: cp.Expression, variable: cp.Variable) -> Floats:
    """Return the gradient of an expression, (entries of the variable, entries of it), flat."""
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
    most = np.ravel(high.value - _at(low, p.X, np.zeros(p.X.shape)), order="F")
    amounts = _slope(low, p.X).reshape((p.X.size, most.size), order="F").T
    if not ((amounts >= 0).all() and (most > 0).all() and np.isfinite(most).all()):
        return None
    shape = p.X.shape
    return [
        (amount.reshape(shape, order="F"), float(bound))
        for amount, bound in zip(amounts, most, strict=True)
    ]
