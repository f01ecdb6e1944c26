"""What prices prove: weak duality, computed from nothing but the prices and the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts


def total_bound(facts: Facts, value: Floats, prices: Floats) -> float:
    """Most that value @ x can be: capacity at its price, and each job's best surplus.

    Only for cases in which every row is one job.
    """
    row, _ = facts.entries
    surplus = value - facts.usage * prices[facts.entry_type]
    best = np.zeros(facts.case.jobs)
    np.maximum.at(best, row, surplus)
    return float(prices @ facts.capacity + best.sum())


class LeastCost:
    """Cost at given prices of so many steps/s of each job: convex and piecewise linear.

    It is the largest of the lines ``y * steps - surplus(y)`` over the slopes y at which the
    cheapest mix of options changes.
    """

    def __init__(self, facts: Facts, prices: Floats) -> None:
        row, option = facts.entries
        speed = np.zeros(facts.case.gpus.shape)
        cost = np.zeros(facts.case.gpus.shape)
        member = facts.believed
        speed[facts.case.row] = member
        mask = np.zeros(speed.shape, dtype=bool)
        mask[row, option] = True
        speed = np.where(mask, speed, 0.0)
        cost[row, option] = facts.usage * prices[facts.entry_type]
        cost = np.where(mask, cost, 0.0)
        points = np.concatenate([speed, np.zeros((len(speed), 1))], axis=1)
        costs = np.concatenate([cost, np.zeros((len(speed), 1))], axis=1)
        left, right = np.triu_indices(points.shape[1], 1)
        run, rise = points[:, right] - points[:, left], costs[:, right] - costs[:, left]
        apart = np.abs(run) > 1e-13 * points.max(axis=1, keepdims=True)
        slope = np.where(apart, rise / np.where(apart, run, 1.0), 0.0)
        self.slope = np.concatenate([np.zeros((len(speed), 1)), np.maximum(slope, 0.0)], axis=1)
        lines = self.slope[:, :, None] * points[:, None, :] - costs[:, None, :]
        self.surplus = lines.max(axis=2)
        self.speed = speed
        self.most = speed.max(axis=1)

    def __call__(self, steps: Floats) -> tuple[Floats, Floats, Floats]:
        """Cost of each job, and the least and largest slope there."""
        lines = self.slope * steps[:, None] - self.surplus
        cost = lines.max(axis=1)
        tied = lines >= cost[:, None] - 1e-9 * np.maximum(np.abs(cost), 1e-300)[:, None]
        least = np.where(tied, self.slope, np.inf).min(axis=1)
        largest = np.where(tied, self.slope, -np.inf).max(axis=1)
        full = steps >= self.most * (1 - 1e-9)
        return np.maximum(cost, 0.0), least, np.where(full, np.inf, largest)


def welfare_bound(facts: Facts, prices: Floats) -> float:
    """Most that the Nash welfare can be: capacity at its price, and each job's best surplus.

    A job's surplus ``weight * log(throughput) - least cost`` is concave; it is largest at a speed
    of an option or where the slope of the cost is weight / throughput.
    """
    curve = LeastCost(facts, prices)
    weight = (facts.weight * facts.count)[:, None]
    with np.errstate(divide="ignore"):
        turns = np.where(curve.slope > 0, weight / curve.slope, np.inf)
    steps = np.concatenate([curve.speed, turns], axis=1)
    steps = np.clip(steps, 1e-300, curve.most[:, None])
    lines = curve.slope[:, None, :] * steps[:, :, None] - curve.surplus[:, None, :]
    relative = steps * (facts.scale / facts.equal_share)[:, None]
    surplus = weight * np.log(relative) - np.maximum(lines.max(axis=2), 0.0)
    return float(prices @ facts.capacity + surplus.max(axis=1).sum())


def level_bound(
    facts: Facts, prices: Floats, demand: Callable[[float], tuple[Floats, Floats]], start: float
) -> tuple[float, float, float]:
    """Level that no allocation can pass, as the least cost of its demands says.

    Parameters
    ----------
    demand
        Steps/s of each job at a level, and their derivative.
    start
        The level at which some job needs all its time on its fastest type.

    Returns
    -------
    The bound, and the range of the derivative of the cost there; a price is the derivative of the
    level by capacity if 1 lies in that range.
    """
    curve = LeastCost(facts, prices)
    budget = float(prices @ facts.capacity)
    level = start
    for _ in range(200):
        steps, change = demand(level)
        cost, least, largest = curve(np.minimum(steps, curve.most))
        over = float(cost.sum()) - budget
        rate = float(np.abs(least * change).sum())
        step = over / rate if rate > 0 else 0.0
        if step <= 1e-13 * abs(level):
            break
        level -= np.sign(_toward(change)) * step
    steps, change = demand(level)
    _, least, largest = curve(steps)
    moving = np.abs(change) > 0
    low = float(np.abs(least * change)[moving].sum())
    high = float(np.abs(largest[moving] * change[moving]).sum())
    return level, low, high


def _toward(change: Floats) -> float:
    return float(change[np.argmax(np.abs(change))])
