"""Water filling without a program over the jobs: what rises is bought at prices of types.

All levels rise along a path on which only what jobs make with all of their time stops any of them
(`apportion.policies.solving.worst_off.own_limits.Path`), until the levels cost all that there is,
at the prices at which they cost most (`DemandColumns`). Then ::

    sum of y * level <= sum of prices * capacity + what is left of all jobs' time

holds with equality, where y is what throughput costs a job at the margin: whoever has y > 0 can
rise no further in any allocation, and types of price > 0 are full in all that have these levels.
The others go on, if there are any. In the end every job is where it may be at all of these prices,
most evenly (`Indifferent`), which is the one allocation that `choice` finds for the levels.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.errors import SolveError
from apportion.policies.solution import Attempted
from apportion.policies.solving.certificate import make_feasible, relative_gap
from apportion.policies.solving.demands import reported
from apportion.policies.solving.solvers.even_ties import Indifferent
from apportion.policies.solving.worst_off.buyers import Buyers
from apportion.policies.solving.worst_off.demand_columns import DemandColumns
from apportion.policies.solving.worst_off.last_filling import LastFilling
from apportion.policies.solving.worst_off.own_limits import OwnLimits
from apportion.policies.solving.worst_off.stated_rates import StatedRates
from apportion.policies.water_filling import WaterFilling

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.worst_off.last_filling import Near
    from apportion.policies.solving.worst_off.stated_rates import Rise
    from apportion.types import Bools, Floats

_APART = 1e-6
"""Least difference, relative to the largest price, that no solver overlooks."""
_SOME, _NONE = 1e-6, 1e-12
"""What a price, or a cost at the margin, is above, and below, if it is some or none."""
_HAIR = 1e-9
"""Part of a level by which another one is the same."""


class _Stop(NamedTuple):
    """Who stops where, and what that leaves open.

    Attributes
    ----------
    level
        Levels of all jobs in the end of the step, shape (jobs,).
    active, full
        Who may rise beyond it, and which types are full.
    may
        At which points each job may be, rest first, shape (jobs, options + 1).
    prices
        By how much one more GPU of each type would raise the height, shape (types,).
    height
        By how much the height rose, and how much to where a job's own time stops it.
    """

    level: Floats
    active: Bools
    full: Bools
    may: Bools
    prices: Floats
    height: tuple[float, float]


def filled_at_prices(
    policy: Policy, told: Instance, last: LastFilling | None = None, *, least: bool = True
) -> Attempted:
    """Fill to the last level of a policy.

    Parameters
    ----------
    last
        Where to begin; it takes where this ends.
    least
        Whether prices are to be the least where several are right.

    Returns
    -------
    Attempted
        Its objective is the one that is posed.

    Raises
    ------
    SolveError
        If levels do not rise in proportion, two choices cost nearly the same, or something else
        than GPUs and time limits jobs.
    """
    started = time.perf_counter()
    alone = told.own_usage is None and told.hard.size == told.capacity.size
    buyers = Buyers.of(told) if alone else None
    rising = None if buyers is None else StatedRates.of(policy, told)
    if buyers is None or rising is None or not (rising.unit > 0).all():
        raise SolveError("What rises is no throughput that GPUs alone limit.")
    last, filled = last or LastFilling(), None
    for way in last.ways:
        steps = _steps(buyers, rising, last, way)
        X = None if steps is None else _evenest(buyers, rising, steps)
        if steps is not None and X is not None:
            filled = _certified(told, rising, steps, make_feasible(X, told), least)
        elif way == 2:
            raise SolveError("Prices do not tell whom they stop.")
        if filled is not None:
            break
    if filled is None:
        raise SolveError("Other prices are as good.")
    stats = filled.stats | {"compile_s": 0.0, "solve_s": time.perf_counter() - started}
    return filled._replace(stats=stats | {"second_stage_s": 0.0})


def filled_by_jobs(
    policy: Policy, told: Instance, last: LastFilling, *, least: bool
) -> Attempted | None:
    """Fill single jobs; its objective is the declared one. ``None`` where prices do not tell."""
    try:
        filled = filled_at_prices(policy, told, last, least=least)
    except (SolveError, ValueError):  # of the policy's own text: solved anew, it is told
        return None
    if type(policy).objective is WaterFilling.objective:  # what is posed is declared
        return filled
    objective, slope = reported(policy, told, filled.objective)
    return filled._replace(objective=objective, prices=slope * filled.prices)


def _steps(buyers: Buyers, rising: StatedRates, last: LastFilling, way: int) -> list[_Stop] | None:
    """Rise step by step until nobody can; ``None`` where it is not clear who stops.

    No levels at all are higher than those that cost all that there is at some prices, whatever the
    way to these, so if shares make such levels in the end, the prices are right.
    """
    jobs, types = buyers.gpus.size, buyers.capacity.size
    level, active, full = np.zeros(jobs), np.ones(jobs, dtype=bool), np.zeros(types, dtype=bool)
    search = DemandColumns(buyers.speed, buyers.held, buyers.kind, buyers.capacity)
    may, worth = np.ones((jobs, buyers.kind.size + 1), dtype=bool), _worth(buyers) * rising.unit
    may[:, 1:] = buyers.speed > 0
    steps, held = list[_Stop](), np.zeros(types, dtype=bool)
    while active.any():
        place = len(steps)
        most = np.where(may[:, 1:], buyers.speed, 0.0).max(axis=1) / rising.unit
        path = rising.path(OwnLimits(most, worth, float(types)), active, level)
        search.restrict(may, full, held)
        step = _step(search, rising, path, full, last.near(place, full, held, way))
        if step is None:
            return None
        last.ended(place, search, way)
        steps.append(step)
        held |= step.full & ~full
        held[int(np.where(full, -np.inf, step.prices).argmax())] = False  # the others fill it
        level, active, full, may = step.level, step.active, step.full, step.may
    return steps


def _worth(buyers: Buyers) -> Floats:
    """Return the least part of all GPUs that throughput costs, where all types are worth one."""
    each = buyers.held[:, None] / buyers.capacity[buyers.kind]
    with np.errstate(divide="ignore"):
        return np.asarray((each / buyers.speed).min(axis=1))


def _step(
    search: DemandColumns, rising: StatedRates, path: Rise, full: Bools, near: Near | None
) -> _Stop | None:
    """Rise along a path as far as types allow."""
    if near is None or not path.until(0.0) > 0:
        return None

    known: dict[float, tuple[Floats, Floats, Floats]] = {}

    def demand(height: float) -> tuple[Floats, Floats]:
        if height not in known:
            level, slope = path.along(height)
            known[height] = level, rising.unit * level, rising.unit * slope
        return known[height][1:]

    if near.known is not None:
        search.rise_at(near.known, demand, near.height, path.until)
    elif not search.rise(demand, near, path.until):
        return None
    slope, level = demand(search.height)[1], known[search.height][0]
    own, stands = path.first, path.standing(search.height)
    if path.until(search.height) <= search.height:  # all make what they can
        if stands.any():
            return None
        nobody = np.zeros_like(search.idle)
        height = search.height, own
        return _Stop(level, nobody, full, search.anywhere(), 0 * search.prices, height)
    (may, apart), grows = search.choices(), search.dearer(slope)
    price, y = np.where(full, 0.0, search.prices) / search.dearest, search.marginal()
    if apart <= _APART or _unclear(np.concatenate([price, y[stands]])) or not grows > 0:
        return None
    go_on, full = stands & (y <= _NONE), full | (price > _NONE)
    if full.all():
        go_on = np.zeros_like(go_on)
    return _Stop(level, go_on, full, may, search.prices / grows, (search.height, own))


def _unclear(part: Floats) -> bool:
    """Whether one of some numbers may be nothing or not."""
    return bool(((part > _NONE) & (part < _SOME)).any())


def _evenest(buyers: Buyers, rising: StatedRates, steps: list[_Stop]) -> Floats | None:
    """Return the most even shares that all steps allow, shape (jobs, options)."""
    may, full = steps[-1].may, steps[-1].full
    speed, points = buyers.speed, buyers.kind.size + 1
    top, everyone = speed.max(axis=1), np.arange(speed.shape[0])
    row = np.zeros((top.size, points))
    row[:, 1:] = speed / top[:, None]
    wanted = np.minimum(rising.unit * steps[-1].level / top, 1.0)
    low, up = np.where(may, row, np.inf).argmin(axis=1), np.where(may, row, -1.0).argmax(axis=1)
    span, X = row[everyone, up] - row[everyone, low], np.zeros((top.size, points))
    part = np.divide(wanted - row[everyone, low], span, out=np.ones(top.size), where=span > _SOME)
    X[everyone, low] = 1.0 - part
    X[everyone, up] += part
    most = np.where(span > _SOME, 2, 1) + points * (wanted <= 0)
    tied = (may.sum(axis=1) > most).nonzero()[0]
    X[tied] = 0.0
    type_of = np.zeros((points, buyers.capacity.size))
    type_of[np.arange(1, points), buyers.kind] = 1.0
    there = type_of @ buyers.capacity
    left = buyers.capacity - buyers.held @ X @ type_of
    if tied.size:
        exactly = np.zeros(tied.size, dtype=bool)
        jobs = Indifferent(row[tied], wanted[tied], buyers.held[tied], may[tied], exactly)
        found = jobs.evenest(type_of, there, left, full)
        if found is None:
            return None
        X[tied] = found
    return X[:, 1:]


def _certified(
    told: Instance, rising: StatedRates, steps: list[_Stop], X: Floats, least: bool
) -> Attempted | None:
    """Return shares that make all levels, with what is known of the first one."""
    level, first = steps[-1].level, steps[0]
    made = (told.throughput * X).sum(axis=1) / rising.unit
    off = np.divide(np.abs(made - level), level, out=np.zeros_like(level), where=level > 0)
    missed = float(off.max())
    rate = rising.rates(np.ones(level.size, dtype=bool))
    moves = rate > 0
    value, (height, own) = float((made[moves] / rate[moves]).min()), first.height
    prices = first.prices if height < own else 0 * first.prices
    if missed > _HAIR:
        return None
    if least and first.prices.any():
        apart = abs(own - height) > _APART * height
        begun = made <= height * rate * (1 + _APART)
        if not apart or (prices.any() and not _only_prices(told, X, begun)):
            return None
    gap = max(relative_gap(value, min(height, own)), missed, rising.inexact)
    stats = {"solver": "prices", "rows": level.size, "steps": len(steps), "changed": 0}
    return Attempted(X, value, gap, prices, stats)


def _only_prices(told: Instance, X: Floats, held: Bools) -> bool:
    """Whether an optimum leaves no other prices of the first level, up to their size.

    A type that is not full has none, nor has one that a job holds which makes more than its level.
    What else a job holds costs ``y * speed - what is left of its time``, which is all if it rests.
    """
    types, has = told.capacity.size, X > _HAIR
    used = told.row_count @ (told.gpus * X)
    free = used < (1 - _HAIR) * told.capacity
    free |= has[~held].any(axis=0)
    rests = X.sum(axis=1) < 1 - _HAIR
    known = [np.eye(types)[free]]
    for job in np.flatnonzero(held & (has.sum(axis=1) > np.where(rests, 1, 2))):
        at = np.flatnonzero(has[job])
        spans = [told.throughput[job, at], *([] if rests[job] else [np.ones(at.size)])]
        beside = np.linalg.qr(np.array(spans).T, mode="complete")[0][:, len(spans) :]
        rows = np.zeros((beside.shape[1], types))
        rows[:, at] = beside.T
        known.append(rows)
    return int(np.linalg.matrix_rank(np.concatenate(known), tol=_APART)) == types - 1
