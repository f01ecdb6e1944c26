"""Problems of single jobs whose objective has a `Form`: who gets what, at what prices, and proof.

All jobs at their best if there is room. Else up to some 200 rows one linear program that stays in
HiGHS; above, prices of the resources decide. An ``inverse`` level takes a few steps of Newton's
method. Of several optima the second stage takes

1. the largest total throughput, each job's relative to its equal share;
2. of those the least sum of ``GPUs * X**2 / capacity``, exactly; above 200 rows a vertex that
   depends on the content of the problem only.

The gap compares the objective with the dual value at the prices, computed anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import SolveError
from apportion.policies.core.bargains import best_bargains
from apportion.policies.core.even import most_even
from apportion.policies.core.jobs import arrays, rounded
from apportion.policies.core.least_prices import least_prices
from apportion.policies.core.logarithms import maximise_logarithms
from apportion.policies.core.prices import Gain, Level, maximise
from apportion.policies.core.program import Program
from apportion.policies.solution import Attempted

if TYPE_CHECKING:
    from apportion.policies.core.forms import Form
    from apportion.policies.core.jobs import Jobs
    from apportion.policies.core.program import Point
    from apportion.policies.instance import Instance
    from apportion.types import Floats

PROGRAM_ROWS = 200
"""Rows up to which one linear program is quicker than prices."""
CONE_ROWS = 1000
"""Rows up to which an interior point finds the first point of a sum of logarithms."""
PROVED = 1e-9
"""Gap of an optimum that is proved."""


@dataclass(eq=False)
class Answer:
    """Shares, objective as stated, certified relative gap, prices, and which way found them."""

    X: Floats
    objective: float
    gap: float
    prices: Floats
    solver: str


def is_plain(instance: Instance) -> bool:
    """Whether rows are single jobs that can run, and all resources are limited."""
    hard = instance.capacity.size == instance.hard.size
    if not (hard and instance.solo and instance.options):
        return False
    further = instance.capacity[instance.accelerators :]
    there = instance.capacity[instance.option_accelerator] > 0
    able = ((instance.throughput > 0) & there).any(axis=1)
    return bool((further > 0).all() and able.all())


def solve(
    form: Form,
    instance: Instance,
    *,
    second_stage: bool = True,
    start: Program | None = None,
) -> Attempted:
    """Solve a problem for which `is_plain` holds.

    Parameters
    ----------
    start
        What the last solve of the same policy has left.

    Raises
    ------
    SolveError
        If no way of solving it ends with an optimum.
    """
    jobs, order = arrays(instance, form.limits, form.k)
    found = optimum(form.reordered(order.rows, order.options), jobs, second_stage, start)
    return Attempted(
        order.shares(found.X, instance),
        found.objective,
        max(found.gap, form.inexact),
        order.prices(found.prices, instance),
        {"solver": found.solver, "rows": jobs.n},
    )


def optimum(
    form: Form, jobs: Jobs, second_stage: bool = True, start: Program | None = None
) -> Answer:
    """Solve the problem of a form over jobs."""
    none = np.zeros(jobs.capacity.size)
    if (X := room_for_all(form, jobs)) is not None:
        return Answer(X, form.value(jobs.speed(X), X), 0.0, none, "room for all")
    if form.kind == "ratio":
        X, best = best_bargains(form, jobs)
        value = form.value(jobs.speed(X), X)
        return Answer(X, value, gap_of(value, best), none, "bargains")
    if form.kind == "log":
        return _logarithms(form, jobs, second_stage)
    if jobs.n <= PROGRAM_ROWS:
        found = _by_program(form, jobs, start or Program(), second_stage)
        if found.gap <= PROVED:
            return found
        other = _by_prices(form, jobs, second_stage)
        return other if other.gap < found.gap else found
    return _by_prices(form, jobs, second_stage)


def room_for_all(form: Form, jobs: Jobs) -> Floats | None:
    """Return every job on its fastest option if there is room, each has one, and faster is better.

    ``None`` otherwise.
    """
    if form.kind == "ratio" or not (form.k > 0).all():
        return None
    fastest = jobs.fastest[:, None] * (1 - 1e-12) <= jobs.T
    X = fastest.astype(float)
    alone = int(np.count_nonzero(fastest)) == jobs.n
    return X if alone and (jobs.used(X) <= jobs.capacity).all() else None


def gap_of(value: float, bound: float, size: float = 1e-300) -> float:
    """Return the distance of a value from its bound, relative to the larger, at least `size`."""
    return abs(value - bound) / max(abs(value), abs(bound), size)


def _spending(jobs: Jobs) -> Floats:
    """Return what a step/s of each job adds to the total that is spent, (rows,)."""
    return 1.0 / np.where(jobs.reference > 0, jobs.reference, np.inf)


def _gains(form: Form, jobs: Jobs) -> Gain:
    return Gain(jobs, form.k / jobs.count, log=form.kind == "log")


def _levels(form: Form, jobs: Jobs, low: float = -np.inf) -> Level:
    """Return the levels of a form up to the one at which a job is at its fastest."""
    top = form.level_of(jobs.fastest)
    return Level(jobs, form.demand, low, top)


def _answer(form: Form, jobs: Jobs, X: Floats, bound: float, prices: Floats, by: str) -> Answer:
    """Compare shares with a bound on the level, or on the sum without its constant.

    A sum of logarithms may be 0; it rises by the sum of k if all jobs are e times as fast.
    """
    value = form.value(jobs.speed(X), X)
    sign = 1.0 if form.maximise else -1.0
    most = sign * (bound if form.about_worst else bound + form.constant)
    size = float(form.k.sum()) if form.kind == "log" else 1e-300
    return Answer(X, value, gap_of(value, most, size), prices, by)


def _by_program(form: Form, jobs: Jobs, program: Program, second_stage: bool) -> Answer:
    """Solve one linear program; for an inverse level one for each step of Newton's method."""
    need: Floats | None = None
    t = 0.0
    if form.about_worst:
        dual: Level | Gain = (levels := _levels(form, jobs))
        t = levels.top
        for _ in range(60):  # from beyond the optimum; prices say which level cannot be passed
            wanted = form.demand(t)[0]
            point = program.level(jobs, wanted)
            if form.kind == "level" or point.part >= 1 - 1e-11:
                break
            t = min(t, dual.bound(point.prices, 60)[0])
        part = min(point.part, 1.0)
        t, need = (t * part if form.kind == "level" else t), wanted * part
        worth = float(point.need @ form.demand(t)[1])
        at_top = dual.top - t <= 1e-12 * abs(t)  # or a last digit would decide on prices
        prices = 0 * point.prices if at_top else point.prices / max(worth, 1e-300)
        if at_top:  # any shares with what is needed are optimal
            point = replace(point, free=jobs.T > 0, tight=np.zeros_like(point.tight))
        levels.t = min(t, levels.top)  # a step from the optimum is enough
        bound = dual.bound(prices)[0] if prices.any() else dual.top
    else:
        dual = _gains(form, jobs)
        point = program.gain(jobs, (form.k / jobs.count)[:, None] * jobs.T)
        prices = point.prices
        bound = dual.bound(prices)[0]
    X = jobs.fit(point.X, need)
    if prices.any() and not point.has_one_price:
        prices = least_prices(dual, X, prices, t)
    if second_stage and not point.is_unique:
        X = jobs.fit(_chosen(program, jobs, point, need), need)
    return _answer(form, jobs, X, bound, prices, "highs")


