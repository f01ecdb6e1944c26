"""Dual decomposition: few prices say what thousands of jobs do.

At prices of the resources each job buys the cheapest mix of its options by itself (`mixes`). Cutting
planes over the prices (the columns of Dantzig and Wolfe: a value, and what is used for it) find the
best ones; a linear program over the few jobs that are about to change their minds makes the optimum
exact, and the dual value at its prices certifies it.
"""
from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from scipy import sparse

from apportion.policies.core.mixes import cheapest

EXACT = 2e-10
"""Relative gap at which cutting planes end where no program follows."""
FEW = 150
"""Jobs, at least, in the program that makes an optimum exact."""


class Master:
    """min over q >= 0 of q @ capacity + sum over groups of the largest of ``value - q @ used``.

    One cut a group and step. For levels, values are `share[g] * t`, the shares of all groups sum to
    1: the groups must have the same level.
    """

    def __init__(self, jobs, level, zero, unit):
        self.capacity, self.level, self.zero, self.unit = jobs.capacity, level, zero, unit
        self.h = h = highspy.Highs()
        for k, v in dict(output_flag=False, threads=1, presolve="off", primal_feasibility_tolerance=1e-10,
                         dual_feasibility_tolerance=1e-10).items():
            h.setOptionValue(k, v)
        R, G = self.capacity.size, jobs.groups
        self.R, self.G, self.size = R, G, R + G * (1 + level)
        h.addVars(R, np.zeros(R), np.full(R, np.inf))
        h.addVars(G, np.full(G, -np.inf), np.full(G, np.inf))
        cost = np.append(np.ones(R), np.ones(G))
        h.changeColsCost(R + G, np.arange(R + G, dtype=np.int32), cost)
        if level:
            h.addVars(G, np.zeros(G), np.full(G, np.inf))
            h.addRow(1.0, 1.0, G, np.arange(R + G, R + 2 * G, dtype=np.int32), np.ones(G))

    def bound_prices(self):
        """Bound all prices, as nothing feasible is known that does."""
        self.h.changeColsBounds(self.R, np.arange(self.R, dtype=np.int32), np.zeros(self.R), np.full(self.R, 1e4))

    def cut(self, value, used):
        """Add a column of values and use of the groups, which something feasible by itself has."""
        R, G = self.R, self.G
        value = (np.broadcast_to(value, (G,)) - self.zero) / self.unit
        row = np.zeros((G, R + 1 + self.level))
        row[:, :R], row[:, R] = used / np.maximum(self.capacity, 1e-300), 1.0
        index = np.empty(row.shape, np.int32)
        index[:, :R], index[:, R] = np.arange(R), R + np.arange(G)
        if self.level:
            row[:, -1], index[:, -1] = -value, R + G + np.arange(G)
        start = np.arange(G, dtype=np.int32) * row.shape[1]
        low = np.zeros(G) if self.level else value
        self.h.addRows(G, low, np.full(G, np.inf), row.size, start, index.ravel(), row.ravel())

    def solve(self):
        """Return prices, the value, and the weight of each cut, (steps, groups)."""
        self.h.run()
        s = self.h.getSolution()
        q = np.array(s.col_value)[: self.R]
        value = self.h.getInfo().objective_function_value
        weight = np.maximum(np.array(s.row_dual)[self.level :], 0.0).reshape(-1, self.G)
        zero = self.zero if self.level else np.sum(self.zero)
        return q * self.unit / np.maximum(self.capacity, 1e-300), value * self.unit + zero, weight


class Level:
    """max t such that every job has its demand at t: one dual function of the prices."""

    worth, log = None, False

    def __init__(self, jobs, demand, low, top):
        self.jobs, self.demand, self.low, self.top = jobs, demand, low, top
        self.t = top

    def buy(self, prices, t):
        """Return what jobs buy for a level t."""
        return cheapest(self.jobs.by_option[0], self.jobs.cost(prices), self.demand(t)[0])

    def bound(self, prices, steps=1):
        """Return a level that none can pass at these prices, prices per level, and what is bought.

        Costs are convex in the level, so that every step of Newton's method ends at such a level.
        """
        jobs, t = self.jobs, self.t
        budget = prices @ jobs.capacity
        for _ in range(steps):
            mix = self.buy(prices, t)
            over = jobs.count @ mix.cost - budget
            rise = max(jobs.count @ (mix.slope * self.demand(t)[1]), 1e-300)
            self.t = min(max(t - over / rise, self.low), self.top)
            if steps == 1 or abs(self.t - t) <= 1e-14 * abs(t):
                break
            t = self.t
        return self.t, prices / rise, t, mix


