"""What a decision costs without the layers under `solve`: plain cvxpy, scipy, and POP."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linprog

from benchmarks.speed.harness import cpu_seconds, cpu_seconds_once
from benchmarks.textbook import Facts, solve_textbook

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.speed.problems import Case

__all__ = ["best_plain", "gavel_value", "installed", "plain", "pop", "scipy_max_min"]


def installed(*solvers: str) -> list[str]:
    """Those of some solvers that cvxpy finds."""
    there = cp.installed_solvers()
    return [solver for solver in solvers if solver in there]


def plain(
    policy: str, case: Case, solver: str, limit_s: float, repeats: int = 0
) -> tuple[float, float | None]:
    """CPU seconds and objective of the textbook problem in cvxpy; None if there was none.

    The first call is what counts, or, with `repeats`, the median of so many that follow it.
    """
    speed = pd.DataFrame(case.speed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        def call() -> float | None:
            return solve_textbook(policy, speed, case.table, case.gpus, solver, limit_s)

        return cpu_seconds(call, repeats) if repeats else cpu_seconds_once(call)


def best_plain(
    policy: str, case: Case, solvers: list[str], limit_s: float
) -> tuple[str, float, float | None]:
    """Name, CPU seconds and objective of the fastest of several solvers that found an optimum."""
    tried = [(solver, *plain(policy, case, solver, limit_s, repeats=1)) for solver in solvers]
    found = [each for each in tried if each[2] is not None]
    return min(found, key=lambda each: each[1]) if found else ("none", np.nan, None)


def pop(policy: str, case: Case, parts: int, solver: str) -> tuple[float, float, float]:
    """Partition at random as POP (SOSP 2021): CPU seconds in all and of the slowest, least value.

    Every part has an equal share of the GPUs; the objective is that of the worst part.
    """
    order = np.random.default_rng(0).permutation(case.scale.size)
    seconds, values = [], []
    for jobs in np.array_split(order, parts):
        spent, value = plain(policy, case.part(jobs, 1 / parts), solver, 600.0)
        seconds.append(spent)
        values.append(np.nan if value is None else value)
    return sum(seconds), max(seconds), float(np.min(values))


def gavel_value(policy: str, case: Case, X: NDArray[np.float64]) -> float | None:
    """Objective of shares that Gavel's code gives; None for a policy that has no formula here."""
    facts = Facts(case.speed, case.table, case.gpus)
    throughput = (case.speed * X).sum(axis=1)
    if policy == "max_min_fairness":
        return float((facts.scale_factor * throughput / facts.equal_share).min())
    if policy == "makespan":
        return float((facts.steps / throughput).max())
    if policy == "finish_time_fairness":
        finish_s = facts.elapsed_s + facts.steps / throughput
        return float((finish_s / facts.isolated_s).max())
    return None


def scipy_max_min(case: Case) -> tuple[float, float]:
    """CPU seconds and objective of max-min fairness in `scipy.optimize.linprog`."""
    jobs, types = case.speed.shape
    utility = case.speed * (case.scale / (case.speed @ (case.gpus / case.gpus.sum())))[:, None]
    cell = np.arange(jobs * types)
    job = np.repeat(np.arange(jobs), types)
    least = sparse.csr_array((-utility.ravel(), (job, cell)), shape=(jobs, jobs * types))
    level = sparse.csr_array(np.ones((jobs, 1)))
    time = sparse.csr_array((np.ones(cell.size), (job, cell)), shape=(jobs, jobs * types))
    held = sparse.csr_array((np.repeat(case.scale, types), (cell % types, cell)))
    rows = sparse.block_array([[least, level], [time, None], [held, None]], format="csr")
    limits = np.concatenate([np.zeros(jobs), np.ones(jobs), case.gpus])
    cost = np.append(np.zeros(cell.size), -1.0)
    solve: Any = linprog  # its stubs know no sparse matrices
    seconds, result = cpu_seconds_once(lambda: solve(cost, A_ub=rows, b_ub=limits))
    return seconds, -float(result.fun)
