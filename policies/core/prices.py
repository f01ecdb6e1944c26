"""Dual decomposition: few prices say what thousands of jobs do.

At prices of the resources each job buys the cheapest mix of its options by itself (`mixes`).
Cutting planes over the prices find the best ones (the columns of Dantzig and Wolfe: a value, and
what is used for it). A linear program over the few jobs that are about to change their minds makes
the optimum exact; the dual value at its prices certifies it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import SolveError
from apportion.policies.core.highs import quiet_solver
from apportion.policies.core.jobs import rounded
from apportion.policies.core.kinds import Kinds
from apportion.policies.core.mixes import Mixes, cheapest, most_profitable
from apportion.policies.core.program import KEPT, Program

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.core.jobs import Jobs
    from apportion.types import Bools, Floats, Ints

    Demand = Callable[[float], tuple[Floats, Floats]]

_CLOSE = 2e-10
"""Relative gap at which cutting planes end where no program follows."""
_SETTLED = 1e-12
"""Part of their needs by which a level may differ from the one that all jobs have."""
_FEW = 150
"""Jobs, at least, in the program that makes an optimum exact."""
_CAREFUL = 60
"""Steps in which cutting planes go half of the way only, which saves a third of them.

Not for logarithms, whose last digits they have to find.
"""
_MOST_CUTS, _MOST_ROUNDS = 400, 60
"""Steps of cutting planes, and programs over more and more jobs, at most."""


class _Master:
    """``min q @ capacity + sum over groups of the largest of (value - q @ used)`` over q >= 0.

    One cut a group and step. For levels the value is the level times the share of a group, and the
    shares of all groups sum to 1: they must have the same level.
    """

    def __init__(self, jobs: Jobs, level: bool, zero: Floats | float, unit: float) -> None:
        self.capacity, self.level, self.zero, self.unit = jobs.capacity, level, zero, unit
        self.resources, self.groups = self.capacity.size, jobs.groups
        R, G = self.resources, self.groups
        self.h = h = quiet_solver(KEPT)
        h.addVars(R, np.zeros(R), np.full(R, np.inf))
        h.addVars(G, np.full(G, -np.inf), np.full(G, np.inf))
        h.changeColsCost(R + G, np.arange(R + G, dtype=np.int32), np.ones(R + G))
        if level:
            h.addVars(G, np.zeros(G), np.full(G, np.inf))
            h.addRow(1.0, 1.0, G, np.arange(R + G, R + 2 * G, dtype=np.int32), np.ones(G))

    def bound_prices(self) -> None:
        """Bound all prices, as nothing feasible is known that does."""
        R = self.resources
        self.h.changeColsBounds(R, np.arange(R, dtype=np.int32), np.zeros(R), np.full(R, 1e4))

    def cut(self, value: Floats | float, used: Floats) -> None:
        """Add a column: values and use of the groups, (groups, resources)."""
        R, G = self.resources, self.groups
        relative = (np.broadcast_to(value, (G,)) - self.zero) / self.unit
        row, index = np.zeros((G, R + 1 + self.level)), np.empty((G, R + 1 + self.level), np.int32)
        row[:, :R], row[:, R] = used / self.capacity, 1.0
        index[:, :R], index[:, R] = np.arange(R), R + np.arange(G)
        if self.level:
            row[:, -1], index[:, -1] = -relative, R + G + np.arange(G)
        start = np.arange(G, dtype=np.int32) * row.shape[1]
        low = np.zeros(G) if self.level else relative
        self.h.addRows(G, low, np.full(G, np.inf), row.size, start, index.ravel(), row.ravel())

    def solve(self) -> tuple[Floats, float, Floats]:
        """Return prices, the value, and the weight of each cut, (steps, groups)."""
        self.h.run()
        found = self.h.getSolution()
        q = np.array(found.col_value)[: self.resources]
        value = self.h.getInfo().objective_function_value
        duals = np.maximum(np.array(found.row_dual)[self.level :], 0.0)
        zero = self.zero if self.level else float(np.sum(self.zero))
        prices = q * self.unit / self.capacity
        return prices, float(value * self.unit + zero), duals.reshape(-1, self.groups)


class Level:
    """Maximise t such that every job has its demand at t.

    Parameters
    ----------
    demand
        Steps/s that each job needs at a level, and how fast they rise.
    low, top
        A level that is reached, and one that cannot be passed.
    """

    log = False
    worth: Floats | None = None

    def __init__(self, jobs: Jobs, demand: Demand, low: float, top: float) -> None:
        self.jobs, self.demand, self.low, self.top = jobs, demand, low, top
        self.t = top

    def buy(self, prices: Floats, t: float) -> Mixes:
        """Return what jobs buy for a level t."""
        return cheapest(self.jobs.by_option[0], self.jobs.cost(prices), self.demand(t)[0])

    def kinds(self, t: float, rows: Ints) -> Kinds:
        """Return some jobs, one row for each kind, who need a level t."""
        return Kinds(self.jobs.some(rows), self.demand(t)[0][rows], None)

    def bound(self, prices: Floats, steps: int = 1) -> tuple[float, Floats, float, Mixes]:
        """Return a level that none can pass, prices per level, the level bought for, and what.

        Costs are convex in the level, so that every step of Newton's method ends at such a level.
        """
        jobs, t = self.jobs, self.t
        budget = prices @ jobs.capacity
        for _ in range(steps):
            mix = self.buy(prices, t)
            over = jobs.count @ mix.cost - budget
            rise = max(float(jobs.count @ (mix.slope * self.demand(t)[1])), 1e-300)
            self.t = float(np.clip(t - over / rise, self.low, self.top))
            if steps == 1 or abs(self.t - t) <= 1e-14 * abs(t):
                break
            t = self.t
        return self.t, prices / rise, t, mix


class Gain:
    """Maximise the sum of ``worth * speed``, or of ``worth * log(speed)``, given demands."""

    top = np.inf

    def __init__(
        self, jobs: Jobs, worth: Floats, demand: Floats | float = 0.0, log: bool = False
    ) -> None:
        self.jobs, self.worth, self.fixed, self.log = jobs, worth, demand, log

    def worth_of(self, speed: Floats) -> Floats:
        """Return what speeds are worth, by group."""
        jobs = self.jobs
        each = np.log(np.maximum(speed, 1e-300)) if self.log else speed
        worth = np.bincount(jobs.group, jobs.count * self.worth * each, jobs.groups)
        return np.asarray(worth, dtype=float)

    def buy(self, prices: Floats, t: float = 0.0) -> Mixes:
        """Return what jobs buy."""
        cost = self.jobs.cost(prices)
        if not (self.log or np.any(self.fixed)):
            return most_profitable(self.jobs.by_option[0], cost, self.worth)
        return cheapest(self.jobs.by_option[0], cost, self.fixed, self.worth, self.log)

    def kinds(self, t: float, rows: Ints) -> Kinds:
        """Return some jobs, one row for each kind."""
        need = np.broadcast_to(self.fixed, self.jobs.n)[rows]
        return Kinds(self.jobs.some(rows), need, self.worth[rows])

    def bound(self, prices: Floats, steps: int = 1) -> tuple[float, Floats, Floats, Mixes]:
        """Return the value that nothing passes at these prices, these, values by group, mixes."""
        jobs, mix = self.jobs, self.buy(prices)
        value = self.worth_of(mix.speed)
        most = float(value.sum() + prices @ jobs.capacity - jobs.count @ mix.cost)
        return most, prices, value, mix


Dual = Level | Gain


@dataclass(eq=False)
class Optimum:
    """Shares (``None``: all reach the top level), level or value, certified bound, and prices.

    `are_unique` if no other prices prove the optimum.
    """

    X: Floats | None
    value: float
    bound: float
    prices: Floats
    are_unique: bool = False


def maximise(dual: Dual, start: Floats, first: Floats | None) -> Optimum:
    """Solve by prices.

    Parameters
    ----------
    dual
        The problem.
    start
        Prices to begin with.
    first
        Shares that are feasible and leave some of everything; ``None``: prices have a bound.

    Raises
    ------
    SolveError
        If what is demanded cannot be had.
    """
    jobs = dual.jobs
    if not dual.log:
        t = dual.bound(start, 60)[0] if isinstance(dual, Level) else 0.0
        if dual.kinds(t, np.arange(jobs.n)).jobs.n <= 2 * _few(jobs):
            return _finish(dual, start, t, np.ones(jobs.n, bool))
    close = _CLOSE if dual.log else min(1e-4, max((_FEW / jobs.n) ** 2 / 8, 1e-9))
    prices, best, low, columns = _cut(dual, start, first, close)
    if best >= dual.top - 1e-13 * abs(dual.top):
        return Optimum(None, dual.top, dual.top, 0 * prices)
    if dual.log:
        X = sum((part[:, None] * mix.shares(jobs.m) for part, mix in columns), start=0 * jobs.T)
        return Optimum(X, low, best, prices)
    known = dual.buy(prices, low)
    still = np.zeros(jobs.n, bool)
    margin = np.rint(_margins(dual, prices, known) * 2**40)  # of equals the first come first
    still[np.argsort(margin, kind="stable")[: _few(jobs)]] = True
    for part, mix in columns:
        still |= (part > 0) & ((mix.a != known.a) | (mix.b != known.b))
    return _finish(dual, prices, low, still)


def _cut(
    dual: Dual, start: Floats, first: Floats | None, close: float
) -> tuple[Floats, float, float, list[tuple[Floats, Mixes]]]:
    """Return prices, an upper and a lower bound, and weights of what was bought: cutting planes."""
    jobs, best, level = dual.jobs, np.inf, isinstance(dual, Level)
    q = prices = start
    kept: list[Mixes] = []
    master: _Master | None = None
    for step in range(_MOST_CUTS):
        bound, scaled, value, mix = dual.bound(q, 1 if step else 60)
        if master is None:  # values count from the first feasible one, in units of the gain
            zero: Any = dual.low if isinstance(dual, Level) else np.zeros(jobs.groups)
            if first is not None and not isinstance(dual, Level):
                zero = dual.worth_of(jobs.speed(first))
            least = float(np.sum(zero))
            unit = max(abs(bound - least), 1e-9 * abs(least), 1e-300)
            master = _Master(jobs, level, zero, unit)
            if first is None:
                master.bound_prices()
            else:
                master.cut(zero, jobs.used_by_groups(first))
        if bound < best:
            best, prices = bound, scaled
        master.cut(value, mix.used_by_groups(jobs))
        kept.append(mix)
        q, low, weight = master.solve()
        if best - low <= close * max(abs(best), abs(best - least)):
            break
        if q.max() <= 0 and level:  # nothing is scarce
            break
        if step < _CAREFUL and not dual.log:
            q = (q + prices) / 2
    own = weight[len(weight) - len(kept) :]
    columns = [(part[jobs.group], mix) for part, mix in zip(own, kept, strict=True) if part.any()]
    return prices, best, low, columns


def _few(jobs: Jobs) -> int:
    """Return how many jobs a program should have at least."""
    return int(min(jobs.n, _FEW + 10 * jobs.capacity.size))


def _finish(dual: Dual, prices: Floats, t: float, still: Bools) -> Optimum:
    """Make an optimum exact: a program over the jobs whose choice is not certain, until it is.

    The others stay on their edges of the hull. Newton's method finds the level at which all have
    what they need.
    """
    jobs = dual.jobs
    known = dual.buy(prices, t)
    program = Program()
    for _ in range(_MOST_ROUNDS):
        rows = np.flatnonzero(still)
        kinds, used = dual.kinds(t, rows), _used(jobs, known, ~still)
        few = replace(kinds.jobs, capacity=rounded(jobs.capacity - used, 44))
        try:
            point = kinds.optimum(program, few)
        except SolveError:  # too much is settled
            if still.all():
                raise
            still, program = np.ones(jobs.n, bool), Program()
            continue
        prices = point.prices
        if isinstance(dual, Level):
            if t >= dual.top and point.part >= 1 - _SETTLED:
                return Optimum(None, t, t, 0 * prices)
            needs, rises = dual.demand(t)
            unit = abs(t) + 1e-300
            moved = _with_speed(jobs, known, needs + unit * rises)
            per = (_used(jobs, moved, ~still) - used) / unit
            rise = prices @ per + point.part * (point.need @ kinds.means(rises[rows]))
            step = (point.part - 1) * float(point.need @ kinds.mean) / float(rise)
            t = min(t + step, dual.top)
            prices = prices / rise
            known = _with_speed(jobs, known, dual.demand(t)[0])
            if abs(point.part - 1) > _SETTLED:
                continue
        wrong = _misfits(dual, prices, known, t) & ~still
        if not wrong.any():
            break
        still |= wrong
    X = known.shares(jobs.m)
    X[rows] = kinds.shares(point.X)
    return Optimum(X, t, dual.bound(prices, 60)[0], prices, point.has_one_price)


def _used(jobs: Jobs, mix: Mixes, rows: Bools) -> Floats:
    """Return what some rows use of each resource."""
    return jobs.used(np.where(rows[:, None], mix.shares(jobs.m), 0.0))


def _with_speed(jobs: Jobs, mix: Mixes, speed: Floats) -> Mixes:
    """Return mixes of the same options that have another speed."""
    T, row = np.column_stack([jobs.T, np.zeros(jobs.n)]), np.arange(jobs.n)
    ua, ub = T[row, mix.a], T[row, mix.b]
    part = np.where(ub > ua, (speed - ua) / np.where(ub > ua, ub - ua, 1.0), mix.part)
    return mix._replace(part=part, speed=speed)


def _heights(dual: Dual, prices: Floats, mix: Mixes) -> Floats:
    """Return the reduced cost of each option, idle last, as a part of what it costs.

    Shape (rows, options + 1).
    """
    jobs, marginal = dual.jobs, mix.slope
    if dual.worth is not None:  # some buy for their demand alone, at more than it is worth
        marginal = np.where((mix.part > 0) & (mix.slope > dual.worth), mix.slope, dual.worth)
    cost, worth = jobs.cost(prices), marginal * jobs.by_option[0]
    time, paid = marginal * mix.speed - mix.cost, marginal * mix.speed + mix.cost
    height = np.column_stack([(cost - worth + time).T, time])
    height[:, :-1][jobs.T <= 0] = np.inf
    return np.asarray(height / np.column_stack([(cost + worth).T + 1e-300, paid + 1e-300]))


def _margins(dual: Dual, prices: Floats, mix: Mixes) -> Floats:
    """Return by what part of its cost each job is from another choice."""
    height, row = _heights(dual, prices, mix), np.arange(dual.jobs.n)
    height[row, mix.a] = np.where(mix.part < 1, np.inf, height[row, mix.a])
    height[row, mix.b] = np.where(mix.part > 0, np.inf, height[row, mix.b])
    return np.asarray(height.min(axis=1))


def _misfits(dual: Dual, prices: Floats, known: Mixes, t: float) -> Bools:
    """Return which mixes are not what jobs buy at these prices."""
    row = np.arange(dual.jobs.n)
    height = _heights(dual, prices, dual.buy(prices, t))
    of_a = np.where(known.part < 1, height[row, known.a], 0.0)
    of_b = np.where(known.part > 0, height[row, known.b], 0.0)
    outside = (known.part < -1e-12) | (known.part > 1 + 1e-12)
    return np.asarray((np.maximum(of_a, of_b) > 1e-10) | outside)
