"""One problem: classes, the form of the objective, prices or one program, the choice among optima."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.policies.core import choice, general, water_filling
from apportion.policies.core.forms import Form, read  # noqa: F401, sessions take Form from here
from apportion.policies.core.jobs import Jobs, classes
from apportion.policies.core.prices import Gain, Level, maximise
from apportion.policies.core.program import Program
from apportion.policies.core.shares import equal_shares

PROGRAM_ROWS = 200
"""Rows up to which one linear program is quicker than prices."""


@dataclass
class Answer:
    """Shares of jobs, objective as stated, certified relative gap, prices of resources."""

    X: np.ndarray
    objective: float
    gap: float
    prices: np.ndarray
    path: str = ""


def jobs_of(instance, limits=()):
    """Return the arrays of a problem whose rows are single jobs, and which options have GPUs."""
    types, R = instance.accelerators, instance.capacity.size
    there = np.append(instance.capacity[:types] > 0, np.ones(R - types, bool))
    kept = np.flatnonzero(there[instance.option_accelerator])
    kind = (np.cumsum(there) - 1)[instance.option_accelerator[kept]]
    T = np.where(instance.can_run, instance.throughput, 0.0)[:, kept]
    extra, capacity = None, instance.capacity[there]
    if instance.own_usage is not None and R > types:
        use = instance.usage.toarray().reshape(instance.rows, instance.options, R)
        extra = use[:, kept, types:].transpose(2, 0, 1)
    for amount, most in limits:
        each = (amount / instance.count[:, None])[None][:, :, kept]
        extra = each if extra is None else np.concatenate([extra, each])
        capacity = np.append(capacity, most)
    jobs = Jobs(T, instance.gpus[:, kept], kind, capacity, instance.count, instance.equal_share_throughput, extra)
    jobs.kept, jobs.there = kept, there
    return jobs


def restored(answer, jobs, instance):
    """Return an answer with the options and types that have no GPUs."""
    X, prices = np.zeros((instance.rows, instance.options)), np.zeros(instance.capacity.size)
    X[:, jobs.kept] = answer.X
    prices[jobs.there] = answer.prices[: int(jobs.there.sum())]
    answer.X, answer.prices = X, prices
    return answer


def one_row_a_class(policy, instance):
    """Return the problem with one row for identical jobs, and the class of each job."""
    names = [c for c in ("weight", "scale_factor", *policy.columns) if c in instance.columns]
    keys = [instance.throughput, *(instance.columns[c] for c in dict.fromkeys(names))]
    if instance.own_usage is not None:
        keys.append(instance.usage.toarray())
    first, of = classes(keys)
    if first.size == instance.jobs:
        return instance, np.arange(instance.jobs)
    return instance.subset(first, np.bincount(of, instance.count)), of


def solve(policy, instance, second=True, group=True):
    """Solve a policy's problem."""
    told = instance if policy.heterogeneity_aware else instance.blind_to_types()
    rows, of = one_row_a_class(policy, told) if group and told.solo else (told, np.arange(told.jobs))
    found = _solved(policy, rows, second)
    if found.X.shape[0] == rows.jobs:
        found.X = found.X[of]
    return found


def _solved(policy, rows, second):
    further = getattr(policy, "lexicographic", False)
    plain = rows.solo and not policy.integral and not policy.space_sharing and rows.hard.size == rows.capacity.size
    if plain and further and hasattr(policy, "rates"):
        jobs = jobs_of(rows)
        return restored(water_filling.hierarchical(policy, rows, jobs, second), jobs, rows)
    form = read(policy, rows) if plain else None
    if form is None or further and (form.limits or form.kind not in ("level", "inverse")):
        return general.solve(policy, rows, second)
    jobs = jobs_of(rows, form.limits)
    if form.price is not None:
        form.price = form.price[:, jobs.kept]
    found = water_filling.lexicographic(form, jobs, second) if further else optimum(form, jobs, second)
    return restored(found, jobs, rows)


def optimum(form, jobs, second=True, program=None, start=None):
    """Solve an objective that was read off."""
    X = room_for_all(form, jobs)
    if X is not None:
        return Answer(X, form.value(jobs.speed(X), X), 0.0, np.zeros(jobs.capacity.size), "room for all")
    if form.kind == "ratio":
        return best_bargains(form, jobs)
    if form.kind != "log" and (program is not None or jobs.n <= PROGRAM_ROWS):
        found = by_program(form, jobs, program or Program(jobs), second)
        if found.gap <= 1e-9 or program is not None:
            return found
    return by_prices(form, jobs, second, start)


def room_for_all(form, jobs):
    """Return every job at its fastest, if there is room for that and no job's speed counts for less."""
    if form.kind == "ratio" or (form.kind == "gain" and not (form.k[jobs.count > 0] > 0).all()):
        return None
    fastest = jobs.T >= (1 - 1e-9) * jobs.fastest[:, None]
    if (fastest[jobs.count > 0].sum(axis=1) != 1).any():  # shared most evenly, or without speed
        return None
    best = jobs.T.argmax(axis=1)
    X = np.zeros(jobs.T.shape)
    X[np.arange(jobs.n), best] = 1.0
    return X if (jobs.used(X) <= jobs.capacity).all() else None


