"""From a policy and an instance to a whole decision, proved where it can be."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.errors import SolveError
from apportion.policies.base import ServesInOrder
from apportion.policies.problem import Problem
from apportion.policies.solution import ACCURATE, Solution
from apportion.policies.solving.certificate import relative_gap
from apportion.policies.solving.copies import check_stated
from apportion.policies.solving.rows import believed, reduce
from apportion.policies.solving.whole.at_prices import decide_at_prices
from apportion.policies.solving.whole.branch_and_bound import branch_and_bound
from apportion.policies.solving.whole.by_states import by_states
from apportion.policies.solving.whole.dynamic_programme import chain_of, price_of
from apportion.policies.solving.whole.in_order import decide_in_order
from apportion.policies.solving.whole.program import NOISE, rounded_down
from apportion.policies.solving.whole.relaxation import relax, search
from apportion.policies.solving.whole.statement import state
from apportion.policies.solving.whole.valid import check_decision, check_pins

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.rows import Reduction
    from apportion.policies.solving.whole.dynamic_programme import Chain
    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.policies.solving.whole.relaxation import Relaxed
    from apportion.types import Floats, Ints


_ROUNDING, _ZERO = 1e-12, 1e-6
"""Gap that is none; part of the largest cost below which an objective is about zero."""


def of_jobs(units: Floats, class_of: Ints, count: Floats) -> Floats:
    """Give the units of each class to its jobs, in the order of the jobs, shape (jobs, options).

    The first jobs of a class get its first option, until its units are gone, then its second.

    Parameters
    ----------
    units
        Units of each class under each option, shape (classes, options).
    class_of, count
        Class of each job, and the units that it has, shape (jobs,).

    Returns
    -------
    X
        Part of each job's units under each option: 0 or 1 for a job of one unit.
    """
    order = np.argsort(class_of, kind="stable")
    before = np.cumsum(count[order]) - count[order]
    first = np.searchsorted(class_of[order], np.arange(units.shape[0]))
    begin = np.empty(count.size)
    begin[order] = before - before[first][class_of[order]]
    until = np.cumsum(units, axis=1)[class_of]
    since = until - units[class_of]
    mine = np.minimum(until, (begin + count)[:, None]) - np.maximum(since, begin[:, None])
    return np.asarray(np.maximum(mine, 0.0) / count[:, None], dtype=float)


class Decided(NamedTuple):
    """A whole decision about classes, over the columns of a program, and what is known of it.

    `bound` is of the objective as it is minimised; `proved_by` is empty where a limit struck, and
    `relaxed` where no relaxation was solved.
    """

    x: Floats
    bound: float
    prices: Floats
    proved_by: str
    stats: dict[str, Any]
    relaxed: Relaxed | None = None


def decide(
    policy: Policy,
    instance: Instance,
    *,
    group: bool,
    time_limit_s: float,
    gap: float,
) -> Solution:
    """Decide for each job which option it has, if any.

    Parameters
    ----------
    policy
        A policy with ``integral = True``.
    group
        Whether identical jobs are solved as one, where the objective is a sum over jobs.
    time_limit_s
        Seconds that the search may take.
    gap
        Relative distance from the bound at which it stops.

    Raises
    ------
    InputError
        If the problem is not linear, or pins cannot hold.
    InfeasibleError
        If no whole decision meets the constraints.
    SolveError
        If the limit struck before there was a decision.
    """
    started = time.perf_counter()
    check_pins(instance)
    if isinstance(policy, ServesInOrder):
        told = believed(policy, instance)
        order = policy.serves_in_order(Problem(told))
        found = decide_in_order(policy, told, order, decide, time_limit_s=time_limit_s)
        return replace(found, throughput=(instance.throughput * found.X).sum(axis=1))
    quick = at_prices(policy, instance, deadline=started + time_limit_s, gap=gap)
    if quick is not None:
        return quick
    reduction, whole = _posed(policy, instance, group)
    posed = time.perf_counter()
    chain = chain_of(whole)
    if chain is not None:
        decided = _settled(whole, _by_chain(whole, chain), started + time_limit_s, gap)
    else:
        decided = _by_search(whole, started + time_limit_s, gap)
    return _solution(reduction, whole, decided, posed - started, gap)


def at_prices(
    policy: Policy, instance: Instance, *, deadline: float, gap: float = 1e-9
) -> Solution | None:
    """Decide near the prices of the relaxation; ``None`` where that is not the way.

    Parameters
    ----------
    deadline
        Value of the clock at which the search ends.
    gap
        Part of the objective that rounding, and keeping options, may not hide.
    """
    started, told = time.perf_counter(), believed(policy, instance)
    if not policy._built_in:
        check_stated(policy, told)
    found = decide_at_prices(policy, told, deadline, gap)
    if found is None:
        return None
    stats = {"jobs": told.jobs, "classes": told.jobs, "options": told.options, "solver": "prices"}
    stats |= {"proved_by": "relaxation" if found.gap > gap else "states"}
    stats["solve_s"] = time.perf_counter() - started
    status = "optimal" if found.gap <= ACCURATE else "optimal_inaccurate"
    message = f"The decision is {_within(found.gap)}." if found.gap > gap else ""
    made = (instance.throughput * found.X).sum(axis=1)
    return Solution(found.X, made, found.objective, found.prices, found.gap, status, message, stats)


def _posed(policy: Policy, instance: Instance, group: bool) -> tuple[Reduction, WholeProgram]:
    """State the problem over classes if that is exact: if the objective is a sum over jobs."""
    reduction = reduce(policy, instance, group, None)
    whole = state(policy, reduction.believed)
    if whole.separable or reduction.believed.jobs == instance.jobs:
        return reduction, whole
    single = reduce(policy, instance, False, None)
    reduction = replace(single, kind="none (the objective is no sum over jobs)")
    return reduction, state(policy, reduction.believed)


def _by_chain(whole: WholeProgram, chain: Chain) -> Decided:
    """Solve by the dynamic programme."""
    started = time.perf_counter()
    taken = chain.decide()
    x = np.zeros(whole.program.c.size)
    np.add.at(x, taken[taken >= 0], 1.0)
    instance, program = whole.p.instance, whole.program
    held = program.A[whole.priced].tocsc()
    resource = int(held.indices[0])
    price, _ = price_of(
        -program.c, held.data, whole.row_of_cell, instance.count, float(instance.capacity[resource])
    )
    prices = np.zeros(instance.capacity.size)
    prices[instance.hard[resource]] = price
    value = program.value(x)
    bound = value - chain.slack
    stats = {"solver": "dynamic programme", "solve_s": time.perf_counter() - started}
    return Decided(x, bound, prices, "dynamic programme", stats)


def _settled(whole: WholeProgram, decided: Decided, deadline: float, gap: float) -> Decided:
    """Search again by distance from the bound, where costs hide what is asked for."""
    value = float(whole.costs @ decided.x) + whole.program.offset
    told, noise = max(gap, _ROUNDING), NOISE * whole.largest_cost * whole.p.instance.jobs
    hidden = noise > told * abs(value) or _gap(whole, value, decided.bound) > told
    if not hidden or not decided.proved_by or time.perf_counter() >= deadline:
        return decided
    started = time.perf_counter()
    relaxed = decided.relaxed or relax(whole, deadline - started)
    near, known = relaxed.from_bound(whole, decided.x)
    try:
        found = branch_and_bound(near, known, budget_s=deadline - time.perf_counter(), gap=gap)
    except SolveError:
        if time.perf_counter() < deadline:
            raise
        return decided
    if found.status != "optimal":
        return decided
    nodes = int(decided.stats.get("nodes", 0)) + found.nodes
    stats = decided.stats | {"nodes": nodes, "settle_s": time.perf_counter() - started}
    x, bound = found.x[: whole.program.c.size], max(relaxed.bound, found.bound)
    return decided._replace(x=x, bound=bound, stats=stats)


def _by_search(whole: WholeProgram, deadline: float, gap: float) -> Decided:
    """Solve the relaxation and, where that is not whole, by branch and bound."""
    started = time.perf_counter()
    relaxed = relax(whole, max(deadline - started, 0.0))
    relaxed_s = time.perf_counter() - started
    stats: dict[str, Any] = {"solver": "highs", "relaxation_s": relaxed_s, "nodes": 0}
    if relaxed.whole and not relaxed.leaves_open(whole):
        x = relaxed.x.copy()
        x[whole.whole] = np.rint(x[whole.whole])
        stats["solve_s"] = time.perf_counter() - started
        decided = Decided(x, relaxed.bound, relaxed.prices, "relaxation", stats, relaxed)
        return _settled(whole, decided, deadline, gap)
    best = rounded_down(whole, relaxed.x)
    told = max(gap, _ROUNDING)
    quick = None if best is None else by_states(whole, relaxed, best, deadline, told)
    found = search(whole, relaxed, deadline, gap) if quick is None else quick
    stats["solve_s"], stats["nodes"] = time.perf_counter() - started, found.nodes
    value = whole.program.value(found.x)
    # With gap=0 as well: sums in another order differ by some 1e-15.
    by_relaxation = relative_gap(value, relaxed.bound) <= max(gap, 1e-12)
    solver = "states" if quick is not None else "highs"
    proved_by = "relaxation" if by_relaxation else solver if found.status == "optimal" else ""
    bound = max(relaxed.bound, found.bound)
    decided = Decided(found.x, bound, relaxed.prices, proved_by, stats, relaxed)
    return decided if quick is not None else _settled(whole, decided, deadline, gap)


def _solution(
    reduction: Reduction, whole: WholeProgram, decided: Decided, posed_s: float, asked: float
) -> Solution:
    """Bring a decision back to jobs, once it is known to be one."""
    objective = whole.evaluate(decided.x)
    check_decision(whole, decided.x)
    value = -objective if whole.maximises else objective
    gap = max(_gap(whole, value, decided.bound), whole.p.inexact)
    units, full = whole.units(decided.x), reduction.full
    X = of_jobs(units, reduction.class_of, full.count) if full.solo else units
    status = "optimal" if gap <= min(max(asked, _ROUNDING), ACCURATE) else "optimal_inaccurate"
    if not decided.proved_by:
        status = "time_limit"
    stats = {
        "jobs": full.jobs,
        "classes": reduction.believed.jobs,
        "options": full.options,
        "reduction": reduction.kind,
        "proved_by": decided.proved_by or "nobody: the time limit struck",
        "compile_s": posed_s,
        **decided.stats,
    }
    message = "" if decided.proved_by else f"The time limit struck: the decision is {_within(gap)}."
    throughput = _throughput(reduction, X)
    return Solution(X, throughput, objective, decided.prices, gap, status, message, stats)


def _gap(whole: WholeProgram, value: float, bound: float) -> float:
    """Distance of a minimised value from its bound, relative to them and, about zero, to costs."""
    largest = whole.largest_cost
    if bound >= value or largest == 0.0:
        return 0.0
    return (value - bound) / max(abs(value), abs(bound), _ZERO * largest)


def _within(gap: float) -> str:
    return f"within {gap:.1e} of the best"


def _throughput(reduction: Reduction, X: Floats) -> Floats:
    """Steps/s of each job at the speeds that jobs have."""
    full = reduction.full
    by_member = (full.throughput * X[full.member_row]).sum(axis=1) * full.member_share
    return np.bincount(full.member_job, weights=by_member, minlength=full.jobs).astype(float)
