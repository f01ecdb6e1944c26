"""What a decision costs in plain cvxpy, and what Gavel's shares are worth."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING

import cvxpy as cp
from cvxpy.error import SolverError

from benchmarks.textbook import solve_textbook

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.speed.problems import Case
    from benchmarks.textbook import Floats

__all__ = ["gavel_value", "installed", "plain", "plain_solvers"]

LIMIT_S = 60.0


def installed(*solvers: str) -> list[str]:
    """Those of some solvers that cvxpy finds."""
    known = cp.installed_solvers()
    return [solver for solver in solvers if solver in known]


def plain(policy: str, case: Case, solver: str, limit_s: float = LIMIT_S) -> float | None:
    """Return the optimum of the textbook's problem in cvxpy; None if a solver found none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return solve_textbook(policy, case.facts, solver, limit_s)


def plain_solvers(policy: str, case: Case) -> dict[str, Callable[[], float | None]]:
    """Return the plain solves that find an optimum, by solver; HiGHS has no curved objectives."""
    calls = {
        f"cvxpy + {solver}": partial(plain, policy, case, solver)
        for solver in installed("ECOS", "CLARABEL", "HIGHS")
    }
    return {name: call for name, call in calls.items() if _optimum(call) is not None}


def _optimum(call: Callable[[], float | None]) -> float | None:
    try:
        return call()
    except SolverError:  # the solver cannot take the problem
        return None


def gavel_value(policy: str, case: Case, X: Floats) -> float | None:
    """Objective of shares that Gavel's code gives; None for a policy that has no formula here."""
    facts = case.facts
    throughput = (case.speed * X).sum(axis=1)
    if policy == "max_min_fairness":
        return float((facts.scale_factor * throughput / facts.equal_share).min())
    if policy == "makespan":
        return float((facts.steps / throughput).max())
    if policy == "finish_time_fairness":
        finish_s = facts.elapsed_s + facts.steps / throughput
        return float((finish_s / facts.isolated_s).max())
    return None
