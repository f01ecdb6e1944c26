"""The policies as a textbook writes them in cvxpy: no grouping, no second stage, no certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
from scipy.stats import rankdata

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Objective = Callable[[cp.Expression, "Facts"], cp.Minimize | cp.Maximize]


class Facts:
    """What the objectives need to know of the jobs, in arrays of shape (jobs,)."""

    def __init__(self, speed: Floats, jobs: pd.DataFrame, gpus: Floats) -> None:
        self.speed, self.gpus = speed, gpus
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
    return _in_order(throughput, facts, facts.order.astype(float))


def _shortest_job_first(throughput: cp.Expression, facts: Facts) -> cp.Maximize:
    return _in_order(throughput, facts, rankdata(facts.steps / facts.fastest, "dense") - 1)


def _in_order(throughput: cp.Expression, facts: Facts, place: Floats) -> cp.Maximize:
    """Weigh each job by its place, 0 for the first, and by its GPUs."""
    weight = facts.scale_factor * (place.max() + 1 - place) / facts.fastest
    return cp.Maximize(cp.sum(cp.multiply(weight, throughput)))


def _max_total_throughput(throughput: cp.Expression, _: Facts) -> cp.Maximize:
    return cp.Maximize(cp.sum(throughput))


def _min_cost(throughput: cp.Expression, facts: Facts) -> cp.Maximize:
    return cp.Maximize(cp.sum(cp.multiply(1 / facts.fastest, throughput)))


def _nash_welfare(throughput: cp.Expression, facts: Facts) -> cp.Maximize:
    share = cp.multiply(facts.scale_factor / facts.equal_share, throughput)
    return cp.Maximize(cp.sum(cp.log(share)))


OBJECTIVES: dict[str, Objective] = {
    "max_min_fairness": _max_min_fairness,
    "makespan": _makespan,
    "finish_time_fairness": _finish_time_fairness,
    "fifo": _fifo,
    "shortest_job_first": _shortest_job_first,
    "max_total_throughput": _max_total_throughput,
    "min_cost": _min_cost,
    "nash_welfare": _nash_welfare,
}


def solve_textbook(policy: str, facts: Facts, solver: str, limit_s: float) -> float | None:
    """Pose and solve a policy; return its objective, or None if there was none in time.

    `min_cost` is the linear fraction of Charnes and Cooper (1962): shares are counted in units in
    which all of them cost 1, so the time that a unit stands for is a variable.
    """
    steps_per_s, gpus = facts.speed, facts.gpus
    X = cp.Variable(steps_per_s.shape, nonneg=True)
    per_cost = policy == "min_cost"
    unit: Any = cp.Variable(nonneg=True) if per_cost else 1
    held = facts.scale_factor @ X
    throughput: Any = cp.sum(cp.multiply(steps_per_s, X), axis=1)
    limits = [cp.sum(X, axis=1) <= unit, held <= gpus * unit]
    if per_cost:
        limits.append(held @ prices(gpus.size) == 1)
    if (steps_per_s == 0).any():
        limits.append(X[steps_per_s == 0] == 0)
    value = _optimum(OBJECTIVES[policy](throughput, facts), limits, solver, limit_s)
    return 1 / value if policy == "makespan" and value is not None else value


def solve_sia(options: pd.DataFrame, gpus: Floats, solver: str, limit_s: float) -> float | None:
    """Sia's round as a textbook writes it: one option (type, GPUs) a job, or none.

    GPUs are of the types in the order of the options. The worth of an option is 1.1 - (throughput /
    least throughput) ** -.5 (Sia, section 3).
    """
    speed = options.to_numpy()
    kind = pd.factorize(options.columns.get_level_values("accelerator"))[0]
    held = options.columns.get_level_values("gpus").to_numpy(dtype=float)
    worth = 1.1 - (speed / speed.min(axis=1, keepdims=True)) ** -0.5
    X = cp.Variable(speed.shape, boolean=True)
    of_type = held[:, None] * np.eye(gpus.size)[kind]
    limits = [cp.sum(X, axis=1) <= 1, cp.sum(X, axis=0) @ of_type <= gpus]
    return _optimum(cp.Maximize(cp.sum(cp.multiply(worth, X))), limits, solver, limit_s)


def prices(types: int) -> Floats:
    """US dollars of a GPU-hour, the fastest type's first."""
    return np.linspace(3.0, 1.0, types)


def _optimum(
    objective: cp.Minimize | cp.Maximize, limits: list[Any], solver: str, limit_s: float
) -> float | None:
    problem = cp.Problem(objective, limits)
    try:
        problem.solve(solver=solver, **_limit(solver, limit_s))
    except cp.SolverError:
        return None
    value: Any = problem.value
    return None if problem.status != cp.OPTIMAL else float(value)


def _limit(solver: str, seconds: float) -> dict[str, float]:
    """Name a time limit as a solver knows it; ECOS knows none."""
    name = {"HIGHS": "time_limit", "CLARABEL": "time_limit", "SCS": "time_limit_secs"}.get(solver)
    return {} if name is None else {name: seconds}
