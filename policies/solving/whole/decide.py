"""From a policy and an instance to a whole decision, proved where it can be."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.policies.extensions import ServesInOrder
from apportion.policies.problem import Problem
from apportion.policies.solution import ACCURATE, Solution
from apportion.policies.solving.certificate import relative_gap
from apportion.policies.solving.rows import believed, reduce
from apportion.policies.solving.whole.branch_and_bound import branch_and_bound
from apportion.policies.solving.whole.core import search
from apportion.policies.solving.whole.dynamic_programme import chain_of
from apportion.policies.solving.whole.in_order import decide_in_order
from apportion.policies.solving.whole.relaxation import DWARFED, relax
from apportion.policies.solving.whole.rounding import rounded_down
from apportion.policies.solving.whole.statement import state
from apportion.policies.solving.whole.states import by_states
from apportion.policies.solving.whole.valid import check_decision, check_pins

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.rows import Reduction
    from apportion.policies.solving.whole.branch_and_bound import Found
    from apportion.policies.solving.whole.dynamic_programme import Chain
    from apportion.policies.solving.whole.program import WholeProgram
    from apportion.policies.solving.whole.relaxation import Relaxed
    from apportion.types import Floats, Ints


_MOST_STEPS = 100


def price_of(
    value: Floats, amount: Floats, row: Ints, units: Floats, capacity: float
) -> tuple[float, float]:
    """Return the price of the relaxation and its bound.

    Parameters
    ----------
    value, amount, row
        Worth of a unit of each cell, what it holds, and its row; cells of a row lie together.
    units
        Units of each row, shape (rows,).
    capacity
        Amount that there is.
    """
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    count = units[row[starts]]

    def line(price: float) -> tuple[float, float]:
        """Bound at a price, and its slope there."""
        left = value - price * amount
        best = np.maximum.reduceat(left, starts)
        first = np.full(starts.size, np.inf)
        of_row = np.repeat(np.arange(starts.size), np.diff(np.append(starts, row.size)))
        at_best = left >= best[of_row]
        np.minimum.at(first, of_row[at_best], amount[at_best])
        wins = best > 0
        held = float((count * first)[wins].sum())
        return price * capacity + float((count * best)[wins].sum()), capacity - held

    low, high = 0.0, float((value / amount).max())
    (at_low, rises), (at_high, falls) = line(low), line(high)
    if rises >= 0:
        return low, at_low
    for _ in range(_MOST_STEPS):
        meet = low + (at_high - at_low - falls * (high - low)) / (rises - falls)
        lowest = at_low + rises * (meet - low)
        bound, slope = line(meet)
        if not low < meet < high or bound <= lowest + 1e-14 * abs(bound):
            return meet, bound
        if slope < 0:
            low, at_low, rises = meet, bound, slope
        else:
            high, at_high, falls = meet, bound, slope
    return high, at_high


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

    `bound` is of the objective as it is minimised; `proved_by` is empty where a limit struck.
    """

    x: Floats
    bound: float
    prices: Floats
    proved_by: str
    stats: dict[str, Any]


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
    reduction, whole = _posed(policy, instance, group)
    posed = time.perf_counter()
    chain = chain_of(whole)
    if chain is not None:
        decided = _by_chain(whole, chain)
    else:
        decided = _by_search(whole, started + time_limit_s, gap)
    near = _settled(whole, decided, started + time_limit_s)
    if near is not None:
        whole, decided = near, _by_search(near, started + time_limit_s, gap, decided.x)
    return _solution(reduction, whole, decided, posed - started)


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


def _settled(whole: WholeProgram, decided: Decided, deadline: float) -> WholeProgram | None:
    """Return the problem without costs that dwarf its optimum, where there are such."""
    if abs(whole.program.value(decided.x)) >= DWARFED * whole.largest_cost:
        return None
    budget_s = deadline - time.perf_counter()
    if not decided.proved_by or budget_s <= 0:
        return None
    return relax(whole, budget_s).settled(whole, decided.x)


def _by_search(
    whole: WholeProgram, deadline: float, gap: float, known: Floats | None = None
) -> Decided:
    """Solve the relaxation and, where that is not whole, by branch and bound.

    A decision that is `known` to be among the best is where the search begins.
    """
    started = time.perf_counter()
    relaxed = relax(whole, max(deadline - started, 0.0))
    relaxed_s = time.perf_counter() - started
    stats: dict[str, Any] = {"solver": "highs", "relaxation_s": relaxed_s, "nodes": 0}
    if relaxed.whole and not relaxed.leaves_open(whole):
        x = relaxed.x.copy()
        x[whole.whole] = np.rint(x[whole.whole])
        stats["solve_s"] = time.perf_counter() - started
        return Decided(x, relaxed.bound, relaxed.prices, "relaxation", stats)
    quick = _by_states(whole, relaxed, deadline) if known is None else None
    if quick is not None:
        found = quick
    elif known is None:
        found = search(whole, relaxed, deadline, gap)
    else:
        narrow = relaxed.narrowed(whole, relaxed.slack(whole, known))
        left_s = max(deadline - time.perf_counter(), 0.0)
        found = branch_and_bound(narrow, known, budget_s=left_s, gap=gap)
    stats["solve_s"], stats["nodes"] = time.perf_counter() - started, found.nodes
    value = whole.program.value(found.x)
    by_relaxation = relative_gap(value, relaxed.bound) <= max(gap, 1e-12)
    solver = "states" if quick is not None else "highs"
    proved_by = "relaxation" if by_relaxation else solver if found.status == "optimal" else ""
    bound = max(relaxed.bound, found.bound)
    return Decided(found.x, bound, relaxed.prices, proved_by, stats)


def _by_states(whole: WholeProgram, relaxed: Relaxed, deadline: float) -> Found | None:
    """Search near the relaxation, where that is quick."""
    best = rounded_down(whole, relaxed.x)
    return None if best is None else by_states(whole, relaxed, best, deadline)


def _solution(
    reduction: Reduction, whole: WholeProgram, decided: Decided, posed_s: float
) -> Solution:
    """Bring a decision back to jobs, once it is known to be one."""
    objective = whole.evaluate(decided.x)
    check_decision(whole, decided.x)
    value = -objective if whole.maximises else objective
    gap = max(_gap(whole, value, decided.bound), whole.p.inexact)
    units, full = whole.units(decided.x), reduction.full
    X = of_jobs(units, reduction.class_of, full.count) if full.solo else units
    status = "optimal" if gap <= ACCURATE else "optimal_inaccurate"
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
    return (value - bound) / max(abs(value), abs(bound), 1e-3 * largest)


def _within(gap: float) -> str:
    return f"within {gap:.1e} of the best"


def _throughput(reduction: Reduction, X: Floats) -> Floats:
    """Steps/s of each job at the speeds that jobs have."""
    full = reduction.full
    by_member = (full.throughput * X[full.member_row]).sum(axis=1) * full.member_share
    return np.bincount(full.member_job, weights=by_member, minlength=full.jobs).astype(float)
