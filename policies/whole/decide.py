"""From a policy and an instance to a whole decision, proved where it can be.

One road: the problem is stated, its relaxation, in which jobs could divide their time, is solved,
and the best decision is found by a dynamic programme near the prices of the relaxation where jobs
share nothing but capacities, else by HiGHS's branch and bound. Of decisions that are equal but for
rounding, the one is taken in which more jobs keep the option that they have; of those the first
that is found, which depends on the order of jobs and options in the instance alone
(`apportion.policies.solver` puts them in an order of its own).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import cvxpy as cp
import highspy
import numpy as np

from apportion.errors import InfeasibleError, SolveError
from apportion.policies.core.certificate import dual_bound, relative_gap, violation
from apportion.policies.core.classes import reduce
from apportion.policies.core.conic import optimum
from apportion.policies.core.highs import SIMPLEX, pass_program, quiet_solver
from apportion.policies.core.unsolvable import no_optimum
from apportion.policies.solution import ACCURATE, Solution
from apportion.policies.whole.dynamic_programme import NEVER, Choices, bits_of
from apportion.policies.whole.in_order import serve_in_order
from apportion.policies.whole.statement import state
from apportion.policies.whole.valid import check_decision, check_pins
from apportion.ties import ranks

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.core.classes import Reduction
    from apportion.policies.instance import Instance
    from apportion.policies.whole.statement import WholeProgram
    from apportion.types import Bools, Floats, Ints


_ROUNDING, _ZERO = 1e-12, 1e-6
"""Gap that is none; part of the largest cost below which an objective is about zero."""
_BITS, _STAY = 46, 64
"""Bits of the largest cost in the dynamic programme, and what it is worth there to keep an option:
of decisions that are equal but for that, the one is taken in which more jobs keep theirs."""
_STAYING, _LARGEST = 1e-10, 1e4
"""The same for HiGHS, in parts of the largest cost, and the largest cost that it sees: it counts
what is below some 1e-8 as nothing."""
_MORE = 1e-6
"""Part of all capacities that the relaxation puts to them: where it leaves a choice of prices they
are then those of the least worth of all there is."""
_MOST_CELLS = 10**7
_SEARCH = SIMPLEX | {"mip_feasibility_tolerance": 1e-8, "mip_rel_gap": 0.0}


def without_noise(numbers: Floats) -> Floats:
    """Return numbers of which those that differ by rounding only are equal, to about 12 digits."""
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest == 0.0:
        return np.zeros_like(numbers)
    step = 2.0 ** (np.ceil(np.log2(largest)) - 40)
    rank = ranks(numbers, absolute=_ROUNDING * largest, relative=0.0)
    first = np.full(int(rank.max()) + 1, np.inf)
    np.minimum.at(first, rank, numbers)
    return np.asarray((np.rint(first / step) * step)[rank], dtype=float)


class Decided(NamedTuple):
    """A decision over the columns of a program.

    `bound` is of the minimised objective, `y` are dual values of the rows of the relaxation;
    `proved_by` is empty where a limit struck.
    """

    x: Floats
    bound: float
    y: Floats
    proved_by: str


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
    serve = getattr(policy, "serves_in_order", None)
    reduction, whole = _posed(policy, instance, group and serve is None)
    deadline = started + time_limit_s
    if serve is None:
        decided = best_decision(whole, deadline, max(gap, _ROUNDING))
    else:
        x, proved = serve_in_order(whole, serve(whole.p), deadline, best_decision)
        bound, nan = whole.value(x) if proved else -np.inf, np.full(whole.program.b.size, np.nan)
        decided = Decided(x, bound, nan, "turn by turn" if proved else "")
    return _solution(reduction, whole, decided, time.perf_counter() - started, gap)


def _posed(policy: Policy, instance: Instance, group: bool) -> tuple[Reduction, WholeProgram]:
    """State the problem over classes if that is exact: if the objective is a sum over jobs."""
    reduction = reduce(policy, instance, group, None)
    whole = state(policy, reduction.believed)
    if whole.is_sum or reduction.believed.jobs == instance.jobs:
        return reduction, whole
    single = reduce(policy, instance, False, None)
    reduction = replace(single, kind="none (the objective is no sum over jobs)")
    return reduction, state(policy, reduction.believed)


def best_decision(whole: WholeProgram, deadline: float, gap: float) -> Decided:
    """Find the best decision: by the dynamic programme, or by branch and bound.

    Raises
    ------
    InfeasibleError
        If nothing meets the constraints.
    SolveError
        If there is no decision at the deadline, or the objective is unbounded.
    """
    if time.perf_counter() > deadline:
        raise SolveError(f"time_limit_s struck before there was any decision of {whole.policy!r}.")
    c, jobs = without_noise(whole.program.c), whole.p.instance.row_count.sum()
    x, y, bound = _relaxed(whole, c)
    if _ROUNDING * whole.largest_cost * jobs > gap * abs(bound):  # that would hide what is asked
        c = whole.program.c
        x, y, bound = _relaxed(whole, c)
    asked, nobody_stays = gap * abs(bound), not whole.p.current.any()
    feasible = violation(whole.program, x) <= _ROUNDING
    if nobody_stays and feasible and whole.value(x) - bound <= asked:
        return Decided(x, bound, y, "relaxation")
    open_ = _open_options(whole)
    if open_ is not None:
        half = (time.perf_counter() + deadline) / 2  # the rest is for a search
        known = _by_programme(whole, c, open_, (y, bound, asked), half)
        if known is not None:
            return known
    return _searched(whole, y, bound, asked, deadline)


def _relaxed(whole: WholeProgram, c: Floats) -> tuple[Floats, Floats, float]:
    """Solve the relaxation, at costs that may be rounded.

    Returns
    -------
    x
        Its optimum, rounded where it must be whole.
    y, bound
        Dual values of the rows, at least 0 those of limits, and the bound that they prove.
    """
    program, b = whole.program, whole.program.b.copy()
    b[whole.priced] *= 1 + _MORE
    scaled = replace(program, b=b, c=c).scaled()
    point = optimum(scaled)
    if point.status == "infeasible" and whole.p.instance.pinned.any():
        raise InfeasibleError(
            f"No allocation meets the constraints of {whole.policy!r} with the pinned jobs where "
            f"they are."
        )
    if point.status != "optimal":
        stated = (whole.policy, whole.p, whole.objective, whole.constraints)
        raise no_optimum(*stated, point.status)
    x, y = scaled.column * point.x, scaled.cost * scaled.row * point.y
    room = 10 * np.maximum(np.abs(x), 1.0)  # bounds free variables well beyond their values
    box = np.maximum(program.lower, -room), np.minimum(program.upper, room)
    bound = dual_bound(program, x, y, *box)
    return np.where(whole.whole, np.rint(x), x), y, bound


def _open_options(whole: WholeProgram) -> Bools | None:
    """Return which options rows can have, the last one being to have nothing.

    Shape (rows, options + 1); ``None`` if single jobs share anything but whole units of resources.
    Rows of the policy about one job each close the options that they forbid.
    """
    program, instance = whole.program, whole.p.instance
    open_ = np.ones((instance.rows, instance.options + 1), dtype=bool)
    open_[:, :-1] = whole.by_cell(program.upper) > 0
    open_[(whole.by_cell(program.lower) > 0).any(axis=1), -1] = False
    if not instance.solo or program.c.size != instance.rows * instance.options:
        return None
    open_[program.equality[whole.priced.stop : whole.own.start], -1] = False
    own = program.A.tocsr()[whole.own].tocoo()
    row, (option, job) = own.coords[0], np.divmod(own.coords[1], instance.rows)
    about, limit = np.zeros(own.shape[0], dtype=np.intp), program.b[whole.own, None]
    about[row] = job
    numbers = (whole.held, instance.row_count)
    plain = all((each == np.rint(each)).all() for each in numbers) and whole.held.min() >= 0
    alone = (about[row] == job).all() and (instance.row_count[about] == 1).all()
    few = instance.row_count.sum() * open_.shape[1] <= _MOST_CELLS >= limit.size * open_.shape[1]
    if not (plain and alone and few):
        return None
    amount = np.zeros((own.shape[0], open_.shape[1]))
    amount[row, option] = own.data
    over = (amount - limit) / np.maximum(1.0, np.abs(limit))
    equal = program.equality[whole.own, None]
    np.logical_and.at(open_, about, np.where(equal, np.abs(over), over) <= _ZERO)
    return open_


def _by_programme(
    whole: WholeProgram,
    c: Floats,
    open_: Bools,
    relaxed: tuple[Floats, float, float],
    deadline: float,
) -> Decided | None:
    """Return the best decision by the dynamic programme, or ``None``.

    Costs are whole numbers of a unit in which values that differ by rounding are equal, or of a
    smaller one where that may hide what is asked for. `relaxed` are dual values of the relaxation,
    its bound, and the distance from it that is asked for.
    """
    y, bound, asked = relaxed
    program, shape = whole.program, whole.p.X.shape
    # GPUs are whole; what is left of them was summed up, and 7.999999999 are 8.
    room = np.floor(program.b[whole.priced] + 1e-9).astype(np.int64)
    if bits_of(room).sum() >= 62:
        return None
    stays = whole.p.current > 0
    bits = min(_BITS, 54 - int(room.max(initial=1)).bit_length())
    jobs = np.repeat(np.arange(shape[0]), whole.p.instance.row_count.astype(np.intp))
    unit = 2.0 ** (np.ceil(np.log2(whole.largest_cost or 1.0)) - bits)
    misled = (1 + _STAY * stays.any()) * jobs.size
    if misled * unit > asked:
        unit = max(asked / (8 * misled), unit * 2.0**-10)
    price = np.rint(y[whole.priced] / unit)
    cost, held = np.zeros(open_.shape), np.zeros((*open_.shape, room.size), dtype=np.int64)
    cost[:, :-1] = whole.by_cell(c) + whole.held @ (price * unit)
    held[:, :-1] = whole.held
    cost = np.where(open_, cost, np.inf)
    cost -= cost.min(axis=1, keepdims=True)
    number = np.minimum(np.rint(cost / unit), NEVER).astype(np.int64)
    number[:, :-1] -= _STAY * stays
    idle = np.minimum(price, 2**56 // (room + 1)).astype(np.int64)
    option = Choices.of(number[jobs], held[jobs], room, idle).best(deadline)
    if option is None:
        return None
    units = np.zeros(open_.shape)
    np.add.at(units, (jobs, option), 1.0)
    x = units[:, :-1].ravel(order="F")
    return Decided(x, max(bound, whole.value(x) - unit * misled), y, "dynamic programme")


def _searched(
    whole: WholeProgram, y: Floats, bound: float, asked: float, deadline: float
) -> Decided:
    """Search for the best decision by branch and bound, by HiGHS."""
    program, stays = whole.program, np.zeros(whole.program.c.size)
    stays[whole.cells] = whole.p.current.ravel(order="F") > 0
    unit = (whole.largest_cost or 1.0) / _LARGEST
    left_s = max(deadline - time.perf_counter(), 0.0)
    solver = quiet_solver({**_SEARCH, "time_limit": left_s, "mip_abs_gap": asked / unit})
    limits = (
        (program.lower, program.upper),
        (
            np.where(program.equality, program.b, -np.inf),
            program.b,
        ),
    )
    cost = program.c / unit - _STAYING * _LARGEST * stays
    pass_program(solver, cost, program.A, *limits, whole.whole)
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    timeout = status == highspy.HighsModelStatus.kTimeLimit
    if status == highspy.HighsModelStatus.kInfeasible:
        raise InfeasibleError(
            f"No whole decision meets the constraints of {whole.policy!r}, though shares of time "
            f"would."
        )
    if info.primal_solution_status != 2:  # HiGHS's word for a point that meets all constraints
        word = str(solver.modelStatusToString(status))
        reason = "time_limit_s struck" if timeout else f"HiGHS stopped ({word})"
        raise SolveError(
            f"{reason} after {left_s:.3g} s of search, and {whole.policy!r} has no decision yet."
        )
    x = np.array(solver.getSolution().col_value)
    x[whole.whole] = np.rint(x[whole.whole])
    bound = max(bound, info.mip_dual_bound * unit + program.offset)
    return Decided(x, bound, y, "" if timeout else "highs")


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


def _solution(
    reduction: Reduction,
    whole: WholeProgram,
    decided: Decided,
    solve_s: float,
    asked: float,
) -> Solution:
    """Bring a decision back to jobs, once it is known to be one."""
    objective = whole.evaluate(decided.x)
    check_decision(whole, decided.x)
    value = -objective if isinstance(whole.objective, cp.Maximize) else objective
    size, bound = _ZERO * whole.largest_cost, min(decided.bound, value)
    gap = relative_gap(value, bound, size) if bound > -np.inf else np.inf
    gap = max(gap, whole.p.inexact)
    units, full = whole.by_cell(decided.x), reduction.full
    X = of_jobs(units, reduction.class_of, full.count) if full.solo else units
    status = "optimal" if gap <= min(max(asked, _ROUNDING), ACCURATE) else "optimal_inaccurate"
    message, proved_by = "", decided.proved_by
    if not proved_by:
        status, proved_by = "time_limit", "nobody: the time limit struck"
        message = f"The time limit struck: the decision is within {gap:.1e} of the best."
    prices = np.zeros(full.capacity.size)
    if whole.program.c.any():  # an objective that nothing changes has no prices
        prices[full.hard] = decided.y[whole.priced]
    stats = {
        "jobs": full.jobs,
        "classes": reduction.believed.jobs,
        "options": full.options,
        "reduction": reduction.kind,
        "solver": proved_by,
        "proved_by": proved_by,
        "solve_s": solve_s,
    }
    by_member = (full.throughput * X[full.member_row]).sum(axis=1) * full.member_share
    made = np.bincount(full.member_job, weights=by_member, minlength=full.jobs).astype(float)
    return Solution(X, made, objective, prices, gap, status, message, stats)