def relative(jobs):
    """What a step/s of each job adds to the total that is spent: relative to its equal share."""
    reference = np.where(jobs.reference > 0, jobs.reference, np.inf)
    return 1.0 / reference


def gap_of(value, bound):
    """Return the relative gap."""
    return abs(value - bound) / max(abs(value), abs(bound), 1e-300)


def by_prices(form, jobs, second=True, start=None):
    """Solve by prices of the resources, then spend what is left."""
    shares = equal_shares(jobs)
    u = jobs.speed(shares)
    prices = start if start is not None else 1.0 / np.maximum(jobs.capacity, 1e-300)
    if form.kind in ("gain", "log"):
        log = form.kind == "log"
        jobs.groups = 1 if log else jobs.groups
        dual = Gain(jobs, form.k / jobs.count, log=log)
        if start is None:  # the size of the prices matters here
            worth = (form.k @ (np.ones(jobs.n) if log else jobs.fastest)) / (jobs.capacity.sum())
            prices = np.full(jobs.capacity.size, worth)
        found = maximise(dual, prices, shares)
    else:
        low, top = form.level_of(u), form.level_of(jobs.fastest)
        dual = Level(jobs, form.demand, low, top)
        dual.straight = form.kind == "level"
        found = maximise(dual, prices, shares)
    X = found.X
    scarce = (found.prices * jobs.capacity).min() > 1e-12 * (found.prices @ jobs.capacity)
    if form.kind in ("level", "inverse") and (X is None or second and not scarce):
        try:
            X = spent(form, jobs, found, X).X
        except RuntimeError:
            if X is None:
                found = maximise(dual, prices, shares, own_limit=False)
                X = found.X
    X = jobs.fit(X)
    value = form.value(jobs.speed(X))
    bound = found.bound if form.kind in ("level",) else -found.bound if form.kind == "inverse" else (found.bound + form.constant) * (1 if form.maximise else -1)
    return Answer(X, value, gap_of(value, bound), found.prices, f"prices {found.cuts} cuts {found.rounds} programs {found.ties.size} ties")


def spent(form, jobs, found, first):
    """Return shares that spend most, relative to equal shares, with the level held."""
    d, worth = form.demand(min(found.value, found.bound))[0], relative(jobs)
    start = np.full(jobs.capacity.size, float(jobs.count @ (worth * jobs.fastest)) / jobs.capacity.sum())
    return maximise(Gain(jobs, worth, np.minimum(d, jobs.fastest) * (1 - 1e-13)), start, first)


def by_program(form, jobs, program, second=True):
    """Solve one program in HiGHS; for an inverse level one per step of Newton's method."""
    if form.kind == "gain":
        point = program.gain(jobs, (form.k / np.maximum(jobs.count, 1e-300))[:, None] * jobs.T)
        bound, prices = (point.bound + form.constant) * (1 if form.maximise else -1), point.prices
        d = None
    else:
        t = form.level_of(jobs.fastest)
        for _ in range(60):  # from beyond the optimum: dual values say how much worse it must be
            d = form.demand(t)[0]
            point = program.level(jobs, d)
            if form.kind == "level" or point.bound >= 1 - 1e-11:
                break
            t = _payable(form, point, t)
        if form.kind == "level":
            t = t * min(point.bound, 1.0)
        d = d * min(point.part, 1.0)
        bound = t if form.kind == "level" else -t
        rise = form.demand(t)[1]
        prices = point.prices / max(float(point.need @ rise) / max(float(point.need @ d), 1e-300) * point.bound, 1e-300)
    X = point.X
    if second and point.open:
        X = choice.choose(program, jobs, point, d)
    X = jobs.fit(X)
    value = form.value(jobs.speed(X))
    return Answer(X, value, gap_of(value, bound), prices, "program")


def _payable(form, point, t):
    """Return the level at which demands cost no more than there is, at the dual values of a point."""
    y = point.need / max(float(point.need @ form.demand(t)[0]), 1e-300)
    low, high = t - abs(t), t
    while y @ form.demand(low)[0] > point.bound:
        low -= 2 * abs(low)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if y @ form.demand(middle)[0] > point.bound else (middle, high)
        if high - low <= 1e-15 * abs(high):
            break
    return high


def best_bargains(form, jobs):
    """Maximise a ratio of sums: run the cells that give most for their price, as long as there is room."""
    each = form.k[:, None] * jobs.T / form.price
    best = each.max()
    run = each >= best * (1 - 1e-12)
    X = run.astype(float)
    if (run.sum(axis=1) <= 1).all() and (jobs.used(X) <= jobs.capacity).all():
        return Answer(X, form.value(jobs.speed(X), X), 0.0, np.zeros(jobs.capacity.size), "bargains")
    few = jobs.some(np.flatnonzero(run.any(axis=1)))
    few.T = np.where(run[run.any(axis=1)], few.T, 0.0)
    gain = np.where(run, form.price / jobs.count[:, None], 0.0)[run.any(axis=1)]  # the largest scale: most dollars that run
    program = Program(few)
    point = program.gain(few, gain)
    Y = point.X
    if point.open:
        Y = choice.even(program, few, point)
    X = np.zeros(jobs.T.shape)
    X[run.any(axis=1)] = Y
    X = jobs.fit(X)
    value = form.value(jobs.speed(X), X)
    return Answer(X, value, gap_of(value, best), np.zeros(jobs.capacity.size), "bargains")
