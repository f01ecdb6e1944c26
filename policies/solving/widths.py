"""How far the shares of an allocation may lie apart while its objective is as good as it is.

An objective is certified up to a gap; the allocation behind it may be one of many. Over all
allocations that are feasible and within a distance of the optimum, the least and the largest value
of a share are the optima of two more programs: linear ones for linear objectives. They differ in
their costs only, so one goes on from the basis of the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.problem import Problem
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.demands import fills_further, is_ratio, levels_of, sums_logarithms
from apportion.policies.solving.earlier import constraints_of
from apportion.policies.solving.highs import optimise
from apportion.policies.solving.rows import believed
from apportion.policies.solving.solvable import solvable
from apportion.policies.solving.solvers.highs import PersistentHighs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solution import Solution
    from apportion.types import Floats


def widths(
    policy: Policy, instance: Instance, solution: Solution, within: float, *, cells: bool = False
) -> tuple[Floats, Floats]:
    """Return the least and the largest shares of time within a distance of the optimum.

    Parameters
    ----------
    solution
        An optimum, rows as those of the instance.
    within
        The distance, relative to the objective; of lexicographic policies, by what part of itself
        each level may give way; of sums of logarithms the distance itself.
    cells
        Whether single cells of X are asked for, not the time of each row under all options.

    Returns
    -------
    least, largest
        Shape (rows,), or (rows, options) with `cells`.

    Raises
    ------
    SolveError
        If one of the programs was not solved.
    """
    told = believed(policy, instance)
    p = Problem(told)
    with solvable(policy):
        kept = [*constraints_of(policy, p), *_near(policy, p, solution, within)]
        compiled = Compiled.of(p, cp.Minimize(0 * cp.sum(p.X)), kept)
    linear = compiled.program.is_linear_program
    highs = PersistentHighs(compiled.program) if linear else None
    runs = told.can_run
    least, largest = np.zeros(runs.shape if cells else runs.shape[:1]), None
    largest = np.zeros_like(least)
    for place in np.ndindex(least.shape):
        share = np.zeros(runs.shape)
        share[place] = 1.0
        if (share * runs).any():
            toward = compiled.over_columns(share * runs)
            least[place] = _least(compiled, highs, toward)
            largest[place] = -_least(compiled, highs, -toward)
    return least, largest


def _near(policy: Policy, p: Problem, solution: Solution, within: float) -> Sequence[cp.Constraint]:
    """State that an allocation is within a distance of an optimum."""
    p.X.value = solution.X
    made = np.asarray(p.throughput.value, dtype=float)
    if fills_further(policy):
        return [p.throughput >= (1 - within) * made]
    levels = levels_of(policy, p.instance)
    if levels is not None:
        level = levels.level(made)
        worse = level * (1 - within if levels.maximised else 1 + within)
        return [p.throughput >= levels.demand(worse)]
    declared, value = policy.objective(p), solution.objective
    slack = within if sums_logarithms(policy, p.instance) else within * abs(value)
    goal = declared.args[0]
    worse = value - slack if isinstance(declared, cp.Maximize) else value + slack
    if is_ratio(policy, p.instance):
        goal, worse = goal.args[0] - worse * goal.args[1], 0.0
    return [goal >= worse if isinstance(declared, cp.Maximize) else goal <= worse]


def _least(compiled: Compiled, highs: PersistentHighs | None, cost: Floats) -> float:
    """Minimise a cost over the scaled columns."""
    if highs is not None:
        highs.change_costs(np.arange(cost.size), cost)
        point = highs.solve()
        if point.status == "optimal":
            return float(cost @ point.x)
    point = optimise(replace(compiled.program, c=cost))
    if point.status != "optimal":
        raise SolveError(f"A least share was not found: the problem is {point.status}.")
    return float(cost @ point.x)
