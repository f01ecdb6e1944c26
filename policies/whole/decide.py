"""From a policy and an instance to a whole decision, proved where it can be.

One road: the problem is stated, its relaxation is solved, and the best decision near it is found by
a dynamic programme where jobs share nothing but capacities, else by branch and bound. Of decisions
that are equal but for rounding, the one is taken in which more jobs keep the option that they have;
of those the first that is found, which depends on the order of jobs and options in the instance
alone (`apportion.policies.solver` puts them in an order of its own).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.core.classes import reduce
from apportion.policies.solution import ACCURATE, Solution
from apportion.policies.whole.dynamic_programme import NEVER, Choices, Decision, bits_of
from apportion.policies.whole.in_order import serve_in_order
from apportion.policies.whole.relaxation import NOISE, relax, search, without_noise
from apportion.policies.whole.statement import state
from apportion.policies.whole.valid import check_decision, check_pins

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.core.classes import Reduction
    from apportion.policies.instance import Instance
    from apportion.policies.whole.relaxation import Relaxed
    from apportion.policies.whole.statement import WholeProgram
    from apportion.types import Bools, Floats, Int64s, Ints


_ROUNDING, _ZERO = 1e-12, 1e-6
"""Gap that is none; part of the largest cost below which an objective is about zero."""
_BITS, _FEWER_BITS, _STAY = 46, 40, 64
"""Bits of the largest cost in the dynamic programme, or of what a known decision costs above the
bound; and what it is worth to keep an option."""
_MOST_CELLS = 10**7


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
    """A decision over the columns of a program.

    `bound` is of the minimised objective, `y` are dual values of the rows of the relaxation;
    `proved_by` is empty where a limit struck.
    """

    x: Floats
    bound: float
    y: Floats
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
    serve = getattr(policy, "serves_in_order", None)
    reduction, whole = _posed(policy, instance, group and serve is None)
    posed, deadline = time.perf_counter(), started + time_limit_s
    if serve is not None:
        order = serve(whole.p)
        x, proved, searched = serve_in_order(whole, order, deadline, best_decision)
        bound = whole.value(x) if proved else -np.inf
        stats = {"solver": "in order", "searched": searched}
        nan = np.full(whole.most.size, np.nan)
        decided = Decided(x, bound, nan, "turn by turn" if proved else "", stats)
    else:
        decided = best_decision(whole, deadline, max(gap, _ROUNDING))
    seconds = {"compile_s": posed - started, "solve_s": time.perf_counter() - posed}
    return _solution(reduction, whole, decided, seconds, gap)


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
    """Find the best decision: the relaxation's own, by the dynamic programme, or by a search."""
    relaxed, known = relax(whole, deadline), None
    if relaxed.is_whole(whole) and not whole.stays.any():
        x = np.where(whole.whole, np.rint(relaxed.x), relaxed.x)
        if whole.value(x) - relaxed.bound <= gap * abs(relaxed.bound):
            stats = {"solver": "highs", "nodes": 0}
            return Decided(x, relaxed.bound, relaxed.y, "relaxation", stats)
    table = _Table.of(whole)
    if table is not None:
        half = (time.perf_counter() + deadline) / 2  # the rest is for a search
        known, bound, proved = table.decide(relaxed, half, gap)
        if known is not None and (proved or time.perf_counter() > deadline):
            word, stats = "dynamic programme" if proved else "", {"solver": "dynamic programme"}
            return Decided(known, max(bound, relaxed.bound), relaxed.y, word, stats)
    try:
        found = search(whole, relaxed, known, deadline, gap)
    except SolveError:
        if known is None:
            raise
        return Decided(known, relaxed.bound, relaxed.y, "", {"solver": "dynamic programme"})
    stats = {"solver": "highs", "nodes": found.nodes}
    bound, proved_by = max(relaxed.bound, found.bound), "highs" if found.proved else ""
    return Decided(found.x, bound, relaxed.y, proved_by, stats)


