"""Read what a policy states in cvxpy: what the worst off job has, a sum, logarithms, or a ratio."""
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import DivExpression

from apportion.policies.problem import Problem


class SpeedProblem(Problem):
    """A problem in which throughputs are variables of their own, so that one can read them off."""

    @cached_property
    def throughput(self):
        """Steps/s of each job."""
        return cp.Variable(self.instance.jobs, name="throughput")


@dataclass
class Form:
    """An objective over the speeds u of jobs (steps/s), in numbers.

    An author may return one from ``form(p)`` beside the expression, which stays the definition.
    Each is made by the constructor of its kind: ``Form.level(k)`` is the least ``k u``,
    ``Form.inverse(k, offset)`` the largest ``offset + k / u``, ``Form.gain(k)`` is ``k @ u``,
    ``Form.log(k)`` is ``k @ log(u)``, and ``Form.ratio(k, price)`` is ``k @ u`` over the sum of
    ``price * X``. `k` counts all jobs of a class.
    """

    kind: str
    k: np.ndarray
    a: np.ndarray
    maximise: bool = True
    constant: float = 0.0
    price: np.ndarray | None = None
    limits: tuple = ()

    @classmethod
    def level(cls, k):
        """Return the least over jobs of ``k u``, to be maximised; k shape (jobs,)."""
        return cls("level", np.asarray(k, float), np.zeros(len(k)))

    @classmethod
    def inverse(cls, k, offset=0.0):
        """Return the largest over jobs of ``offset + k / u``, to be minimised."""
        return cls("inverse", np.asarray(k, float), np.broadcast_to(offset, len(k)) + 0.0, False)

    @classmethod
    def gain(cls, k, constant=0.0):
        """Return ``k @ u + constant``, to be maximised."""
        return cls("gain", np.asarray(k, float), np.zeros(len(k)), constant=constant)

    @classmethod
    def log(cls, k, constant=0.0):
        """Return ``k @ log(u) + constant``, to be maximised."""
        return cls("log", np.asarray(k, float), np.zeros(len(k)), constant=constant)

    @classmethod
    def ratio(cls, k, price):
        """Return ``k @ u / sum(price * X)``, to be maximised; price shape (rows, options)."""
        return cls("ratio", np.asarray(k, float), np.zeros(len(k)), price=price)

    def demand(self, t):
        """Return speeds with which the level is t (an inverse one: -t), and how fast they rise."""
        if self.kind == "level":
            return t / self.k, 1.0 / self.k
        left = np.maximum(-t - self.a, 1e-100)
        return self.k / left, self.k / left**2

    def level_of(self, u):
        """Return the level t of speeds."""
        if self.kind == "level":
            return float((self.k * u).min())
        return -float((self.a + self.k / np.maximum(u, 1e-300)).max())

    def value(self, u, X=None):
        """Return the objective as stated."""
        if self.kind in ("level", "inverse"):
            return self.level_of(u) * (1 if self.kind == "level" else -1)
        if self.kind == "log":
            return float(self.k @ np.log(u)) + self.constant
        total = float(self.k @ u) + self.constant
        return total / float((self.price * X).sum()) if self.kind == "ratio" else (total if self.maximise else -total)


def read(policy, instance):
    """Read an objective off at a few throughputs; ``None`` where it is of another form."""
    if hasattr(policy, "earlier_objectives") and policy.earlier_objectives(SpeedProblem(instance)):
        return None
    p = SpeedProblem(instance)
    if (told := _told(policy, p)) is not None:
        return told
    goal, limits = policy.objective(p), []
    for each in policy.constraints(p):
        if (limit := _resource(each, p)) is None:
            return None
        limits.append(limit)
    if p.variables:
        return None
    u, e, up = p.throughput, goal.args[0], isinstance(goal, cp.Maximize)
    n = instance.jobs
    zero = np.zeros(n)
    ratio = isinstance(e, DivExpression) and not e.args[1].is_constant()
    worst = isinstance(e, cp.min if up else cp.max)
    if ratio and up and all(side.is_affine() for side in e.args):
        made, paid = e.args
        u.save_value(zero)
        p.X.save_value(np.zeros(p.X.shape))
        constants = (float(made.value), float(paid.value))
        price = _slope(paid, p.X).reshape(p.X.shape, order="F")
        if any(constants) or [v.id for v in paid.variables()] != [p.X.id] or [v.id for v in made.variables()] != [u.id]:
            return None
        return Form("ratio", _slope(made, u), zero, price=price, limits=tuple(limits))
    if [v.id for v in e.variables()] != [u.id]:
        return None
    if worst:
        e = e.args[0]
        if e.shape != (n,):
            return None

    def at(x):
        u.save_value(x)
        return np.broadcast_to(np.asarray(e.value, float), (n,) if worst else ())

    x = instance.fastest_throughput * np.random.default_rng(0).uniform(0.5, 1.0, n)
    if worst and up:
        k = at(np.ones(n))
        form = Form("level", k, zero)
        guess = k * x
    elif worst:
        unit = np.maximum(instance.fastest_throughput, 1e-300)
        one, two = at(unit), at(2 * unit)
        k = 2 * (one - two)
        a = np.where(one - k > 1e-13 * one, one - k, 0.0)
        form = Form("inverse", k * unit, a, False)
        guess = a + k * unit / x
    elif e.is_affine():
        base = at(zero)
        k = _slope(e, u)
        form = Form("gain", k if up else -k, zero, up, float(base) * (1 if up else -1))
        guess = base + k @ x
    elif up:
        at(x)
        k = _slope(e, u) * x
        form = Form("log", k, zero, constant=float(at(x) - k @ np.log(x)))
        x = x[::-1] + x
        guess = k @ np.log(x) + form.constant
    else:
        return None
    form.limits = tuple(limits)
    fits = np.allclose(at(x), guess, rtol=1e-9) and np.isfinite(form.k).all() and (worst is False or (form.k > 0).all())
    return form if fits else None


def _told(policy, p):
    """Return what a policy says in numbers beside its inherited objective: quicker than to read it."""
    kind = {base.__name__: base for base in type(policy).__mro__}
    stated = type(policy).objective
    n = p.instance.jobs
    if "WeightedThroughput" in kind and stated is kind["WeightedThroughput"].objective:
        form = Form("gain", p.count * np.asarray(policy.gain(p), float), np.zeros(n))
    elif "SlowestJob" in kind and stated is kind["SlowestJob"].objective:
        a, k = policy.slowness(p)
        form = Form("inverse", np.broadcast_to(k, (n,)) + 0.0, np.broadcast_to(a, (n,)) + 0.0, False)
    else:
        return None
    plain = not (policy.constraints(p) or p.variables) and np.isfinite(form.k).all() and (form.kind == "gain" or (form.k > 0).all())
    return form if plain else None


def _slope(e, variable):
    """Return the gradient of an affine (or smooth) scalar expression."""
    grad = e.grad[variable]
    return np.asarray(grad.toarray() if hasattr(grad, "toarray") else grad, float).ravel()


def _resource(constraint, p):
    """Return amounts of the cells of X and their most, if a constraint is a resource."""
    if type(constraint).__name__ != "Inequality" or constraint.size != 1:
        return None
    low, high = constraint.args
    if not (low.is_affine() and high.is_constant() and [v.id for v in low.variables()] == [p.X.id]):
        return None
    p.X.save_value(np.zeros(p.X.shape))
    amount = _slope(low, p.X).reshape(p.X.shape, order="F")
    most = float(np.sum(high.value) - np.sum(low.value))
    return (amount, most) if (amount >= 0).all() and most > 0 else None
