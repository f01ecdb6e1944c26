"""Levels beyond the worst off: raise all, stop who cannot rise, go on with the rest; by prices.

Along a path of levels (all rise at their rates, who is at its fastest stops and passes its rate on)
the last point for which there is room is one problem in few prices. Who still buys at a price there
is stopped; the path goes on with the others. There are about as many such stops as types, not jobs.
"""
from __future__ import annotations

import highspy
import numpy as np

from apportion.policies.core import prices as by_prices
from apportion.policies.core.prices import Level, maximise
from apportion.policies.core.shares import equal_shares

FEW = 200
"""Jobs up to which the most even of several allocations is looked for."""


class Equal:
    """Levels of a form rise together: the path of speeds is the demand at a level."""

    def __init__(self, form, jobs):
        self.form, self.jobs = form, jobs
        self.own = form.k * jobs.fastest if form.kind == "level" else -(form.a + form.k / jobs.fastest)
        self.straight = form.kind == "level"
        self.least = jobs.speed(equal_shares(jobs))

    def begin(self, going, speed):
        """Start from these speeds; return the range of heights."""
        self.going, self.fixed = going, speed
        return self.form.level_of(np.where(going, np.maximum(speed, self.least), np.inf)), float(self.own[going].max())

    def at(self, t):
        """Return speeds at a height, how fast they rise, and who is at its fastest."""
        d, rise = self.form.demand(t)
        full = self.going & (self.own <= t)
        d = np.where(full, self.jobs.fastest, np.where(self.going, np.minimum(d, self.jobs.fastest), self.fixed))
        return d, np.where(self.going & ~full, rise, 0.0), full


class Entities:
    """Groups divide a rate that rises, jobs their group's; who is full passes his part on."""

    straight = True

    def __init__(self, rates, jobs):
        self.rates, self.jobs = rates, jobs

    def begin(self, going, speed):
        """Walk the path ahead: heights at which somebody is full, the speeds there, and rates."""
        jobs, active, u = self.jobs, going.copy(), speed.copy()
        self.height, self.points, self.speeds = [0.0], [u.copy()], []
        t = 0.0
        while active.any():
            rate = self.rates(active) * jobs.reference
            rising = rate > 0
            left = np.full(jobs.n, np.inf)
            left[rising] = (jobs.fastest[rising] - u[rising]) / rate[rising]
            step = max(left.min(), 0.0)
            full = left <= step * (1 + 1e-12)
            u = np.where(full, jobs.fastest, u + rate * step)
            t += step
            active &= ~full
            self.height.append(t)
            self.points.append(u.copy())
            self.speeds.append(rate)
        self.height = np.array(self.height)
        return 0.0, t

    def at(self, t):
        """Return speeds at a height, how fast they rise there, and who is at its fastest."""
        k = min(max(int(np.searchsorted(self.height, t, side="right")) - 1, 0), len(self.speeds) - 1)
        d = np.minimum(self.points[k] + self.speeds[k] * (t - self.height[k]), self.jobs.fastest)
        return d, self.speeds[k], d >= self.jobs.fastest * (1 - 1e-12)


def fill(path, jobs, going=None):
    """Return the speeds at which no job can rise any further, and prices of the first stop."""
    going = jobs.T.max(axis=1) > 0 if going is None else going
    speed, first, q, steps, X = np.zeros(jobs.n), None, 1.0 / np.maximum(jobs.capacity, 1e-300), 0, None
    while going.any() and steps < 200:
        steps += 1
        low, top = path.begin(going, speed)
        t, q, mix, X = last_with_room(path, jobs, low, top, q)
        d, rate, full = path.at(t)
        first = q if first is None else first
        cost = jobs.cost(q)
        priced = going & (mix.slope > 1e-10 * (cost.max(axis=0) / jobs.fastest)) & (rate > 0)
        speed = np.where(going, d, speed)
        stopped = full | priced
        if not (stopped & going).any():
            stopped = going
        going = going & ~stopped
    return speed, first, steps, X


def last_with_room(path, jobs, low, top, prices):
    """Return the last height for which there is room, the prices there, and what jobs buy.

    At a height beyond it cutting planes find prices at which all together pay more than there is;
    these say which heights are beyond, until there is room.
    """
    # As if levels were convex, which is nearly true: who is at its fastest bends them the other way.
    dual = Level(jobs, lambda t: path.at(t)[:2], low, top)
    dual.straight, t, q, X = False, top, prices, None
    dual.t = _root(path, jobs, prices, low, top)
    try:
        found = maximise(dual, prices, None, close=1e-4, own_limit=False)
        t, q, X = min(found.value, top), (found.prices if found.prices.max() > 0 else prices), found.X
        if found.prices.max() > 0:
            paid = _root(path, jobs, q, low, top)
            if abs(paid - t) <= 1e-11 * max(abs(t), abs(paid)) and jobs.used(jobs.fit(X)).max() > 0:
                short = 1 - jobs.speed(jobs.fit(X)) / np.maximum(path.at(t)[0], 1e-300)
                if short.max() <= 1e-10:
                    open_ = np.setdiff1d(found.ties, np.flatnonzero(path.at(t)[2]))
                    return t, q, dual.buy(q, t), (X if not open_.size or jobs.n > FEW else None)
            t = paid
    except RuntimeError:
        pass
    q = q / (q @ jobs.capacity)
    for _ in range(100):
        over, q, mix = worst_prices(path, jobs, t, q)
        if over <= 1e-12:
            break
        new = _root(path, jobs, q, low, t)
        if t - new <= 1e-14 * max(abs(t), abs(new)):
            return new, q, mix, None
        t = new
    return t, q, mix, None


