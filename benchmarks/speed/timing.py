"""Our side of a decision: the three columns, on a problem whose capacities bind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import apportion as ap
from apportion.policies import get_policy, solve_instance
from benchmarks.speed.harness import Row, cpu_seconds

if TYPE_CHECKING:
    from apportion.policies import Policy
    from apportion.policies.solution import Solution
    from benchmarks.speed.problems import Case

__all__ = ["Ours", "agreement", "assert_binding", "ours"]


@dataclass(frozen=True)
class Ours:
    """CPU seconds of the first stage, of both and of `ap.solve`, and the solution of both."""

    first_s: float
    both_s: float
    called_s: float
    solution: Solution

    def row(self, goal: str, what: str, target: str = "", **more: Any) -> Row:
        """A line of the table with these figures."""
        return Row(
            *(goal, what, target),
            first_s=self.first_s,
            both_s=self.both_s,
            called_s=self.called_s,
            classes=self.solution.stats["classes"],
            gap=self.solution.gap,
            **more,
        )


def ours(
    policy: str | Policy,
    case: Case,
    repeats: int = 5,
    *,
    called: bool = True,
    binding: bool = True,
    **options: Any,
) -> Ours:
    """Time one policy on one problem in three ways.

    Parameters
    ----------
    called
        Whether the labelled call is timed too. Its tables are there before, as a user has them.
    binding
        Whether every type must have a price; beyond the first of several levels none is told.
    """
    chosen, instance = get_policy(policy), case.instance
    first_s, _ = cpu_seconds(
        lambda: solve_instance(chosen, instance, second_stage=False, **options), repeats
    )
    both_s, solution = cpu_seconds(lambda: solve_instance(chosen, instance, **options), repeats)
    if binding:
        assert_binding(solution, chosen.name, case)
    called_s = np.nan
    if called:
        speed, gpus, jobs = case.labelled
        called_s, allocation = cpu_seconds(
            lambda: ap.solve(chosen, speed, workers=gpus, jobs=jobs), repeats
        )
        if abs(allocation.objective / solution.objective - 1) > 1e-6:
            raise RuntimeError(f"{chosen.name}: the labelled call has another objective.")
    return Ours(first_s, both_s, called_s, solution)


def assert_binding(solution: Solution, policy: str, case: Case) -> None:
    """Refuse a problem that one job decides: there capacities are idle and all prices are 0.

    Raises
    ------
    RuntimeError
        If a type of GPU has no price.
    """
    if not (solution.prices > 0).all():
        raise RuntimeError(
            f"{policy} on {case.scale.size} jobs: prices {solution.prices}; a problem on which "
            "capacities do not bind says nothing about speed."
        )


def agreement(value: float | None, solution: Solution) -> str:
    """Say how far the other objective is from ours."""
    if value is None:
        return "the other found none"
    return f"objectives differ by {abs(value / solution.objective - 1):.0e}"
