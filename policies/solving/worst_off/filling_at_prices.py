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
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import SolveError
from apportion.policies.solution import Attempted
from apportion.policies.solving.certificate import make_feasible, relative_gap
from apportion.policies.solving.demands import reported
from apportion.policies.solving.worst_off.buyers import Buyers
from apportion.policies.solving.worst_off.filling_steps import APART, Filling
from apportion.policies.solving.worst_off.last_filling import LastFilling
from apportion.policies.solving.worst_off.stated_rates import StatedRates
from apportion.policies.water_filling import WaterFilling

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.worst_off.filling_steps import Stop
    from apportion.types import Bools, Floats

_HAIR = 1e-9
"""Part of a level by which another one is the same."""


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
    alone = told.own_usage is None and bool((told.capacity < np.inf).all())
    buyers = Buyers.of(told) if alone else None
    rising = None if buyers is None else StatedRates.of(policy, told)
    if buyers is None or rising is None or not (rising.unit > 0).all():
        raise SolveError("What rises is no throughput that GPUs alone limit.")
    filling, last, filled = Filling(buyers, rising), last or LastFilling(), None
    for way in last.ways:
        steps = filling.steps(last, way)
        X = None if steps is None else filling.evenest(steps[-1])
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


def _certified(
    told: Instance, rising: StatedRates, steps: list[Stop], X: Floats, least: bool
) -> Attempted | None:
    """Return shares that make all levels, with what is known of the first one."""
    level, first = steps[-1].level, steps[0]
    made = np.add.reduce(told.throughput * X, axis=1) / rising.unit
    off = np.divide(np.abs(made - level), level, out=np.zeros(level.size), where=level > 0)
    missed = float(np.maximum.reduce(off))
    rate = rising.rates(np.ones(level.size, dtype=bool))
    moves = rate > 0
    value, (height, own) = float((made[moves] / rate[moves]).min()), first.height
    prices = first.prices if height < own else 0 * first.prices
    if missed > _HAIR:
        return None
    if least and first.prices.any():
        apart = abs(own - height) > APART * height
        begun = made <= height * rate * (1 + APART)
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
    return int(np.linalg.matrix_rank(np.concatenate(known), tol=APART)) == types - 1