class Gain:
    """max sum of worth * speed (or worth * log(speed)) with demands: the same for sums."""

    top = None

    def __init__(self, jobs, worth, demand=0.0, log=False):
        self.jobs, self.worth, self.fixed, self.log = jobs, worth, demand, log

    def value(self, X):
        """Return what speeds are worth, by group."""
        return self.worth_of(self.jobs.speed(X))

    def worth_of(self, speed):
        """Return what speeds are worth, by group."""
        each = np.log(np.maximum(speed, 1e-300)) if self.log else speed
        return np.bincount(self.jobs.group, self.jobs.count * self.worth * each, self.jobs.groups)

    def buy(self, prices, t=None):
        """Return what jobs buy."""
        return cheapest(self.jobs.by_option[0], self.jobs.cost(prices), self.fixed, self.worth, self.log)

    def bound(self, prices, steps=1):
        """Return the value that nothing passes at these prices, and the mixes."""
        jobs, mix = self.jobs, self.buy(prices)
        value = self.worth_of(mix.speed)
        return value.sum() + prices @ jobs.capacity - jobs.count @ mix.cost, prices, value, mix


@dataclass
class Optimum:
    """Shares, value, prices, certified bound; `ties`: rows that could do otherwise; pairs of cuts."""

    X: np.ndarray
    value: float
    bound: float
    prices: np.ndarray
    ties: np.ndarray
    cuts: int = 0
    rounds: int = 0


def maximise(dual, start, first, exact=True, own_limit=True, close=None):
    """Solve by prices.

    Parameters
    ----------
    dual
        A `Level` or a `Gain`.
    start
        Prices to begin with.
    first
        Shares that are feasible and leave some of everything; ``None``: prices have a bound.
    """
    jobs, level = dual.jobs, isinstance(dual, Level)
    finish = exact and not dual.log
    if close is None:
        close = min(1e-4, max((FEW / jobs.n) ** 2 / 8, 1e-9)) if finish else EXACT
    if finish and jobs.n <= FEW:  # a program over all of them is no larger
        return _finish(dual, start, 0)
    at, best, low, cuts, kept, weight = _cut(dual, start, first, close)
    if level and own_limit and best >= dual.top - 1e-13 * abs(dual.top):  # a job's own limit binds
        return Optimum(None, dual.top, dual.top, 0 * at, np.zeros(0, int), cuts)
    if finish:
        return _finish(dual, at, cuts)
    X = weight[0][jobs.group][:, None] * first
    for w, mix in zip(weight[1:], kept):
        if w.any():
            X += w[jobs.group][:, None] * mix.shares(jobs.m)
    return Optimum(X, low, best, at, np.zeros(0, int), cuts)


def _cut(dual, start, first, close, most=400):
    """Return prices, bounds from above and below, and what was bought: cutting planes."""
    jobs, best, low, level = dual.jobs, np.inf, -np.inf, isinstance(dual, Level)
    q = at = start
    kept = []
    for k in range(most):
        bound, scaled, value, mix = dual.bound(q, 1 if k else 60)
        if not k:  # values count from the first feasible one, in units of what there is to gain
            zero = dual.low if level else np.zeros(jobs.groups) if first is None else dual.value(first)
            least = zero if level else np.sum(zero)
            unit = max(abs(bound - least), 1e-9 * abs(least), 1e-300)
            master = Master(jobs, level, zero, unit)
            if first is None:
                master.bound_prices()
            else:
                master.cut(zero, jobs.used_by_groups(first))
        if bound < best:
            best, at = bound, scaled
        master.cut(value, mix.used_by_groups(jobs))
        kept.append(mix)
        q, low, weight = master.solve()
        if best - low <= close * max(abs(best), abs(best - least)):
            break
        if q.max() <= 0 and level:  # nothing is scarce
            break
    return at, best, low, k + 1, kept, weight


