"""From a policy and an instance to a certified solution: every layer under `solve`, in order."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np

from apportion.policies.certificate import relative_gap
from apportion.policies.compiled import Compiled
from apportion.policies.problem import Problem
from apportion.policies.reduction import reduce
from apportion.policies.second_stage import (
    choose_among_optima,
    evenness,
    most_even,
    relative_throughput,
)
from apportion.policies.solvers import Point, SolverName, optimise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.pairs import PairTable

    Floats = NDArray[np.float64]

__all__ = ["Solution", "solve_instance"]


@dataclass(frozen=True, eq=False)
class Solution:
    """An allocation in arrays.

    Attributes
    ----------
    X
        Share of time of each row, then of each pair of `pairs`, under each option, shape
        (rows + pairs, options).
    throughput
        Effective throughput, steps/s, shape (jobs,).
    objective
        The policy's objective at `X`, in the policy's unit.
    prices
        What one more unit of each resource would improve the objective by, shape (resources,).
    gap
        Certified relative distance of the objective from the optimum.
    status
        "optimal", or "optimal_inaccurate" where the gap is above 1e-6.
    message
        What a reader should know, e.g. which deadlines cannot be met.
    stats
        Sizes and seconds by stage.
    pairs
        Jobs of the last rows of `X`, which are pairs that share devices, shape (pairs, 2).
    """

    X: Floats
    throughput: Floats
    objective: float
    prices: Floats
    gap: float
    status: str = "optimal"
    message: str = ""
    stats: dict[str, Any] = field(default_factory=dict)
    pairs: NDArray[np.intp] = field(default_factory=lambda: np.empty((0, 2), dtype=np.intp))


def solve_instance(
    policy: Policy,
    instance: Instance,
    *,
    pairs: PairTable | None = None,
    group: bool = True,
    second_stage: bool = True,
    solver: SolverName = "auto",
) -> Solution:
    """Solve one allocation problem.

    Parameters
    ----------
    pairs
        Throughputs of jobs that share devices: with them, pairs of jobs become rows too. Only for
        instances whose rows are single jobs.
    group
        Whether identical jobs are solved as one (exact; off for comparison).
    second_stage
        Whether what the objective leaves open is chosen as `apportion.policies.second_stage` says.
    solver
        "auto", "highs" or "clarabel"; the optimum is the same.

    Raises
    ------
    InfeasibleError
        If no allocation meets the constraints; it names the ones that cannot hold together.
    SolveError
        If no solver found an optimum.
    """
    if instance.jobs == 0:
        empty = np.zeros((instance.rows, instance.options))
        return Solution(empty, np.zeros(0), float("nan"), np.zeros_like(instance.capacity), 0.0)
    clock = [time.perf_counter()]
    reduction = reduce(policy, instance, group, pairs)
    clock.append(time.perf_counter())
    p = Problem(reduction.believed, fractional=policy.fractional)
    compiled = Compiled.of(p, policy.objective(p), policy.constraints(p))
    clock.append(time.perf_counter())
    best = _attempt(policy, compiled, solver, second_stage)
    if best.gap > _ACCURATE and compiled.program.is_linear_program:
        other: SolverName = "highs" if best.first.solver == "clarabel" else "clarabel"
        again = _attempt(policy, compiled, other, second_stage)
        best = again if again.gap < best.gap else best
    reported, slope = policy.reported(best.objective)
    shares, jobs_of_pairs = reduction.expand(best.X)
    return Solution(
        X=shares,
        throughput=reduction.throughput(best.X),
        objective=reported,
        prices=slope * compiled.prices(best.first),
        gap=best.gap,
        status="optimal" if best.gap <= _ACCURATE else "optimal_inaccurate",
        stats={
            "jobs": instance.jobs,
            "classes": reduction.believed.jobs,
            "pairs": len(reduction.pairs),
            "options": instance.options,
            "solver": best.first.solver,
            **dict(zip(("group_s", "compile_s"), np.diff(clock).tolist(), strict=True)),
            "solve_s": best.solve_s,
            "second_stage_s": best.second_stage_s,
        },
        pairs=jobs_of_pairs,
    )


_ACCURATE = 1e-6
"""Largest gap of what is called optimal; above it the other solver has a try as well."""


class _Attempt(NamedTuple):
    """What one solver makes of a problem: first optimum, chosen X, objective there and its gap."""

    first: Point
    X: Floats
    objective: float
    gap: float
    solve_s: float
    second_stage_s: float


def _attempt(
    policy: Policy, compiled: Compiled, solver: SolverName, second_stage: bool
) -> _Attempt:
    """Solve a compiled problem and choose among its optima."""
    started = time.perf_counter()
    first = compiled.optimum(solver, repr(policy))
    bound = compiled.bound(first)
    solved = time.perf_counter()
    X = compiled.X_at(first)
    if second_stage and policy.leaves_ties:
        reached = compiled.objective()
        X = _choose(policy, compiled, first, solver)
        if compiled.worse_by(reached) > 1e-7:  # rounding errors, where data span many magnitudes
            X = compiled.X_at(first)
    objective = compiled.objective()
    value = -objective if compiled.maximises else objective
    gap = relative_gap(value, bound, logarithmic=policy.logarithmic)
    return _Attempt(first, X, objective, gap, solved - started, time.perf_counter() - solved)


def _choose(policy: Policy, compiled: Compiled, first: Point, solver: SolverName) -> Floats:
    """Choose among the optima (see `apportion.policies.second_stage`); the variables take it."""
    p = compiled.p
    gain, squares = relative_throughput(p.instance), evenness(p.instance)
    kept = policy.final_levels(p)
    if kept is None and not compiled.program.is_linear_program:
        value = compiled.objective()
        worse = value + (-1 if compiled.maximises else 1) * 1e-9 * abs(value)
        kept = policy.keeping(p, worse)
    if kept is not None:
        spending = Compiled.of(
            p, cp.Maximize(cp.sum(cp.multiply(gain, p.X))), [*policy.constraints(p), *kept]
        )
        best = optimise(spending.program, solver)
        if best.status != "optimal":
            return compiled.X_at(first)
        best = most_even(spending.program, best, spending.over_columns(squares, power=2))
        return spending.X_at(best)
    if isinstance(p.scale, cp.Variable):
        toward = compiled.toward_smaller_scale(p.scale)
    else:
        toward = compiled.over_columns(gain)
    weights = compiled.over_columns(squares, power=2)
    return compiled.X_at(choose_among_optima(compiled.program, first, toward, weights, solver))
