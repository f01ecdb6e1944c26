"""What a policy demands of jobs whatever its objective, read off its declared constraints.

The constraints are stated over a throughput that is a variable by itself, one number u for each
job. Where they say ``k u >= d`` of single jobs and nothing else, the floor of a job is the largest
of its ``d / k``. Jobs of like floors may be solved as one if the objective does not tell them
apart: if it is affine in X, or one such expression over another, and what a job adds to it is the
same for all that are merged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import DivExpression
from cvxpy.constraints import Inequality
from scipy import sparse

from apportion.policies.problem import Problem
from apportion.policies.solving.demand_intervals import worth_merging
from apportion.policies.solving.demands import SpeedProblem
from apportion.policies.solving.earlier import earlier_objectives
from apportion.policies.solving.solvable import solvable
from apportion.policies.solving.worst_off.common_share import HAIR, DeclaredShare

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.demand_intervals import Bins
    from apportion.policies.solving.rows import Reduction
    from apportion.types import Floats


_SAME = 1e-9
"""Coefficients of an objective that differ by no more than this part of them are the same."""


@dataclass(frozen=True, eq=False)
class DeclaredFloors:
    """Steps/s that each job must make, >= 0, shape (jobs,); and how the policy calls that."""

    pace: Floats
    label: str

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        """State them."""
        due = np.flatnonzero(self.pace > 0)
        return [(p.throughput[due] >= self.pace[due]).set_label(self.label)] if due.size else []


def floors_of(policy: Policy, instance: Instance) -> DeclaredFloors | None:
    """Return the floors of a policy; None if it has no constraints, or others than floors."""
    p = SpeedProblem(instance)
    u, pace = p.throughput, np.zeros(instance.jobs)
    constraints = policy.constraints(p)
    left_out = _best_at_zero(policy, p)
    if left_out is None:
        return None
    for constraint in constraints:
        if not isinstance(constraint, Inequality) or constraint.parameters():
            return None
        low, high = constraint.args
        own = {each.id for each in constraint.variables()} - left_out - {u.id}
        if own or not (high - low).is_affine():
            return None
        if constraint.size and not _raise(pace, high - low, u):
            return None
    if not constraints:
        return None
    return DeclaredFloors(pace, ", ".join(each.label for each in constraints if each.label))


def _best_at_zero(policy: Policy, p: Problem) -> set[int] | None:
    """Return variables of which earlier objectives want each to be 0, the least that it can be.

    They are made 0: floors that can all be met then are what these objectives ask for. ``None``
    where earlier objectives are of another kind.
    """
    least, found = {own.variable.id for own in p.variables.values() if own.nonneg}, set[int]()
    for objective in earlier_objectives(policy, p):
        value, variables = objective.args[0], objective.variables()
        if not (isinstance(objective, cp.Minimize) and value.is_affine()):
            return None
        for each in variables:
            each.value = np.zeros(each.shape)
        for each in variables:
            gradient = value.grad[each]
            if each.id not in least or not (np.asarray(gradient.toarray()) > 0).all():
                return None
            found.add(each.id)
    return found


def _raise(pace: Floats, left: cp.Expression, u: cp.Expression) -> bool:
    """Raise floors to what ``left >= 0`` demands, if every row of it is ``k u - d`` of one job."""
    own, constant = _affine(left, u)
    if not (np.diff(own.indptr) == 1).all() or not (own.data > 0).all():
        return False
    np.maximum.at(pace, own.indices, -constant / own.data)
    return bool(np.isfinite(pace).all())


def tells_no_jobs_apart(policy: Policy, instance: Instance, bins: Bins) -> bool:
    """Tell whether the objective is the same over one row for the jobs of each bin.

    It has to be affine in X, or a ratio of such expressions.
    """
    each, merged = (_objective(policy, posed) for posed in (instance, bins.instance))
    if each is None or merged is None or len(each) != len(merged):
        return False
    for (own, constant), (common, same) in zip(each, merged, strict=True):
        expected = (common / bins.instance.count[:, None])[bins.bin_of]
        near = np.allclose(own / instance.count[:, None], expected, rtol=_SAME, atol=0.0)
        if not (near and np.isclose(constant, same, rtol=_SAME, atol=0.0)):
            return False
    return True


def _objective(policy: Policy, instance: Instance) -> list[tuple[Floats, float]] | None:
    """Return the coefficients and the constant of each side of an objective that has such."""
    p = Problem(instance)
    objective = policy.objective(p)
    if not isinstance(objective, cp.Maximize | cp.Minimize) or objective.parameters():
        return None
    value = objective.args[0]
    ratio = isinstance(value, DivExpression) and not value.args[1].is_constant()
    sides = value.args if ratio else [value]
    if any(each is not p.X for each in objective.variables()):
        return None
    if not all(each.is_affine() for each in sides):
        return None
    read = []
    for own, constant in (_affine(each, p.X) for each in sides):
        dense = np.asarray(own.toarray(), dtype=float).reshape(p.X.shape, order="F")
        read.append((dense, float(constant.sum())))
    return read


def _affine(expression: cp.Expression, variable: cp.Expression) -> tuple[sparse.csc_array, Floats]:
    """Return the coefficients, shape (entries of the variable, rows), and the constants, (rows,).

    Entries of the variable are counted column by column.
    """
    variable.value = np.zeros(variable.shape)
    constant = np.asarray(expression.value, dtype=float).ravel(order="F")
    own = expression.grad.get(variable)
    variable.value = None
    if own is None or np.isscalar(own):
        own = np.full((1, 1), own) if own else np.zeros((variable.size, constant.size))
    coefficients = sparse.csc_array(own)
    coefficients.sum_duplicates()
    coefficients.eliminate_zeros()
    return coefficients, constant


def with_floors_merged(policy: Policy, classes: Reduction) -> Reduction:
    """Merge classes whose floors lie in one interval, if there are enough, and all can be met.

    What is given up where they cannot depends on each job's own floor.
    """
    told = classes.believed
    if not told.solo or "tells_identical_jobs_apart" in policy.traits:
        return classes
    with solvable(policy):
        floors = floors_of(policy, told)
    if floors is None or not (floors.pace <= told.fastest_throughput).all():
        return classes
    if (merging := worth_merging(told)) is None:
        return classes
    bins = merging.bins(floors.pace)
    if not tells_no_jobs_apart(policy, told, bins):
        return classes
    share = 1.0
    if floors.pace.any():
        common = DeclaredShare(bins.instance, "auto").optimum(bins.demand)
        if common.bound < 1 - HAIR:
            return classes
        share = min(common.share, 1.0)
    merged = DeclaredFloors(bins.demand * share, floors.label)
    return replace(
        classes, believed=bins.instance, bins=bins, floors=merged, kind="demand intervals"
    )
