"""Partitions: jobs and capacity split at random into parts that are solved one by one.

For instances in which no two jobs are alike and which are too large to be solved whole. Each part
has its share of the jobs of every class and an equal part of every capacity, so that its optimum
is near that of the whole (POP: Narayanan et al., SOSP 2021, sections 3 and 4). How near is not
promised there but known here: prices that hold for the whole bound what any allocation can reach.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from scipy import sparse

from apportion.errors import InputError, SolveError
from apportion.policies.certificate import relative_gap
from apportion.policies.classes import group_identical
from apportion.policies.problem import Problem
from apportion.policies.solution import Solution

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["least_cost", "level_bound", "parts_of", "solve_in_parts"]

_BETWEEN = 1e-13
"""Relative distance of a level that can be paid for from one that cannot, at the end."""


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
        A policy that states its `demand`, so that prices bound its objective.
    instance
        A problem whose rows are single jobs.
    parts, seed
        See `parts_of`.

    Returns
    -------
    Solution
        Its `gap`, also ``stats["loss"]``, is the distance from a bound on the optimum of the whole.

    Raises
    ------
    InputError
        If the policy states no demand, or rows are not single jobs.
    """
    p = Problem(policy.believed(instance)) if instance.solo else None
    if p is None or policy.demand(p, 1.0) is None:
        raise InputError(
            f"partitions do not go with {policy!r} here: they need rows of single jobs and a "
            "policy about the worst off job that states its demand, such as 'max_min_fairness', "
            "'makespan' or 'finish_time_fairness'."
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
    # One GPU more is 1 / parts of one in each part.
    prices = np.mean([solution.prices for solution in solutions], axis=0) / parts
    p.X.value = X
    declared = policy.objective(p)
    objective = float(np.asarray(declared.args[0].value).item())
    bound = level_bound(policy, p, prices, objective, maximises=isinstance(declared, cp.Maximize))
    loss = relative_gap(objective, bound)
    return Solution(
        X=X,
        throughput=throughput,
        objective=policy.reported(objective)[0],
        prices=prices,
        gap=loss,
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


def level_bound(
    policy: Policy, p: Problem, prices: Floats, reached: float, *, maximises: bool
) -> float:
    """Bound the level of a policy by prices: all demands must be worth no more than there is.

    What demands cost at least never falls as levels get better, but it may stay the same for a
    while, at zero where nothing is scarce, and ends where a job is as fast as it can be. So the
    bound is the end of the levels that can be paid for, found by halving, not a root.

    Parameters
    ----------
    p
        The problem; rows are single jobs.
    prices
        Any prices >= 0, shape (resources,).
    reached
        A level that can be reached.

    Raises
    ------
    SolveError
        If that is no level, as a job makes no steps at all.
    """
    if not (np.isfinite(reached) and reached > 0):
        raise SolveError(f"Parts leave a job without any throughput under {policy!r}.")
    instance = p.instance
    each = sparse.kron(sparse.eye_array(instance.options), prices[:, None], format="csr")
    price = np.asarray((instance.usage @ each).toarray(), dtype=float)
    worth = float(instance.capacity @ prices)

    def beyond(level: float) -> float:
        demand = policy.demand(p, level)
        assert demand is not None
        if not (demand <= instance.fastest_throughput).all():
            return worth + 1.0
        return float(instance.count @ least_cost(instance.throughput, price, demand)) - worth

    better = 2.0 if maximises else 0.5
    near, far = reached, reached * better
    while beyond(far) <= 0:
        near, far = far, far * better
    while abs(far - near) > _BETWEEN * abs(near):
        middle = 0.5 * (near + far)
        near, far = (near, middle) if beyond(middle) > 0 else (middle, far)
    return float(far)


def least_cost(throughput: Floats, price: Floats, demand: Floats) -> Floats:
    """Return what it costs each job at least to make the steps/s that it needs.

    The lower convex hull of the options' (throughput, price) and (0, 0), read at the demand: some
    two of these points mix to it.

    Parameters
    ----------
    throughput, price
        Steps/s and price of all its time under each option, shape (jobs, options).
    demand
        Steps/s, at most the fastest throughput, shape (jobs,).
    """
    nothing = np.zeros((throughput.shape[0], 1))
    speed, cost = np.hstack([nothing, throughput]), np.hstack([nothing, price])
    least = np.full(demand.shape, np.inf)
    for low, paid in zip(speed.T, cost.T, strict=True):
        for high, due in zip(speed.T, cost.T, strict=True):
            between = (low <= demand) & (demand <= high)
            part = np.divide(demand - low, high - low, out=np.ones_like(low), where=high > low)
            np.minimum(least, paid + part * (due - paid), out=least, where=between)
    return least
