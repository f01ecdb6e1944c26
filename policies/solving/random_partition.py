"""Partitions: jobs and capacity split at random into parts that are solved one by one.

For instances in which no two jobs are alike and which are too large to be solved whole. Each part
has its share of the jobs of every class and an equal part of every capacity, so that its optimum
is near that of the whole (POP: Narayanan et al., SOSP 2021, sections 3 and 4). How near is not
promised there but known here: prices that hold for the whole bound what any allocation can reach.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from apportion.errors import InputError
from apportion.policies.problem import Problem
from apportion.policies.solution import Solution
from apportion.policies.solving.certificate import relative_gap
from apportion.policies.solving.demands import levels_of, posed_value, reported
from apportion.policies.solving.rows import believed, group_identical

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.worst_off.declared_levels import Levels
    from apportion.types import Floats, Ints


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
    levels = _levels_in_parts(policy, believed_in)
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
            **_stats([solution.stats for solution in solutions]),
        },
    )


def _levels_in_parts(policy: Policy, instance: Instance) -> Levels:
    """Return the levels of a policy that can be solved in parts; refuse another."""
    levels = levels_of(policy, instance) if instance.solo else None
    if levels is None or levels.constrained:
        raise InputError(
            f"partitions do not go with {policy!r} here: they need rows of single jobs and a "
            "policy about the worst off job without constraints of its own, such as "
            "'max_min_fairness', 'makespan' or 'finish_time_fairness'."
        )
    return levels


def _stats(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the parts of a solution say of how they were solved."""
    return {
        "classes": sum(part["classes"] for part in parts),
        "reduction": parts[0]["reduction"],
        "solver": parts[0]["solver"],
        "solve_s": sum(part["solve_s"] for part in parts),
        "slowest_part_s": max(part["solve_s"] for part in parts),
    }


_BETWEEN = 1e-13
"""Relative distance of a level that can be paid for from one that cannot, at the end."""
_ANY = 1e-290
"""A level that can be had for nothing."""
_KINK = 1e-9
"""Distance of a demand from an option's throughput, relative to the fastest, taken for none."""


def level_bound(levels: Levels, p: Problem, prices: Floats, reached: float) -> float:
    """Bound the level by prices: all demands must be worth no more than there is.

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
        A level that can be reached; any will do where that is none, as a job makes no steps at all.
    """
    if not (np.isfinite(reached) and reached > 0):
        reached = _ANY if levels.maximised else 1 / _ANY
    instance, price = p.instance, _price_of_time(p, prices)
    worth = instance.worth(prices)

    def beyond(level: float) -> float:
        demand = levels.demand(level)
        if not (demand <= instance.fastest_throughput).all():
            return worth + 1.0
        return float(instance.count @ least_cost(instance.throughput, price, demand)) - worth

    better = 2.0 if levels.maximised else 0.5
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


def as_derivatives(levels: Levels, p: Problem, prices: Floats, bound: float) -> Floats:
    """Scale prices to what one more unit of each resource adds to the level that they prove.

    At that level L the demands are worth what there is: ``cost(L) = prices @ capacity``. So one
    more unit of a resource moves L by ``price / cost'(L)``, and prices for which ``cost'(L) = 1``
    are these derivatives. Where the cost has a kink, any slope between those of its sides is one.
    Where the level ends before all is spent, as a job is as fast as it can be, no unit adds to it.

    Parameters
    ----------
    prices
        Any prices >= 0, shape (resources,); the level that they prove does not hang on their size.
    bound
        That level, from `level_bound`.
    """
    instance, price = p.instance, _price_of_time(p, prices)
    fast = instance.fastest_throughput
    demand = np.minimum(levels.demand(bound), fast)
    spent = float(instance.count @ least_cost(instance.throughput, price, demand))
    if spent < (1 - _KINK) * instance.worth(prices):
        return np.zeros_like(prices)
    change = instance.count * levels.rise(bound)
    if not np.isfinite(change).all():  # the level is at its end: a job would have to be done by now
        return prices
    slopes = least_cost_slopes(instance.throughput, price, demand)
    low, high = (float((slope[change > 0] * change[change > 0]).sum()) for slope in slopes)
    if low > 1:
        return prices / low
    return prices / high if 0 < high < 1 else prices


def _price_of_time(p: Problem, prices: Floats) -> Floats:
    """Price of all its time under each option, for each job, shape (jobs, options)."""
    instance = p.instance
    each = sparse.kron(sparse.eye_array(instance.options), prices[:, None], format="csr")
    return np.asarray((instance.usage @ each).toarray(), dtype=float)


def least_cost_slopes(throughput: Floats, price: Floats, demand: Floats) -> tuple[Floats, Floats]:
    """Return the slopes of `least_cost` on both sides of each demand, the higher one second.

    Every option lies on or above the hull, and its next corners do so on it: seen from the point
    on the hull, they are the steepest on the left and the flattest on the right. There is no right
    side, and the slope is infinite, where a demand is all that a job can make.
    """
    nothing = np.zeros((throughput.shape[0], 1))
    speed, cost = np.hstack([nothing, throughput]), np.hstack([nothing, price])
    here = least_cost(throughput, price, demand)[:, None]
    run, near = speed - demand[:, None], _KINK * speed.max(axis=1, keepdims=True)
    slope = np.divide(cost - here, run, out=np.zeros_like(run), where=np.abs(run) > near)
    left = np.where(run < -near, slope, -np.inf).max(axis=1)
    right = np.where(run > near, slope, np.inf).min(axis=1)
    return np.maximum(left, 0.0), np.maximum(right, 0.0)
