"""What a policy of one's own states: of the right kind, and the same over classes as over jobs.

A row for a class of identical jobs loses nothing if the objective and the constraints count the
class as often as it has jobs, and treat its jobs alike. Who wrote the policy need not have thought
of either, so the problem over classes is compared with the one over copies of their jobs: where
the shares of copies are equal both must have the same values, and exchanging the shares of copies
must change none. Where a policy says its objective in numbers (`Policy.form`) these are compared.
The policies of the package are not looked at; tests do that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from cvxpy.constraints import Equality, Inequality

from apportion.errors import ApportionError, InputError, written
from apportion.own_code import answered_by, said_with_place
from apportion.policies.base import Policy, earlier_objectives, form_of
from apportion.policies.core.unsolvable import solvable
from apportion.policies.problem import Problem

if TYPE_CHECKING:
    from apportion.policies.instance import Instance
    from apportion.types import Floats, Ints

_TINY = 1e-12
"""Number that is none but for rounding."""
_SIZES = (1.0, 1e-3, 1e3)
"""Of drawn shares: what is undefined about some is compared about others, feasible or not."""


def check_stated(policy: Policy, instance: Instance) -> None:
    """Refuse what a policy of one's own states that is no problem, in words that name it.

    Raises
    ------
    InputError
        If the objective is none, constraints are no list of them, a parameter has no value, or a
        column is read that the policy does not list or the jobs table does not have.
    """
    if policy._built_in:
        return
    p = Problem(instance, read_by=policy)
    try:
        with solvable(policy):
            plain = type(policy).constraints is Policy.constraints
            if plain and form_of(policy, p) is not None and not earlier_objectives(policy, p):
                return
            objective, stated = policy.objective(p), policy.constraints(p)
            earlier = earlier_objectives(policy, p)
    except ApportionError:
        raise
    except (ValueError, NotImplementedError) as error:  # cvxpy's, of shapes, or of ``<`` for ``<=``
        raise InputError(
            f"{policy!r} cannot state its problem: {said_with_place(error)}"
        ) from error
    if not isinstance(objective, cp.Maximize | cp.Minimize):
        raise InputError(
            f"The objective of {policy!r} is {written(objective)}; it must be cp.Maximize(...) or "
            f"cp.Minimize(...) of one number.{answered_by(policy, 'objective')}"
        )
    if isinstance(stated, cp.Constraint) or not hasattr(stated, "__iter__"):
        kind = "one by itself" if isinstance(stated, cp.Constraint) else f"{stated!r}"
        raise InputError(
            f"{policy!r} must state constraints as a list, which may be empty, not {kind}."
            f"{answered_by(policy, 'constraints')}"
        )
    constraints = list(stated)
    for place, each in enumerate(constraints):
        if not isinstance(each, cp.Constraint | bool):
            raise InputError(
                f"Constraint {place} of {policy!r} is {each!r}; it must be a constraint of cvxpy, "
                f"such as p.throughput >= 1, which compares an expression of p."
                f"{answered_by(policy, 'constraints')}"
            )
    declared = [objective, *earlier, *(each for each in constraints if not isinstance(each, bool))]
    for parameter in (each for one in declared for each in one.parameters()):
        if parameter.value is None:
            raise InputError(
                f"The parameter {parameter.name()!r} of {policy!r} has no value; give it one, "
                f"cp.Parameter(value=...), or write the number itself."
            )


def counts_as_jobs(policy: Policy, classes: Instance) -> bool:
    """Whether a policy's problem over classes of identical jobs is the one over their jobs.

    Compared at two or three jobs of each class, whatever its count: at shares that the jobs of a
    class have in common, and at others, each of which one job of the class has, then another.
    What cannot be compared, as problems in other cones, is taken not to be the same.
    """
    if policy._built_in:
        return True
    own = np.arange(classes.jobs)
    copies = 2 + own % 2
    class_of = np.repeat(own, copies)
    exchanged = np.lexsort((-np.arange(class_of.size), class_of))
    counted = classes.with_columns({**classes.columns, "count": copies.astype(float)})
    single = classes.subset(class_of, np.ones(class_of.size))
    try:
        one, other = _Stated(policy, counted), _Stated(policy, single)
        axes = [_axes(*each) for each in zip(one.variables, other.variables, strict=True)]
        known = False
        for seed, size in enumerate(_SIZES):
            rng = np.random.default_rng(seed)
            drawn = [size * rng.uniform(0.1, 1.0, each.shape) for each in one.variables]
            apart = [size * rng.uniform(0.1, 1.0, each.shape) for each in other.variables]
            alike, first = other.at(_spread(drawn, axes, class_of)), other.at(apart)
            if one.at(drawn) != alike or other.at(_spread(apart, axes, exchanged)) != first:
                return False
            known = known or bool(np.isfinite([float(alike[0]), float(first[0])]).all())
        return known
    except Exception:  # what it is that fails shows where the problem is stated over all jobs
        return False


class _Stated:
    """What a policy states of an instance, to be evaluated."""

    def __init__(self, policy: Policy, instance: Instance) -> None:
        self._p = p = Problem(instance)
        self._form, self._objective = form_of(policy, p), policy.objective(p)
        self._limits = [each for each in policy.constraints(p) if not isinstance(each, bool)]
        self._limits += [Inequality(each.args[0], 0) for each in earlier_objectives(policy, p)]
        stated = (self._objective, *self._limits)
        found = {each.id: each for part in stated for each in part.variables()}
        found.pop(p.X.id, None)
        self.variables = [p.X, *(found[each] for each in sorted(found))]

    def at(self, values: list[Floats]) -> tuple[str, set[str], set[str]]:
        """Return the objective, and left - right of inequalities and of equalities, to 9 digits.

        Parameters
        ----------
        values
            Of X, then of the policy's own variables as they were made.

        Raises
        ------
        KeyError
            For a constraint that is no comparison of numbers.
        """
        for variable, each in zip(self.variables, values, strict=True):
            variable.value = variable.project(each)
        sides: dict[type, set[str]] = {Inequality: set(), Equality: set()}
        with np.errstate(all="ignore"):
            for limit in self._limits:
                sides[type(limit)].update(map(_digits, np.ravel(limit.expr.value).tolist()))
            value = self._objective.args[0].value
            if self._form is not None:
                value = self._form.value(np.asarray(self._p.throughput.value), values[0])
        objective = _digits(float(np.asarray(value).item()))
        return objective, sides[Inequality], sides[Equality]


def _digits(number: float) -> str:
    """Return what of a number is not due to rounding errors."""
    return f"{number if abs(number) > _TINY else 0.0:.9g}"


def _axes(variable: cp.Variable, single: cp.Variable) -> list[int]:
    """Axes along which a variable has an entry for each class, and the other one for each job."""
    sizes = zip(variable.shape, single.shape, strict=True)
    return [axis for axis, (mine, theirs) in enumerate(sizes) if mine != theirs]


def _spread(values: list[Floats], axes: list[list[int]], place: Ints) -> list[Floats]:
    """Give every job what stands at its place, along the axes of each variable."""
    found = []
    for each, own in zip(values, axes, strict=True):
        for axis in own:
            each = each.take(place, axis=axis)
        found.append(each)
    return found
