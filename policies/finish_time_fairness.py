"""Finish-time fairness: nobody should be much later than on a cluster of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies.base import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

__all__ = ["FinishTimeFairness"]


@dataclass(frozen=True)
class FinishTimeFairness(Policy):
    """Minimise the largest ratio of completion time here to completion time in isolation.

    For each job ``rho = (elapsed + remaining / throughput) / (isolated_elapsed + remaining /
    isolated throughput)``, where the isolated cluster is a 1/n slice of every type (Themis,
    section 3; Gavel, section 4.2).
    """

    name = "finish_time_fairness"
    problem = "min over X of max over jobs of completion time / completion time in a 1/n slice"
    source = "Themis (NSDI 2020), section 3; Gavel (OSDI 2020), section 4.2"
    columns = ("steps_remaining", "elapsed_s", "isolated_elapsed_s")

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def objective(self, p: Problem) -> cp.Minimize:
        """State the largest finish-time-fairness ratio."""
        isolated_s = self._isolated_s(p)
        speed = cp.multiply(isolated_s / p.steps_remaining, p.throughput)
        return cp.Minimize(cp.max(p.elapsed_s / isolated_s + cp.inv_pos(speed)))

    def keeping(self, p: Problem, value: float) -> Sequence[cp.Constraint]:
        """Hold each job to the throughput that keeps its ratio at `value`."""
        return [p.throughput >= p.steps_remaining / (value * self._isolated_s(p) - p.elapsed_s)]

    def _isolated_s(self, p: Problem) -> NDArray[np.float64]:
        """Return the completion time of each job on a cluster of its own."""
        return p.column("isolated_elapsed_s") + p.steps_remaining / p.isolated_throughput