def _root(path, jobs, q, low, high):
    """Return the largest height that can be paid for at prices: regula falsi between bounds."""
    cost, budget = jobs.cost(q), q @ jobs.capacity

    def over(t):
        d, rate, _ = path.at(t)
        mix = by_prices.cheapest(jobs.by_option[0], cost, d)
        return jobs.count @ mix.cost - budget, jobs.count @ (mix.slope * rate)

    t = high
    for _ in range(200):
        f, rise = over(t)
        if f > 0:
            high = t
        else:
            low = t
        step = t - f / rise if rise > 0 else np.nan
        if abs(f) <= 1e-15 * budget or high - low <= 1e-15 * max(abs(high), abs(low)):
            break
        new = step if low < step < high else (low + high) / 2
        if abs(new - t) <= 1e-15 * max(abs(t), 1e-300):
            break
        t = new
    return t


def worst_prices(path, jobs, t, q):
    """Return by what part of the budget jobs pay too much at the prices at which they pay most."""
    R, W = jobs.capacity.size, np.maximum(jobs.capacity, 1e-300)
    d, rate, _ = path.at(t)
    h = highspy.Highs()
    for k, v in dict(output_flag=False, threads=1, presolve="off", primal_feasibility_tolerance=1e-10, dual_feasibility_tolerance=1e-10).items():
        h.setOptionValue(k, v)
    h.addVars(R, np.zeros(R), np.ones(R))  # prices times capacities: parts of the budget
    h.addVar(-np.inf, np.inf)
    h.changeColCost(R, -1.0)
    h.addRow(1.0, 1.0, R, np.arange(R, dtype=np.int32), np.ones(R))
    index, best, at, mix_at = np.arange(R + 1, dtype=np.int32), -np.inf, q, None
    for _ in range(400):
        mix = by_prices.cheapest(jobs.by_option[0], jobs.cost(q), d)
        used = mix.used(jobs)
        pays = float(q @ used) - 1.0
        if pays > best:
            best, at, mix_at = pays, q, mix
        h.addRow(-np.inf, -1.0, R + 1, index, np.append(-used / W, 1.0))  # over <= q @ used - 1
        h.changeRowBounds(h.getNumRow() - 1, -np.inf, -1.0)
        h.run()
        x = np.array(h.getSolution().col_value)
        top = x[-1]
        if top - best <= 1e-12 or top <= 0 or (best > 0 and top - best <= 0.02 * best):
            break
        q = x[:R] / W
    return max(best, min(top, 0.0)), at, mix_at


def allocation(jobs, speed, start):
    """Return shares that give these speeds: any that are left over are spent most."""
    from apportion.policies.core.choice import choose
    from apportion.policies.core.program import Program

    if jobs.n <= FEW:
        program = Program(jobs)
        point = program.level(jobs, speed)
        return choose(program, jobs, point, speed * min(point.part, 1.0)) if point.open else point.X
    dual = by_prices.Gain(jobs, np.full(jobs.n, 1e-9) / jobs.fastest, speed * (1 - 1e-11))
    return maximise(dual, start, None).X


def lexicographic(form, jobs, second=True):
    """Solve an objective about the worst off job, and all that follow."""
    from apportion.policies.core.solve import Answer

    speed, q, steps, X = fill(Equal(form, jobs), jobs)
    X = jobs.fit(allocation(jobs, speed, q) if X is None else X)
    return Answer(X, form.value(jobs.speed(X)), 0.0, q, f"filling {steps} steps")


def hierarchical(policy, instance, jobs, second=True):
    """Solve a policy that fills at rates of its own."""
    from apportion.policies.problem import Problem
    from apportion.policies.core.solve import Answer

    rates = policy.rates(Problem(instance))
    speed, q, steps, X = fill(Entities(rates, jobs), jobs)
    X = jobs.fit(allocation(jobs, speed, q) if X is None else X)
    first = rates(np.ones(jobs.n, bool))
    value = float((jobs.speed(X) / jobs.reference / np.where(first > 0, first, np.nan))[first > 0].min())
    return Answer(X, value, 0.0, q, f"filling {steps} steps")
