"""Minimum makespan: the last of the jobs at hand completes as early as possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies.max_min import MaxMinPolicy

if TYPE_CHECKING:
    from apportion.policies.problem import Problem

__all__ = ["Makespan"]


@dataclass(frozen=True)
class Makespan(MaxMinPolicy):
    """Minimise the time until all jobs are done, by one linear program.

    The makespan T is least where 1/T is largest: every job must make ``steps_remaining / T``
    steps/s (Gavel, section 4.2, which bisects over T instead). The objective is given in seconds.
    """

    name = "makespan"
    problem = "min over X of max over jobs of steps remaining / throughput"
    source = "Gavel (OSDI 2020), section 4.2"
    unit = "s"
    columns = ("steps_remaining",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = False

    def utility(self, p: Problem) -> cp.Expression:
        """State the inverse of each job's time to completion, 1/s."""
        return cp.multiply(1 / p.steps_remaining, p.throughput)

    def reported(self, value: float) -> tuple[float, float]:
        """Turn 1/s into seconds."""
        return 1 / value, 1 / value**2