def _chosen(program: Program, jobs: Jobs, first: Point, need: Floats | None) -> Floats:
    """Spend most among the optima of a program, then most evenly."""
    gain = rounded(_spending(jobs)[:, None] * jobs.T, 30)
    try:
        second = program.spend(jobs, gain, first).among(first)
    except SolveError:
        return first.X
    if second.is_unique:
        return second.X
    return most_even(jobs, second.X, second.free, second.tight, need)


def _by_prices(form: Form, jobs: Jobs, second_stage: bool) -> Answer:
    """Solve by prices of the resources, then spend what is left."""
    first = jobs.equal_shares()
    if form.about_worst:
        dual: Level | Gain = _levels(form, jobs, form.level_of(jobs.speed(first)))
        start = 1.0 / jobs.capacity
    else:
        dual = _gains(form, jobs)
        worth = float(form.k @ jobs.fastest) / float(jobs.capacity.sum())
        start = np.full(jobs.capacity.size, max(worth, 1e-300))
    found = maximise(dual, start, first)
    X, prices, need = found.X, found.prices, None
    scarce = (prices * jobs.capacity).min() > 1e-12 * (prices @ jobs.capacity)
    if form.about_worst:
        need = np.minimum(form.demand(min(found.value, found.bound))[0], jobs.fastest)
        if X is None or (second_stage and not scarce):
            X = _spent(jobs, need, X)
    if X is None:
        raise SolveError("prices: no shares reach the level")
    X = jobs.fit(X, need)
    if prices.any() and not found.are_unique:
        prices = least_prices(dual, X, prices, found.value)
    return _answer(form, jobs, X, found.bound, prices, "prices")


def _spent(jobs: Jobs, need: Floats, first: Floats | None) -> Floats | None:
    """Return shares that spend most, relative to equal shares, with what is needed."""
    worth = rounded(_spending(jobs) * jobs.fastest, 30) / jobs.fastest
    size = float(jobs.count @ (worth * jobs.fastest)) / float(jobs.capacity.sum())
    start = np.full(jobs.capacity.size, size)
    try:
        return maximise(Gain(jobs, worth, need * (1 - 1e-13)), start, first).X
    except SolveError:
        return first


def _logarithms(form: Form, jobs: Jobs, second_stage: bool) -> Answer:
    """Solve a sum of logarithms; what jobs make is the same in all optima."""
    start = None
    if jobs.n > CONE_ROWS:
        jobs.groups = 1
        equal, size = jobs.equal_shares(), float(form.k.sum()) / float(jobs.capacity.sum())
        found = maximise(_gains(form, jobs), np.full(jobs.capacity.size, size), equal)
        assert found.X is not None
        start = found.X, found.prices
    center = maximise_logarithms(jobs, form.k, start)
    X, prices = jobs.fit(center.X), center.prices
    bound = _gains(form, jobs).bound(prices)[0]
    answer = _answer(form, jobs, X, bound, prices, "clarabel" if start is None else "prices")
    speed = jobs.speed(X)
    if jobs.n <= PROGRAM_ROWS:
        prices = least_prices(Gain(jobs, form.k / jobs.count / speed), X, prices)
        if second_stage:
            tight = np.concatenate([prices > 0, center.busy, np.ones(jobs.n, bool)])
            X = jobs.fit(most_even(jobs, X, center.used, tight, speed))
        even = _answer(form, jobs, X, bound, prices, answer.solver)
        answer = even if even.gap <= max(answer.gap, PROVED) else replace(answer, prices=prices)
    return answer
