"""Which of the optima of a policy's own problem is returned, and how it is asked for."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.constraints import Equality

from apportion.errors import SolveError
from apportion.policies.solving.certificate import make_feasible
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.demands import (
    SpeedProblem,
    is_of_each,
    levels_of,
)
from apportion.policies.solving.earlier import constraints_of
from apportion.policies.solving.highs import SolverName, optimise
from apportion.policies.solving.rows import group_identical
from apportion.policies.solving.second_stage import (
    choose_among_optima,
    evenness,
    most_even,
    relative_throughput,
)
from apportion.policies.solving.solvers.logarithmic_interior_point import restored
from apportion.policies.solving.worst_off.demand_scaling import demand_scales

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.problem import Problem
    from apportion.policies.solving.cone import Point
    from apportion.types import Floats


_LOG = logging.getLogger(__name__)
_MET = 1e-7
"""By what part of itself a level, or an objective, may be missed by what is chosen."""
_ROUNDING = 1e-12
"""By how much a mean may be worse than what it is the mean of, though it is no worse."""


def choose(policy: Policy, compiled: Compiled, first: Point, solver: SolverName) -> Floats:
    """Choose among the optima (`apportion.policies.solving.second_stage`); the variables take it.

    Parameters
    ----------
    first
        An optimum, whose values the variables have; `leaves_a_choice` holds of it.
    """
    reached = compiled.objective()
    X = _optimum(policy, compiled, first, solver)
    if compiled.worse_by(reached) > _MET:  # rounding errors, where data span many magnitudes
        X = compiled.X_at(first)
    return X if compiled.program.is_linear_program else _alike(policy, compiled, X)


def _spent(
    policy: Policy, p: Problem, kept: Sequence[cp.Constraint], solver: SolverName
) -> Iterator[Floats]:
    """Yield the most even of the allocations that spend most, then one that spends most."""
    gain, squares = relative_throughput(p.instance), evenness(p.instance)
    objective = cp.Maximize(cp.sum(cp.multiply(gain, p.X)))
    spending = _in_units_of_levels(policy, p, objective, kept)
    try:
        best = optimise(spending.program, solver)
    except SolveError as error:
        _LOG.info("nothing was spent beyond the levels: %s", error)
        return
    if best.status == "optimal":
        even = most_even(spending.program, best, spending.over_columns(squares, power=2))
        yield spending.X_at(even)
        yield spending.X_at(best)


def _in_units_of_levels(
    policy: Policy, p: Problem, objective: cp.Maximize, kept: Sequence[cp.Constraint]
) -> Compiled:
    """Compile an objective over the allocations that keep levels, each level in its own unit."""
    plain = Compiled.of(p, objective, [*constraints_of(policy, p), *kept], scaled=False)
    rows = np.concatenate([np.arange(p.count.size)[:0], *(_places(plain, each) for each in kept)])
    size = np.abs(plain.program.b[rows])
    scales = demand_scales(plain.program, rows[size > 0], size[size > 0], None)
    return plain.scaled_by(scales)


def _places(compiled: Compiled, constraint: cp.Constraint) -> NDArray[np.intp]:
    """Rows of a linear constraint."""
    place = compiled.program.rows[constraint.id]
    return np.arange(place.start, place.stop)


def _missed(levels: Sequence[cp.Constraint]) -> float:
    """Tell by what part of itself a level is missed, at most."""
    worst = 0.0
    for constraint in levels:
        low, high = (np.asarray(side.value, dtype=float) for side in constraint.args)
        size = np.maximum(np.maximum(np.abs(low), np.abs(high)), 1e-300)
        over = np.abs(low - high) if isinstance(constraint, Equality) else low - high
        worst = max(worst, float((over / size).max(initial=0.0)))
    return worst


def _alike(policy: Policy, compiled: Compiled, X: Floats) -> Floats:
    """Give identical jobs their mean, no worse where an objective is concave and tells none apart.

    Where it is so flat that rounding decides, a solver takes one of them for another. The mean is
    taken if the objective and the constraints, as declared, are no worse for it.
    """
    p = compiled.p
    if not p.instance.solo or "tells_identical_jobs_apart" in policy.traits:
        return X
    columns = ("weight", "scale_factor", "count", *policy.columns)
    classes, class_of = group_identical(p.instance, columns)
    if classes.jobs == p.instance.jobs:
        return X
    variables = [p.X, *(own.variable for own in p.variables.values())]
    before = [np.asarray(each.value) for each in variables]
    reached, off = compiled.objective(), _violation(compiled)
    for variable, value in zip(variables, before, strict=True):
        for axis in np.flatnonzero(np.array(value.shape) == class_of.size):
            value = np.moveaxis(_means(np.moveaxis(value, axis, 0), class_of), 0, axis)
        variable.value = value
    p.X.value = shared = make_feasible(np.asarray(p.X.value), p.instance)
    if compiled.worse_by(reached) <= _ROUNDING and _violation(compiled) <= max(off, _ROUNDING):
        return shared
    for variable, value in zip(variables, before, strict=True):
        variable.value = value
    return X


def _means(values: Floats, class_of: NDArray[np.intp]) -> Floats:
    """Give each entry of the first axis the mean of its class."""
    total = np.zeros((int(class_of.max()) + 1, *values.shape[1:]))
    np.add.at(total, class_of, values)
    size = np.bincount(class_of).reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray((total / size)[class_of], dtype=float)


def _violation(compiled: Compiled) -> float:
    """By how much a declared constraint is missed, at most."""
    return max(float(np.max(each.violation())) for each in compiled.declared.constraints)


def _optimum(policy: Policy, compiled: Compiled, first: Point, solver: SolverName) -> Floats:
    """Choose among the optima of a policy that has one objective."""
    p = compiled.p
    gain, squares = relative_throughput(p.instance), evenness(p.instance)
    if not compiled.program.is_linear_program:
        value = compiled.objective()
        # As much as the solver may have missed the optimum by: else no point would be as good.
        worse = value + (-1 if compiled.maximises else 1) * 1e-9 * abs(value)
        kept = staying_optimal(policy, p, worse)
        if kept is not None:
            X = next(_spent(policy, p, kept, solver), None)
            if X is None:
                return compiled.X_at(first)
            return restored(compiled, first, X)
    if isinstance(p.scale, cp.Variable):
        toward = np.zeros(compiled.column.size)  # the smaller the scale, the more runs
        toward[compiled.program.columns[p.scale.id]] = -1.0
    else:
        toward = compiled.over_columns(gain)
    weights = compiled.over_columns(squares, power=2)
    return compiled.X_at(choose_among_optima(compiled.program, first, toward, weights, solver))


_HAIR = 1e-12
"""By how much, relatively, throughputs that are the same in every optimum may give way."""


def staying_optimal(policy: Policy, p: Problem, value: float) -> list[cp.Constraint] | None:
    """State linear constraints under which an objective that is none is no worse than `value`.

    The variables hold the values of an optimum. ``None`` where the objective is neither about the
    worst off job nor a sum of logarithms of throughputs, which are then the same in every optimum.
    """
    levels = levels_of(policy, p.instance)
    if levels is not None:
        return [p.throughput >= levels.demand(value)]
    if sums_logarithms(policy, p.instance):
        return [p.throughput >= (1 - _HAIR) * np.asarray(p.throughput.value)]
    return None


def sums_logarithms(policy: Policy, instance: Instance) -> bool:
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
