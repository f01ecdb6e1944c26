"""What a policy's own constraints say about what is held at once: resources of each decision.

A constraint bounds shares of time, and shares are averages. What it says of an instant can be read
off it where it is linear: while a row runs under an option its share there is 1, so a bound on a
sum over several jobs, with no coefficient below 0, bounds what those that run hold together. The
coefficient is what the row holds of a resource, the right-hand side how much there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from cvxpy.constraints import Equality, Inequality
from scipy import sparse

from apportion.policies.base import Policy
from apportion.policies.core.classes import believed
from apportion.policies.core.pairs import add_pairs
from apportion.policies.problem import Problem
from apportion.ties import EXACT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cvxpy as cp

    from apportion.policies.core.pairs import PairTable
    from apportion.policies.instance import Instance
    from apportion.types import Bools, Floats, Ints

_ROUNDING = 1e-12
"""Numbers of this part of the largest one beside them are its rounding errors."""


class StatedResources(NamedTuple):
    """What rows hold of the resources that constraints state, and how much there is.

    Attributes
    ----------
    usage
        Units that a row holds while it runs under an option, shape (rows, options, resources).
    capacity
        Units that there are of each, shape (resources,).
    names
        Labels of their constraints. What all rows fit at once is left out.
    on_average
        Labels of the constraints that shares keep and single instants need not.
    stated
        Labels of the others.
    """

    usage: Floats
    capacity: Floats
    names: tuple[str, ...] = ()
    on_average: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()

    @property
    def exceeded(self) -> Bools:
        """Where a row by itself holds more than there is, shape (rows, options, resources)."""
        return self.usage > self.capacity * (1 + EXACT)


def states_constraints(policy: Policy) -> bool:
    """Whether a policy has constraints of its own; few of the package's are over resources."""
    told = policy._bounds_resources or not policy._built_in
    return told and type(policy).constraints is not Policy.constraints


def stated_resources(
    policy: Policy,
    instance: Instance,
    pairs: PairTable | None = None,
    only: Ints | None = None,
) -> StatedResources:
    """Read the resources off a policy's own constraints.

    Kept at each instant is an upper bound on a sum over several jobs, linear in X alone with
    coefficients >= 0, and ``== 0``, which says that nobody is ever there. All others hold on
    average: lower bounds and other equalities, what has variables of its own or is not linear,
    bounds on each job by itself, which are about the time that it has, and what a policy marks by
    `Problem.on_average`.

    Parameters
    ----------
    instance
        Jobs, each a row by itself.
    pairs, only
        How fast jobs are beside each other, and places of those two by two that are rows as well,
        behind the others, shape (pairs, 2).
    """
    limits, rows, many = _limits(policy, instance), np.arange(instance.rows), instance.rows
    of_each = _of_each_job(policy, instance, limits)
    if pairs is not None and only is not None and len(only):
        extended, there = add_pairs(instance, pairs, only)
        places = {pair: many + place for place, pair in enumerate(map(tuple, only.tolist()))}
        behind = [places[pair] for pair in map(tuple, there.tolist())]
        rows, many = np.append(rows, np.array(behind, dtype=np.intp)), many + len(only)
        limits = _limits(policy, extended)
        if len(limits) != len(of_each):  # one for each row
            of_each = [True] * len(limits)
    average, stated, barred = set[str](), dict[str, None](), np.zeros((many, instance.options))
    usage: list[Floats] = []
    capacity, names = list[float](), list[str]()
    for limit, each in zip(limits, of_each, strict=True):
        most = limit.A[limit.kept].max(axis=1).toarray()  # of a job by itself, while it runs
        if limit.averaged or (each and (most > limit.b[limit.kept] * (1 + EXACT)).any()):
            average.add(limit.name)
        if limit.kept.size and not each:
            stated[limit.name] = None
        for bound in () if each else limit.kept.tolist():
            units = np.zeros_like(barred)
            units[rows] = limit.A[[bound]].toarray().reshape((rows.size, -1), order="F")
            if limit.b[bound] == 0:
                barred += units
            elif units.max(axis=1).sum() > limit.b[bound]:
                usage, names = [*usage, units], [*names, limit.name]
                capacity.append(float(limit.b[bound]))
    if barred.any():
        usage, capacity, names = [*usage, barred], [*capacity, 0.0], [*names, "== 0"]
    held = np.stack(usage, axis=2) if usage else np.zeros((*barred.shape, 0))
    labels = tuple(names), tuple(sorted(average)), tuple(stated)
    return StatedResources(held, np.array(capacity), *labels)


