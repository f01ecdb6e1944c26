"""From a policy and an instance to a certified solution: every layer under `solve`, in order."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InfeasibleError, InputError, SolveError
from apportion.policies.problem import Problem
from apportion.policies.solution import Solution
from apportion.policies.solving.attempts import ACCURATE, Attempted, best_of
from apportion.policies.solving.certificate import relative_gap
from apportion.policies.solving.choice import choose_with_levels
from apportion.policies.solving.declared import DeclaredProblem
from apportion.policies.solving.fallback import isolated_solution
from apportion.policies.solving.options import Fallback, check_options, check_whole
from apportion.policies.solving.posed import posed_value, reported
from apportion.policies.solving.rows.random_partition import solve_in_parts
from apportion.policies.solving.rows.reduction import Reduction, reduce
from apportion.policies.solving.whole.decide import decide
from apportion.policies.solving.whole.fallback import kept_options
from apportion.policies.solving.worst_off.arrow_share import ArrowShare
from apportion.policies.solving.worst_off.levels import reach_level, takes_levels
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.rows.pairs import PairTable
    from apportion.policies.solving.solvers.optimise import SolverName

    Floats = NDArray[np.float64]

__all__ = ["Fallback", "Solution", "solve_instance"]


@one_thread
def solve_instance(
    policy: Policy,
    instance: Instance,
    *,
    pairs: PairTable | None = None,
    group: bool = True,
    intervals: bool = True,
    second_stage: bool = True,
    solver: SolverName = "auto",
    partitions: int = 1,
    seed: int = 0,
    fallback: Fallback = "raise",
    time_limit_s: float | None = None,
    gap: float = 1e-9,
) -> Solution:
    """Solve one allocation problem.

    Parameters
    ----------
    pairs
        Throughputs of jobs that share devices: with them, pairs of jobs become rows too. Only for
        instances whose rows are single jobs.
    group
        Whether identical jobs are solved as one (exact; off for comparison).
    intervals
        Whether jobs that differ in their demands only may be solved together
        (`apportion.policies.solving.rows.demand_intervals`; the objective is the same). Without
        `group` they are not.
    second_stage
        Whether what the objective leaves open is chosen as
        `apportion.policies.solving.second_stage` says.
    solver
        "auto", "highs", "clarabel", or "arrow", the interior point for jobs that are all different
        (`apportion.policies.solving.solvers.arrow_interior_point`); the optimum is the same.
    partitions
        Parts into which jobs and capacity are split at random, each solved apart
        (`apportion.policies.solving.rows.random_partition`): quicker where no two jobs are alike,
        and not optimal.
    seed
        Seed of that split.
    fallback
        "isolated" returns the isolated share if every solver failed, with the status "fallback";
        by default that is an error. Of a policy that decides in whole numbers it is what jobs
        have now, as far as it fits.
    time_limit_s
        Seconds that the search for a whole decision may take, by default `TIME_LIMIT_S`; with a
        decision that is not proved the status is "time_limit". Only for policies with
        ``integral = True``.
    gap
        Relative distance from its bound at which a whole decision is good enough.

    Raises
    ------
    InputError
        If an option has no such value, or does not go with the policy.
    InfeasibleError
        If no allocation meets the constraints; it names the ones that cannot hold together.
    SolveError
        If no solver found an optimum; the message tells what was tried.
    """
    check_options(solver, fallback, partitions)
    limit_s = check_whole(
        policy, solver, partitions, pairs=pairs is not None, time_limit_s=time_limit_s, gap=gap
    )
    if instance.jobs == 0:
        empty = np.zeros((instance.rows, instance.options))
        return Solution(empty, np.zeros(0), float("nan"), np.zeros_like(instance.capacity), 0.0)
    whole = partial(
        _solve_whole,
        policy,
        group=group,
        intervals=intervals,
        second_stage=second_stage,
        solver=solver,
    )
    try:
        if policy.integral:
            return decide(policy, instance, group=group, time_limit_s=limit_s, gap=gap)
        if partitions > 1:
            return solve_in_parts(whole, policy, instance, min(partitions, instance.jobs), seed)
        return whole(instance, pairs=pairs)
    except InfeasibleError:
        raise
    except SolveError as error:
        if fallback == "raise":
            raise
        if policy.integral:
            return kept_options(policy, instance, str(error))
        return isolated_solution(policy, instance, str(error))


def _solve_whole(
    policy: Policy,
    instance: Instance,
    *,
    group: bool,
    intervals: bool,
    second_stage: bool,
    solver: SolverName,
    pairs: PairTable | None = None,
) -> Solution:
    """Reduce, solve in the best of the ways there are, and go back to the jobs."""
    started = time.perf_counter()
    reduction = reduce(policy, instance, group, pairs, intervals=intervals)
    grouped_s = time.perf_counter() - started
    attempts = _attempts(policy, reduction, solver, second_stage, group and intervals)
    best, tried = best_of(attempts)
    return _solution(policy, reduction, best, tried, grouped_s)


def _attempts(
    policy: Policy, reduction: Reduction, solver: SolverName, second_stage: bool, merge: bool
) -> Iterator[tuple[str, Callable[[], Attempted]]]:
    """Name the ways to solve a problem, best first."""
    believed = reduction.believed
    levels = takes_levels(policy, believed, solver, merge)
    if solver == "arrow" and not (levels and ArrowShare.fits(believed)):
        raise InputError(
            f"solver='arrow' does not go with {policy!r} here: it needs a policy about the worst "
            "off job, rows of single jobs and one resource for each option. "
            "Valid for all: auto, highs, clarabel."
        )
    if levels:
        yield "levels", lambda: _by_levels(policy, believed, solver, second_stage, merge)
    declared = DeclaredProblem(policy, reduction, second_stage)
    first: SolverName = "auto" if solver == "arrow" else solver
    yield first, lambda: declared.solve(first)
    if declared.compiled.program.is_linear_program:
        other: SolverName = "highs" if declared.last == "clarabel" else "clarabel"
        yield other, lambda: declared.solve(other)
    yield f"{first}, rescaled", lambda: declared.solve(first, rescaled=True)
    if declared.compiled.program.is_linear_program:
        yield f"{other}, rescaled", lambda: declared.solve(other, rescaled=True)


def _solution(
    policy: Policy,
    reduction: Reduction,
    best: Attempted,
    tried: dict[str, str],
    grouped_s: float,
) -> Solution:
    """Bring an outcome back to jobs, in the words of the policy."""
    objective, slope = reported(policy, reduction.believed, best.objective)
    shares, jobs_of_pairs = reduction.expand(best.X)
    return Solution(
        X=shares,
        throughput=reduction.throughput(best.X),
        objective=objective,
        prices=slope * best.prices,
        gap=best.gap,
        status="optimal" if best.gap <= ACCURATE else "optimal_inaccurate",
        stats={
            "jobs": reduction.full.jobs,
            "classes": reduction.believed.jobs,
            "pairs": len(reduction.pairs),
            "options": reduction.full.options,
            "reduction": reduction.kind,
            "tried": tried,
            "group_s": grouped_s,
            **best.stats,
        },
        pairs=jobs_of_pairs,
    )


def _by_levels(
    policy: Policy, believed: Instance, solver: SolverName, second_stage: bool, merge: bool
) -> Attempted:
    """Solve level by level; with further objectives the first level is only what bounds it."""
    started = time.perf_counter()
    p = Problem(believed)
    chosen = choose_with_levels(
        policy, p, "auto" if solver == "arrow" else solver, second_stage=second_stage
    )
    chosen_s = time.perf_counter() - started
    further = chosen is not None
    reached = reach_level(
        policy,
        believed,
        solver=solver,
        second_stage=second_stage and not further,
        merge=merge and not further,
    )
    X, objective, gap = reached.X, reached.objective, reached.gap
    if chosen is not None:
        X, objective = chosen.X, posed_value(policy, p)
        gap = max(relative_gap(objective, reached.bound), chosen.missed or 0.0)
    stats = {
        "solver": reached.solver,
        "rows": reached.rows,
        "levels": reached.levels,
        "compile_s": 0.0,
        "solve_s": reached.solve_s,
        "second_stage_s": chosen_s if further else reached.second_stage_s,
    }
    if reached.merged:
        stats["reduction"] = "demand intervals"
    return Attempted(X, objective, gap, reached.prices, stats)
