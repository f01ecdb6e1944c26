"""Newton's method on the optimality conditions of Nash welfare, from near the solution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trust.definitions.programs import into_constraints

if TYPE_CHECKING:
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts

MOST_UNKNOWNS = 200


def polish(
    facts: Facts, present: np.ndarray, keep: np.ndarray, x: Floats, prices: Floats
) -> tuple[Floats, Floats]:
    """Return x and prices that meet the conditions to rounding, or those given if that fails.

    At the optimum ``weight * speed / throughput = gpus * price + price of the job's time`` for all
    entries in use, and what has a price is used up.
    """
    weight = np.where(present, facts.weight * facts.count, 0.0)
    thr = facts.thr.toarray()
    row, _ = facts.entries
    best, least = (x, prices), _violation(facts, weight, keep, x, prices)
    for threshold in (1e-6, 1e-4, 1e-8):
        used = np.flatnonzero(keep & (x > threshold))
        priced = np.flatnonzero(prices * facts.capacity > threshold * weight.max())
        full = np.flatnonzero(present & (1 - facts.time @ x < threshold))
        size = len(used) + len(priced) + len(full)
        if size > MOST_UNKNOWNS or facts.case.rows > facts.case.jobs:
            return best
        found = _newton(facts, weight, thr, row, x, prices, used, priced, full)
        if found is None:
            continue
        violation = _violation(facts, weight, keep, *found)
        if violation < least:
            best, least = found, violation
        if least < 1e-13:
            break
    return best


def _newton(
    facts: Facts,
    weight: Floats,
    thr: Floats,
    row: np.ndarray,
    x: Floats,
    prices: Floats,
    used: np.ndarray,
    priced: np.ndarray,
    full: np.ndarray,
) -> tuple[Floats, Floats] | None:
    x, prices = np.where(np.isin(np.arange(len(x)), used), x, 0.0), prices.copy()
    speed = thr[row[used], used]
    held = facts.gpus.toarray()[np.ix_(priced, used)]
    there = (row[used][None, :] == full[:, None]).astype(float)
    own = row[used]
    mine = own[:, None] == own[None, :]
    weights = weight[own]
    made = np.maximum((facts.thr @ x)[own], 1e-300)
    hour = there @ np.maximum(weights * speed / made - held.T @ prices[priced], 0.0)
    hour = hour / np.maximum(there.sum(axis=1), 1.0)
    for _ in range(12):
        made = (facts.thr @ x)[own]
        if not made.min() > 0:
            return None
        share = weights * speed / made
        gradient = share - held.T @ prices[priced] - there.T @ hour
        second = -np.where(mine, np.outer(share, speed / made), 0.0)
        rest = np.concatenate(
            [facts.capacity[priced] - held @ x[used], np.ones(len(full)) - there @ x[used]]
        )
        limits = np.concatenate([held, there])
        matrix = np.block([[second, -limits.T], [limits, np.zeros((len(limits),) * 2)]])
        right = np.concatenate([-gradient, rest])
        # Rows of one scale each: weights may differ by many magnitudes.
        scale = np.concatenate([1 / np.maximum(share, 1e-300), np.ones(len(limits))])
        step = np.linalg.lstsq(matrix * scale[:, None], right * scale, rcond=1e-14)[0]
        x[used] += step[: len(used)]
        prices[priced] += step[len(used) : len(used) + len(priced)]
        hour += step[len(used) + len(priced) :]
        if np.abs(step[: len(used)]).max(initial=0.0) < 1e-15:
            break
    if not np.isfinite(x).all() or x.min() < -1e-9:
        return None
    x = into_constraints(facts, x)
    return (x, np.maximum(prices, 0.0)) if (facts.thr @ x)[own].min() > 0 else None


def _violation(facts: Facts, weight: Floats, keep: np.ndarray, x: Floats, prices: Floats) -> float:
    """How much the welfare at x can be raised, as the tangent and the prices tell."""
    row, _ = facts.entries
    there = weight > 0
    made = facts.thr @ x
    if not made[there].min() > 0:
        return float("inf")
    each = np.divide(weight, made, out=np.zeros_like(weight), where=there)
    surplus = np.where(keep, facts.thr.T @ each - facts.usage * prices[facts.entry_type], 0.0)
    best = np.zeros(len(weight))
    np.maximum.at(best, row, surplus)
    return max(0.0, float(prices @ facts.capacity + best.sum() - weight.sum()))