class _Limit(NamedTuple):
    """A constraint as ``A @ vec(X) <= b``, X by columns; without rows if it is of another kind.

    Attributes
    ----------
    name
        Its label.
    A, b
        Coefficients and bounds, shapes (bounds, rows * options) and (bounds,).
    kept
        Places of the bounds that can be kept at each instant.
    averaged
        Whether there are others, or the policy says that all hold on average.
    of_each
        Whether every bound is an upper one on one job at most, where X has a row for each job.
    """

    name: str
    A: sparse.csr_array
    b: Floats
    kept: Ints
    averaged: bool
    of_each: bool = True


def _limits(policy: Policy, instance: Instance) -> list[_Limit]:
    """State the constraints of a policy, and take them apart."""
    p = Problem(believed(policy, instance))
    p.X.value = np.zeros(p.X.shape)
    stated = policy.constraints(p)
    return [_limit(p, each, f"constraint {place}") for place, each in enumerate(stated, 1)]


def _limit(p: Problem, constraint: cp.Constraint | bool, name: str) -> _Limit:
    """Take a constraint apart; one that does not concern X bounds nothing."""
    none = sparse.csr_array((0, p.X.size)), np.zeros(0), np.zeros(0, dtype=np.intp)
    variables = [] if isinstance(constraint, bool) else constraint.variables()
    if isinstance(constraint, bool) or all(each is not p.X for each in variables):
        return _Limit(name, *none, averaged=False)
    name, equal = constraint.label or name, isinstance(constraint, Equality)
    if len(variables) > 1 or not isinstance(constraint, Equality | Inequality):
        return _Limit(name, *none, averaged=True)
    if not constraint.expr.is_affine():
        return _Limit(name, *none, averaged=True)
    slopes: Any = constraint.expr.grad[p.X]  # a number where X has one entry
    A = sparse.csr_array(slopes.T if np.ndim(slopes) else np.reshape(slopes, (1, -1)))
    b = -np.ravel(constraint.expr.value, order="F").astype(float)
    noise = _ROUNDING * np.abs(A.data).max(initial=0.0)
    A.data[np.abs(A.data) <= noise], b[np.abs(b) <= noise] = 0.0, 0.0
    A.eliminate_zeros()
    if equal:  # an upper bound and a lower one
        A, b = sparse.csr_array(sparse.vstack([A, -A])), np.append(b, -b)
    least, most = A.min(axis=1).toarray(), A.max(axis=1).toarray()
    kept, idle = (least >= 0) & ((b == 0) | ((b > 0) & (not equal))), (most <= 0) & (b >= 0)
    marked = constraint.id in p.averaged
    jobs = sparse.kron(np.ones((p.X.shape[1], 1)), sparse.eye_array(p.X.shape[0]), format="csr")
    several = np.diff((abs(A) @ jobs).indptr).max(initial=0) > 1
    return _Limit(
        name,
        *(A, b, none[2] if marked else np.flatnonzero(kept)),
        averaged=marked or not (kept | idle).all(),
        of_each=not equal and not several,
    )


def _of_each_job(policy: Policy, instance: Instance, limits: Sequence[_Limit]) -> list[bool]:
    """Tell which constraints are about the time of each job, and none about what several hold.

    Where there is only one job of a user now, a bound on what the user holds looks like one on the
    job: so constraints are looked at where every job has a twin as well.
    """
    beside = limits
    if any(limit.of_each and limit.kept.size for limit in limits):
        twice = np.tile(np.arange(instance.rows), 2)
        beside = _limits(policy, instance.subset(twice, np.ones(twice.size)))
    if len(beside) != len(limits):  # of a list with one for each job there are twice as many
        return [limit.of_each for limit in limits]
    return [one.of_each and two.of_each for one, two in zip(limits, beside, strict=True)]
