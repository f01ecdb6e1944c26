"""The policies as a textbook writes them in cvxpy: no grouping, no second stage, no certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Objective = Callable[[cp.Expression, "Facts"], cp.Minimize | cp.Maximize]


class Facts:
    """What the objectives need to know of the jobs, in arrays of shape (jobs,)."""

    def __init__(self, speed: Floats, jobs: pd.DataFrame, gpus: Floats) -> None:
        self.scale_factor = jobs["scale_factor"].to_numpy(dtype=float)
        self.steps = jobs["steps_remaining"].to_numpy()
        self.elapsed_s = jobs["elapsed_s"].to_numpy()
        self.order = np.arange(len(jobs))
        self.equal_share = speed @ (gpus / gpus.sum())
        self.fastest = speed.max(axis=1)
        share = gpus / len(jobs) / self.scale_factor[:, None]
        share /= np.maximum(share.sum(axis=1, keepdims=True), 1.0)
        isolated = (share * speed).sum(axis=1)
        self.isolated_s = jobs["isolated_elapsed_s"].to_numpy() + self.steps / isolated


def _max_min_fairness(throughput: cp.Expression, facts: Facts) -> cp.Maximize:
    return cp.Maximize(cp.min(cp.multiply(facts.scale_factor / facts.equal_share, throughput)))


def _makespan(throughput: cp.Expression, facts: Facts) -> cp.Maximize:
    return cp.Maximize(cp.min(cp.multiply(1 / facts.steps, throughput)))


def _finish_time_fairness(throughput: cp.Expression, facts: Facts) -> cp.Minimize:
    pace = cp.multiply(facts.isolated_s / facts.steps, throughput)
    return cp.Minimize(cp.max(facts.elapsed_s / facts.isolated_s + cp.inv_pos(pace)))


def _fifo(throughput: cp.Expression, facts: Facts) -> cp.Maximize:
    weight = facts.scale_factor * (len(facts.order) - facts.order) / facts.fastest
    return cp.Maximize(cp.sum(cp.multiply(weight, throughput)))


OBJECTIVES: dict[str, Objective] = {
    "max_min_fairness": _max_min_fairness,
    "makespan": _makespan,
    "finish_time_fairness": _finish_time_fairness,
    "fifo": _fifo,
}


def solve_textbook(
    policy: str, speed: pd.DataFrame, jobs: pd.DataFrame, gpus: Floats, solver: str, limit_s: float
) -> float | None:
    """Pose and solve a policy; return its objective, or None if there was none in time."""
    steps_per_s = speed.to_numpy()
    facts = Facts(steps_per_s, jobs, gpus)
    X = cp.Variable(steps_per_s.shape, nonneg=True)
    throughput: Any = cp.sum(cp.multiply(steps_per_s, X), axis=1)
    limits = [cp.sum(X, axis=1) <= 1, facts.scale_factor @ X <= gpus, X[steps_per_s == 0] == 0]
    problem = cp.Problem(
        OBJECTIVES[policy](throughput, facts),
        limits if (steps_per_s == 0).any() else limits[:2],
    )
    try:
        problem.solve(solver=solver, **_limit(solver, limit_s))
    except cp.SolverError:
        return None
    if problem.status != cp.OPTIMAL:
        return None
    value: Any = problem.value
    return float(1 / value if policy == "makespan" else value)


def _limit(solver: str, seconds: float) -> dict[str, float]:
    """Name a time limit as a solver knows it; ECOS knows none."""
    name = {"HIGHS": "time_limit", "CLARABEL": "time_limit", "SCS": "time_limit_secs"}.get(solver)
    return {} if name is None else {name: seconds}
