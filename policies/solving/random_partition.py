"""Partitions: jobs and capacity split at random into parts that are solved one by one.

For instances in which no two jobs are alike and which are too large to be solved whole. Each part
has its share of the jobs of every class and an equal part of every capacity, so that its optimum
is near that of the whole (POP: Narayanan et al., SOSP 2021, sections 3 and 4). How near is not
promised there but known here: prices that hold for the whole bound what any allocation can reach.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError
from apportion.policies.problem import Problem
from apportion.policies.solution import Solution
from apportion.policies.solving.certificate import relative_gap
from apportion.policies.solving.demands import levels_of, posed_value, reported
from apportion.policies.solving.rows import believed, group_identical
from apportion.policies.solving.worst_off.level_bound import as_derivatives, level_bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.types import Ints


def parts_of(instance: Instance, parts: int, seed: int) -> list[Ints]:
    """Split jobs at random, the jobs of every class (throughputs and GPUs) as evenly as can be.

    Parameters
    ----------
    parts
        Number of parts, at most that of the jobs.
    seed
        Seed of the order of classes, and of jobs inside each.
    """
    rng = np.random.default_rng(seed)
    classes, class_of = group_identical(instance, ("scale_factor",))
    place = rng.permutation(classes.jobs)[class_of]
    shuffled = rng.permutation(instance.jobs)
    dealt = shuffled[np.argsort(place[shuffled], kind="stable")]
    return [np.sort(dealt[part::parts]) for part in range(parts)]


def solve_in_parts(
    solve: Callable[[Instance], Solution],
    policy: Policy,
    instance: Instance,
    parts: int,
    seed: int,
) -> Solution:
    """Solve parts of a problem and put them together.

    Parameters
    ----------
    solve
        Solves one part.
    policy
        A policy about the worst off job, so that prices bound its objective.
    instance
        A problem whose rows are single jobs.
    parts, seed
        See `parts_of`.

    Returns
    -------
    Solution
        Its `gap`, also ``stats["loss"]``, is the distance from a bound on the optimum of the whole;
        its `prices` are what one more unit of each resource adds to that bound.

    Raises
    ------
    InputError
        If the policy is none about the worst off job, or has constraints of its own; or if rows are
        not single jobs.
    """
    believed_in = believed(policy, instance)
    levels = levels_of(policy, believed_in) if instance.solo else None
    if levels is None or levels.constrained:
        raise InputError(
            f"partitions do not go with {policy!r} here: they need rows of single jobs and a "
            "policy about the worst off job without constraints of its own, such as "
            "'max_min_fairness', 'makespan' or 'finish_time_fairness'."
        )
    split = parts_of(instance, parts, seed)
    solutions = [
        solve(replace(instance.subset(jobs, instance.count[jobs]), capacity=capacity))
        for jobs in split
        for capacity in (instance.capacity / parts,)
    ]
    X, throughput = np.zeros((instance.rows, instance.options)), np.zeros(instance.jobs)
    for jobs, solution in zip(split, solutions, strict=True):
        X[jobs], throughput[jobs] = solution.X, solution.throughput
    prices = np.mean([solution.prices for solution in solutions], axis=0)
    p = Problem(believed_in)
    p.X.value = X
    objective = posed_value(policy, p)
    bound = level_bound(levels, p, prices, objective)
    loss = relative_gap(objective, bound)
    slope = reported(policy, believed_in, bound)[1]
    prices = slope * as_derivatives(levels, p, prices, bound)
    return Solution(
        X=X,
        throughput=throughput,
        objective=reported(policy, believed_in, objective)[0],
        prices=prices,
        gap=loss,
        # The gap at which solutions are called optimal, see `solve_instance`.
        status="optimal" if loss <= 1e-6 else "optimal_inaccurate",
        message=f"solved in {parts} parts: at most {loss:.2g} of the objective is lost",
        stats={
            "jobs": instance.jobs,
            "options": instance.options,
            "partitions": parts,
            "loss": loss,
            "classes": sum(solution.stats["classes"] for solution in solutions),
            "reduction": solutions[0].stats["reduction"],
            "solver": solutions[0].stats["solver"],
            "solve_s": sum(solution.stats["solve_s"] for solution in solutions),
            "slowest_part_s": max(solution.stats["solve_s"] for solution in solutions),
        },
    )
