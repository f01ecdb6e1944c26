"""Problems in which the number of jobs of each class is a parameter, so that jobs can come and go.

Only a few coefficients of such a problem change when a job arrives or completes: what its class
holds of each resource, and its part in an objective that sums over jobs.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from apportion.policies.problem import Problem
from apportion.policies.solving.canonical import canonicalise
from apportion.policies.solving.copies import counts_as_jobs
from apportion.policies.solving.demands import fills_further, has_earlier
from apportion.policies.solving.solvers.parametric_program import ParametricProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.cone import ConeProgram

    Floats = NDArray[np.float64]

_LOG = logging.getLogger(__name__)
_LASTING = {"weight", "count", "scale_factor"}
"""Columns of the jobs table that stay as they are while a job waits and runs."""


class _Counts(cp.Parameter):  # type: ignore[misc]
    """Counts that ``*`` multiplies one by one, as it does the array that policies know."""

    def __mul__(self, other: Any) -> Any:
        return cp.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return cp.multiply(other, self)


class CountedProblem(Problem):
    """A `Problem` whose `count` is a cvxpy parameter of shape (classes,)."""

    def __init__(self, instance: Instance) -> None:
        self._parameter = _Counts(instance.jobs, nonneg=True, value=instance.count)
        super().__init__(instance)

    @property
    def count(self) -> Any:
        """Jobs behind each class, a parameter."""
        return self._parameter

    @cached_property
    def held(self) -> cp.Expression:
        """Units of each resource in use on average, at the parameter's counts."""
        each = cp.reshape(self._parameter, (self.instance.rows, 1), order="F")
        one = self._held_by_each(np.ones(self.instance.rows))
        return one @ cp.vec(cp.multiply(each, self.X), order="C")


def declare(
    policy: Policy, classes: Instance, *, checked: bool = False
) -> tuple[CountedProblem, cp.Problem] | None:
    """State a policy's problem over classes of jobs with their counts as a parameter.

    Parameters
    ----------
    classes
        Classes of identical jobs, at the speeds that the policy believes in.
    checked
        Whether it is known that the policy's problem is one in the counts, from other classes.

    Returns
    -------
    p, declared
        The problem as the policy saw it, and the cvxpy problem. ``None`` where that is not the
        policy's problem whatever the counts: where it is no linear program, decides in whole
        numbers, has further objectives, is not affine in the counts or does not count classes as
        their jobs, or reads what changes while jobs run.
    """
    lasting = "tells_identical_jobs_apart" not in policy.traits and set(policy.columns) <= _LASTING
    further = fills_further(policy) or has_earlier(policy)
    if not (lasting and classes.solo) or policy.space_sharing or policy.integral or further:
        return None
    p = CountedProblem(classes)
    try:
        objective, own = policy.objective(p), policy.constraints(p)
        declared = cp.Problem(objective, [*p.constraints, *own])
        follows = checked or (
            _follows_counts(policy, p, declared) and counts_as_jobs(policy, classes)
        )
    except Exception as error:  # a policy may do with its numbers what no parameter allows
        _LOG.info("%r is solved anew each time: %s", policy, error)
        return None
    return (p, declared) if follows else None


def _follows_counts(policy: Policy, p: CountedProblem, declared: cp.Problem) -> bool:
    """Compare with the problem stated at fixed counts, which a policy may read in other ways."""
    if not declared.is_dpp() or len(declared.parameters()) != 1:
        return False
    count = np.random.default_rng(0).integers(1, 100, p.instance.jobs).astype(float)
    plain = Problem(p.instance.with_columns({**p.instance.columns, "count": count}))
    fixed = cp.Problem(policy.objective(plain), [*plain.constraints, *policy.constraints(plain)])
    expected = canonicalise(fixed)
    if not expected.is_linear_program:
        return False
    return _same(ParametricProgram.of(declared, p.count).at(count), expected)


def _same(one: ConeProgram, other: ConeProgram) -> bool:
    """Whether two programs have the same numbers, but for rounding."""
    if one.A.shape != other.A.shape or not np.array_equal(one.equality, other.equality):
        return False
    rest = np.append(one.b, [*one.c, one.offset]), np.append(other.b, [*other.c, other.offset])
    # Both were summed up in another order; what differs by more is another problem.
    entries = abs(one.A - other.A).max() <= 1e-9 * abs(other.A).max()
    return bool(entries) and np.allclose(*rest, rtol=1e-9, atol=1e-12)