class _Table(NamedTuple):
    """Jobs of one unit that share nothing but capacities, and the options that each can have.

    Attributes
    ----------
    whole
        The program.
    column
        Its column of each option, -1 for none; the last option is to have nothing; shape (rows,
        options).
    open_
        Whether a job can have it, of the same shape.
    held, room
        Units of each resource that options hold, and that there are, shapes (rows, options,
        resources) and (resources,).
    row
        Row of each job, shape (jobs,).
    """

    whole: WholeProgram
    column: Ints
    open_: Bools
    held: Int64s
    room: Int64s
    row: Ints

    @classmethod
    def of(cls, whole: WholeProgram) -> _Table | None:
        """Read a program as one; ``None`` where it is another one, or one of very many units."""
        instance, k = whole.p.instance, whole.cells.size
        count = instance.row_count.astype(np.int64)
        # GPUs are whole; what is left of them was summed up, and 7.999999999 are 8.
        room = np.floor(whole.most[whole.priced] + 1e-9).astype(np.int64)
        held = whole.A[whole.priced].toarray().T
        plain = instance.solo and whole.c.size == k and (count == instance.row_count).all()
        plain = plain and bool((held >= 0).all() and (held == np.rint(held)).all())
        few = bits_of(room).sum() < 62 and count.sum() * instance.options <= _MOST_CELLS
        if not (k and plain and few):
            return None
        row = whole.row_of_cell
        place = np.arange(k) - np.searchsorted(row, row)
        width = int(place.max()) + 2
        column = np.full((instance.rows, width), -1, dtype=np.intp)
        column[row, place] = np.arange(k)
        open_ = column >= 0
        open_[:, -1] = True
        open_[row, place] = whole.upper > 0
        open_[row[whole.lower > 0], -1] = False
        open_[whole.least[whole.priced.stop :] > 0, -1] = False
        if whole.own and not _closed(whole, count, column, open_):
            return None
        taken = np.zeros((*column.shape, room.size), dtype=np.int64)
        taken[row, place] = held
        return cls(whole, column, open_, taken, room, np.repeat(np.arange(count.size), count))

    def decide(
        self, relaxed: Relaxed, deadline: float, gap: float
    ) -> tuple[Floats | None, float, bool]:
        """Return the best decision, a bound of the objective, and if it is proved.

        The costs are those above the bound, from what was found first, where rounding would hide
        what `gap` asks for.
        """
        whole, c = self.whole, without_noise(self.whole.c)
        price = np.maximum(-relaxed.y[whole.priced], 0.0)
        bits = min(_BITS, 54 - int(self.room.max(initial=1)).bit_length())
        largest = whole.largest_cost or 1.0
        unit = 2.0 ** (np.ceil(np.log2(largest)) - bits)
        choices = self._at(c, price, unit)
        share = np.append(relaxed.x, 0.0)[self.column]
        share[:, -1] = 1.0 - share.sum(axis=1)
        found = choices.good(share[self.row], deadline)
        if found is None:
            return None, -np.inf, False
        x = self._decision(found)
        value, stay = whole.value(x), 1 + _STAY * bool(whole.stays.any())
        slack, asked = value - relaxed.bound, gap * abs(value)
        if slack <= asked and stay == 1:
            return x, relaxed.bound, True
        most = found.cost
        if max(stay * unit, NOISE * largest) * self.row.size > asked and slack > 0:
            unit = (slack + _ROUNDING * max(abs(value), largest)) * 2.0**-_FEWER_BITS
            most = 2**_FEWER_BITS + self.row.size * stay
            choices = self._at(whole.c, price, unit)
            found = found._replace(proved=False)
        if not found.proved:
            found = choices.best(most, deadline)
        if found is None:
            return x, -np.inf, False
        x = self._decision(found)
        return x, whole.value(x) - unit * stay * self.row.size, True

    def _at(self, c: Floats, price: Floats, unit: float) -> Choices:
        """Return the choices of jobs at costs and prices in whole units."""
        whole = np.rint(price / unit)
        cost = np.append(c, 0.0)[self.column] + self.held @ (whole * unit)
        cost = np.where(self.open_, cost, np.inf)
        cost -= cost.min(axis=1, keepdims=True)
        stays = np.append(self.whole.stays, False)[self.column]
        number = np.minimum(np.rint(cost / unit), NEVER).astype(np.int64) - _STAY * stays
        idle = np.minimum(whole, 2**56 // (self.room + 1)).astype(np.int64)
        return Choices.of(number[self.row], self.held[self.row], self.room, idle)

    def _decision(self, found: Decision) -> Floats:
        """Return what was found over the columns of the program."""
        x, chosen = np.zeros(self.whole.c.size), self.column[self.row, found.option]
        np.add.at(x, chosen[chosen >= 0], 1.0)
        return x


def _closed(whole: WholeProgram, count: Int64s, column: Ints, open_: Bools) -> bool:
    """Close the options that rows of the policy forbid, if each of these is about one job."""
    own, row = whole.A[: whole.own].tocoo(), whole.row_of_cell
    least, most = whole.least[: whole.own], whole.most[: whole.own]
    about = np.full(whole.own, -1)
    about[own.coords[0]] = row[own.coords[1]]
    alone = (about[own.coords[0]] == row[own.coords[1]]).all() and (about >= 0).all()
    if not alone or (count[about] != 1).any() or whole.own * column.shape[1] > _MOST_CELLS:
        return False
    amount = np.zeros((whole.own, column.shape[1]))
    place = own.coords[1] - np.searchsorted(row, row)[own.coords[1]]
    amount[own.coords[0], place] = own.data
    room = _ZERO * np.maximum(1.0, np.abs(most))[:, None]
    meets = (amount >= least[:, None] - room) & (amount <= most[:, None] + room)
    np.logical_and.at(open_, about, meets)
    return True


def _solution(
    reduction: Reduction,
    whole: WholeProgram,
    decided: Decided,
    seconds: dict[str, float],
    asked: float,
) -> Solution:
    """Bring a decision back to jobs, once it is known to be one."""
    objective = whole.evaluate(decided.x)
    check_decision(whole, decided.x)
    value = -objective if isinstance(whole.objective, cp.Maximize) else objective
    gap = max(_gap(whole, value, decided.bound), whole.p.inexact)
    units, full = whole.units(decided.x), reduction.full
    X = of_jobs(units, reduction.class_of, full.count) if full.solo else units
    status = "optimal" if gap <= min(max(asked, _ROUNDING), ACCURATE) else "optimal_inaccurate"
    message, proved_by = "", decided.proved_by
    if not proved_by:
        status, proved_by = "time_limit", "nobody: the time limit struck"
        message = f"The time limit struck: the decision is within {gap:.1e} of the best."
    prices = np.zeros(full.capacity.size)
    if whole.c.any():  # an objective that nothing changes has no prices
        prices[full.hard] = np.maximum(-decided.y[whole.priced], 0.0)
    stats = {
        "jobs": full.jobs,
        "classes": reduction.believed.jobs,
        "options": full.options,
        "reduction": reduction.kind,
        "proved_by": proved_by,
        **seconds,
        **decided.stats,
    }
    by_member = (full.throughput * X[full.member_row]).sum(axis=1) * full.member_share
    made = np.bincount(full.member_job, weights=by_member, minlength=full.jobs).astype(float)
    return Solution(X, made, objective, prices, gap, status, message, stats)


def _gap(whole: WholeProgram, value: float, bound: float) -> float:
    """Distance of a minimised value from its bound, relative to them and, about zero, to costs."""
    largest = whole.largest_cost
    if bound >= value or largest == 0.0:
        return 0.0
    if bound == -np.inf:
        return float("inf")
    return (value - bound) / max(abs(value), abs(bound), _ZERO * largest)
