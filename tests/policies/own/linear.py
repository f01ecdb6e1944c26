"""Own linear programs with numbers far apart, in any units of speeds, steps and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from cvxpy.error import SolverError
from tests.policies.own.objectives import Plain

from apportion.policies import Policy

if TYPE_CHECKING:
    from tests.policies.own.objectives import Scene

__all__ = ["GOALS", "Goal", "best_of_plain"]


@dataclass(frozen=True)
class Goal(Policy):
    """A linear program of one's own, by name."""

    name = "goal"
    source = "drawn"
    columns = ("steps_remaining",)

    kind: str = "mean time"

    def objective(self, p: Any) -> cp.Maximize | cp.Minimize:
        """State it."""
        return GOALS[self.kind](p)[0]

    def constraints(self, p: Any) -> list[cp.Constraint]:
        """State them."""
        return list(GOALS[self.kind](p)[1])


def _mean_time(p: Any) -> Any:
    """Weighted mean of when work is done, over intervals of time."""
    steps = p.steps_remaining
    fast = steps / p.fastest_throughput
    end = float((p.count * p.scale_factor) @ fast / p.instance.capacity.sum() * 2 + fast.max())
    cuts = np.append(0, np.geomspace(end / 1000, 2 * end, 5))
    Z = [p.X, *(p.variable(f"Z{k}", p.X.shape, nonneg=True) for k in range(1, 5))]
    part = [
        cp.sum(cp.multiply(p.speed / steps[:, None] * length, z), axis=1)
        for z, length in zip(Z, np.diff(cuts), strict=True)
    ]
    late = sum(each * middle for each, middle in zip(part, (cuts[1:] + cuts[:-1]) / 2, strict=True))
    held = p.count * p.scale_factor
    limits = [sum(part) == 1]
    limits += [held @ z <= p.instance.capacity for z in Z[1:]]
    limits += [cp.sum(z, axis=1) <= 1 for z in Z[1:]]
    return cp.Minimize(p.total(cp.multiply(p.weight, late))), limits


def _rate(p: Any) -> Any:
    """Weighted rate of completion, no job below a part of its isolated rate."""
    rate = cp.multiply(p.weight / p.steps_remaining, p.throughput)
    return cp.Maximize(p.total(rate)), [p.throughput >= 0.4 * p.isolated_throughput]


def _worst(p: Any) -> Any:
    """Largest weighted rate of the worst job, of its fastest, within a budget of GPUs."""
    rate = cp.multiply(p.weight / p.fastest_throughput, p.throughput)
    return cp.Maximize(cp.min(rate)), [cp.sum(p.held) <= 0.8 * p.instance.capacity.sum()]


def _shortfall(p: Any) -> Any:
    """What jobs lack of three times their isolated rate, weighted, with a variable for each."""
    lack = p.variable("lack", int(p.count.size), nonneg=True)
    wanted = 3 * p.isolated_throughput
    relative = cp.multiply(p.weight / wanted, lack)
    return cp.Minimize(p.total(relative)), [p.throughput + lack >= wanted]


def _latest(p: Any) -> Any:
    """Largest weighted rate that all jobs have in common, a variable, with floors."""
    level = p.variable("level")
    rate = cp.multiply(p.weight / p.steps_remaining, p.throughput)
    return cp.Maximize(level), [rate >= level, p.throughput >= 0.1 * p.isolated_throughput]


GOALS = {
    "mean time": _mean_time,
    "rate": _rate,
    "worst": _worst,
    "shortfall": _shortfall,
    "latest": _latest,
}
"""Objective and constraints of each."""


def best_of_plain(kind: str, scene: Scene) -> float:
    """Return the best value that cvxpy's solvers find with every constraint met in its terms."""
    found = []
    for solver in (cp.HIGHS, cp.CLARABEL):
        p = Plain(scene)
        objective, limits = GOALS[kind](p)
        problem = cp.Problem(objective, [*p.limits, *limits])
        try:
            problem.solve(solver=solver)
        except (SolverError, ValueError):  # the latter where it knows nothing
            continue
        if problem.status not in {cp.OPTIMAL, cp.OPTIMAL_INACCURATE}:
            continue
        for variable in (p.X, *p.own.values()):
            variable.value = np.maximum(np.asarray(variable.value), 0.0)
        if max(map(_missed, problem.constraints)) <= 1e-6:
            found.append(float(objective.args[0].value))
    if not found:
        return float("nan")
    return min(found) if isinstance(objective, cp.Minimize) else max(found)


def _missed(limit: cp.Constraint) -> float:
    """By what part of its larger side a constraint is missed."""
    low, high = (np.asarray(side.value, dtype=float) for side in limit.args)
    size = np.maximum(np.maximum(np.abs(low), np.abs(high)), 1e-300)
    return float(np.max(limit.violation() / size, initial=0.0))