def _finish(dual, prices, cuts):
    """Make an optimum exact: a program over the jobs whose choice is not certain, until it is."""
    jobs, level = dual.jobs, isinstance(dual, Level)
    t = dual.bound(prices, 60)[0] if level else None
    known = dual.buy(prices, t)
    margin = _margins(dual, prices, known, t)
    size = min(jobs.n, FEW + 10 * jobs.capacity.size)
    for rounds in range(1, 60):
        if rounds == 1:
            still = np.zeros(jobs.n, bool)
            still[np.argpartition(margin, size - 1)[:size]] = True
        rows = np.flatnonzero(still)
        found = _restricted(dual, known, rows, t)
        wrong = None
        if found is not None:
            X, moved, now, reduced = found
            wrong = _misfits(dual, now, known, moved) & ~still
        if (wrong is None or wrong.sum() > 2 * size) and size < jobs.n:  # too much is taken as settled
            size = min(4 * size, jobs.n)
            still[np.argpartition(margin, size - 1)[:size]] = True
            continue
        if found is None:
            raise RuntimeError("infeasible")
        prices = now
        settled = not level or abs(moved - t) <= 1e-13 * max(abs(t), 1e-300)
        t = moved
        if level:
            known = _with_speed(jobs, known, dual.demand(t)[0], ~still)
        wrong = _misfits(dual, prices, known, t) & ~still
        if not wrong.any() and (settled or dual.straight):
            break
        if level and not wrong.any():
            continue
        still |= wrong
    Y = known.shares(jobs.m)
    Y[rows] = X
    if level:
        dual.t = t
    bound = dual.bound(prices, 60)[0]
    ties = rows[((reduced <= 1e-10) & (X <= 1e-10) & (jobs.T[rows] > 0)).any(axis=1)]
    value = t if level else jobs.count @ (dual.worth * jobs.speed(Y))
    return Optimum(Y, value, bound, prices, ties, cuts, rounds)


def _with_speed(jobs, mix, speed, where):
    """Return mixes of the same options that have another speed."""
    T, row = np.column_stack([jobs.T, np.zeros(jobs.n)]), np.arange(jobs.n)
    ua, ub = T[row, mix.a], T[row, mix.b]
    part = (speed - ua) / np.where(ub > ua, ub - ua, np.inf)
    return mix._replace(part=np.where(where & (ub > ua), part, mix.part), speed=np.where(where, speed, mix.speed))


def _marginal(dual, mix):
    """Return what one more step/s is worth to each job at its mix."""
    if dual.worth is None:
        return mix.slope
    bound = (mix.part > 0) & (mix.slope > dual.worth)  # it buys for its demand alone
    return np.where(bound, mix.slope, dual.worth)


def _heights(dual, prices, mix):
    """Return the reduced cost of each option (idle last) as a part of what it costs, (rows, options + 1)."""
    jobs = dual.jobs
    cost, y = jobs.cost(prices), _marginal(dual, mix)
    time, paid = y * mix.speed - mix.cost, y * mix.speed + mix.cost
    worth = y * jobs.by_option[0]
    height = np.column_stack([(cost - worth + time).T, time])
    height[:, :-1][jobs.T <= 0] = np.inf
    return height / np.column_stack([(cost + worth).T + 1e-300, paid + 1e-300])


def _margins(dual, prices, mix, t):
    """Return by what part of its cost each job is from another choice."""
    jobs, row = dual.jobs, np.arange(dual.jobs.n)
    height = _heights(dual, prices, mix)
    height[row, mix.a] = np.where(mix.part < 1, np.inf, height[row, mix.a])
    height[row, mix.b] = np.where(mix.part > 0, np.inf, height[row, mix.b])
    margin = height.min(axis=1)
    if dual.worth is not None:  # who buys for its demand alone would buy more at a lower price
        bound = (mix.part > 0) & (mix.slope > dual.worth)
        margin = np.where(bound, np.minimum(margin, 1.0 - dual.worth / np.maximum(mix.slope, 1e-300)), margin)
    if dual.worth is None or np.any(dual.fixed):
        T = np.column_stack([jobs.T, np.zeros(jobs.n)])
        ends = np.minimum(np.abs(mix.speed - T[row, mix.a]), np.abs(T[row, mix.b] - mix.speed))
        moves = (dual.demand(t)[1] > 0) if dual.worth is None else (mix.part > 0) & (mix.part < 1)
        margin = np.where(moves, np.minimum(margin, ends / np.maximum(mix.speed, 1e-300)), margin)
    return margin


