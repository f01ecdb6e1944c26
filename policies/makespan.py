"""Minimum makespan: the last of the jobs at hand completes as early as possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apportion.policies.max_min import MaxMinPolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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

    def demand(self, p: Problem, level: float) -> NDArray[np.float64]:
        """Return the steps/s that complete each job in 1 / level seconds."""
        return level * p.steps_remaining

    def reported(self, value: float) -> tuple[float, float]:
        """Turn 1/s into seconds."""
        return 1 / value, 1 / value**2