def _misfits(dual, prices, known, t):
    """Return which mixes are not what jobs buy at these prices."""
    jobs, row = dual.jobs, np.arange(dual.jobs.n)
    height = _heights(dual, prices, dual.buy(prices, t))
    off = np.maximum(np.where(known.part < 1, height[row, known.a], 0.0), np.where(known.part > 0, height[row, known.b], 0.0))
    return (off > 1e-10) | (known.part < -1e-12) | (known.part > 1 + 1e-12)


def _restricted(dual, known, rows, t):
    """Solve for some rows only, the others as they are (at other levels: along their edges).

    Returns their shares, the level, prices, and the reduced costs of the cells; ``None`` if there
    is no solution.
    """
    jobs, level = dual.jobs, isinstance(dual, Level)
    n, m, R = rows.size, jobs.m, jobs.capacity.size
    own = jobs.some(rows)
    X = known.shares(m)
    X[rows] = 0.0
    room = jobs.capacity - jobs.used(X)
    if level:
        d, rise = dual.demand(t)
        T, row = np.column_stack([jobs.T, np.zeros(jobs.n)]), np.arange(jobs.n)
        edge = T[row, known.b] - T[row, known.a]
        per = np.where(edge > 0, rise / np.where(edge > 0, edge, 1.0), 0.0)
        per[rows] = 0.0
        dX = known._replace(part=per).shares(m) - known._replace(part=np.zeros(jobs.n)).shares(m)
        unit = max(abs(t), 1e-300)
        slope = jobs.used(dX) * unit
        d, rise = d[rows], rise[rows] * unit
    else:
        d = np.broadcast_to(np.asarray(dual.fixed, float), (jobs.n,))[rows]
        gain = (own.count * dual.worth[rows])[:, None] * own.T
        most = max(gain.max(initial=0.0), 1e-300)
    scale = np.maximum(jobs.capacity, 1e-300)
    cell = np.arange(n * m)
    job, option = cell // m, cell % m
    amount = [(own.kind[option], (own.count[:, None] * own.held).ravel() / scale[own.kind[option]])]
    for k in range(len(own.extra)):
        place = R - len(own.extra) + k
        amount.append((np.full(cell.size, place), (own.count[:, None] * own.extra[k]).ravel() / scale[place]))
    entries = [(r, cell, a) for r, a in amount] + [(R + job, cell, np.ones(cell.size))]
    needs = level or np.any(d > 0)
    if needs:
        by = np.maximum(d, 1e-300)
        entries.append((R + n + job, cell, own.T.ravel() / by[job]))
        if level:
            entries += [(np.arange(R), np.full(R, n * m), slope / scale), (R + n + np.arange(n), np.full(n, n * m), -rise / by)]
    r, c, a = (np.concatenate(each) for each in zip(*entries))
    rows_, columns = R + n + n * needs, n * m + level
    A = sparse.csc_array((a, (r, c)), shape=(rows_, columns))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, rows_
    lp.col_cost_ = np.append(np.zeros(n * m), -1.0) if level else -(gain / most).ravel()
    upper = np.where(own.T.ravel() > 0, np.inf, 0.0)
    lp.col_lower_ = np.append(np.zeros(n * m), (dual.low - t) / unit) if level else np.zeros(n * m)
    lp.col_upper_ = np.append(upper, (dual.top - t) / unit) if level else upper
    lp.row_lower_ = np.concatenate([np.full(R + n, -np.inf), (d > 0).astype(float)[: n * needs]])
    lp.row_upper_ = np.concatenate([room / scale, np.ones(n), np.full(n * needs, np.inf)])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    h = highspy.Highs()
    for k, v in dict(output_flag=False, threads=1, primal_feasibility_tolerance=1e-10, dual_feasibility_tolerance=1e-10).items():
        h.setOptionValue(k, v)
    h.passModel(lp)
    h.run()
    if h.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    s = h.getSolution()
    x, y, z = np.array(s.col_value), -np.array(s.row_dual), np.array(s.col_dual)
    X = np.maximum(x[: n * m], 0.0).reshape(n, m)
    prices = np.maximum(y[:R], 0.0) / scale * (unit if level else most)
    return X, (t + x[-1] * unit if level else None), prices, z[: n * m].reshape(n, m)
