"""Finish-time fairness: nobody should be much later than on a cluster of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import cvxpy as cp
import numpy as np

from apportion.policies.base import Policy
from apportion.policies.solving.worst_off.water_filling import even_share, water_fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

    Floats = NDArray[np.float64]

__all__ = ["FinishTimeFairness"]


@dataclass(frozen=True)
class FinishTimeFairness(Policy):
    """Minimise the largest ratio of completion time here to completion time in isolation.

    For each job ``rho = (elapsed + remaining / throughput) / (isolated_elapsed + remaining /
    isolated throughput)``, where the isolated cluster is a 1/n slice of every type (Themis,
    section 3; Gavel, section 4.2). With ``lexicographic=True`` also the second largest ratio is as
    small as can be, then the third, and so on: water filling of 1 / rho.
    """

    name = "finish_time_fairness"
    problem = "min over X of max over jobs of completion time / completion time in a 1/n slice"
    source = "Themis (NSDI 2020), section 3; Gavel (OSDI 2020), section 4.2"
    columns = ("steps_remaining", "elapsed_s", "isolated_elapsed_s")

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = False

    def ratio(self, p: Problem) -> cp.Expression:
        """State the finish-time-fairness ratio of each job."""
        isolated_s = self._isolated_s(p)
        speed = cp.multiply(isolated_s / p.steps_remaining, p.throughput)
        return p.elapsed_s / isolated_s + cp.inv_pos(speed)

    def objective(self, p: Problem) -> cp.Minimize:
        """State the largest ratio."""
        return cp.Minimize(cp.max(self.ratio(p)))

    def demand(self, p: Problem, level: Floats | float) -> Floats:
        """Return the steps/s that keep each job's ratio at `level`; infinite if it has passed."""
        left_s = level * self._isolated_s(p) - p.elapsed_s
        return np.divide(
            p.steps_remaining, left_s, out=np.full_like(left_s, np.inf), where=left_s > 0
        )

    def keeping(self, p: Problem, value: Floats | float) -> Sequence[cp.Constraint]:
        """Hold each job to the throughput that keeps its ratio at `value`."""
        return [p.throughput >= self.demand(p, value)]

    def final_levels(self, p: Problem) -> Sequence[cp.Constraint] | None:
        """Lower the ratios as far as they go, if they are to be lexicographically least."""
        if not self.lexicographic:
            return None
        p.X.value = even_share(p)
        start = 1 / float(np.max(self.ratio(p).value))
        inverse = _InverseRatios(p.steps_remaining, p.elapsed_s, self._isolated_s(p), start)
        filled = water_fill(p, p.throughput, inverse, self.constraints(p))
        return [p.throughput == filled.level]

    def _isolated_s(self, p: Problem) -> Floats:
        """Return the completion time of each job on a cluster of its own."""
        return p.column("isolated_elapsed_s") + p.steps_remaining / p.isolated_throughput


@dataclass(frozen=True, eq=False)
class _InverseRatios:
    """Steps/s at which the finish-time-fairness ratios are 1 / height, for water filling.

    ``steps * height / (isolated_s - elapsed_s * height)``: convex, a straight line for jobs that
    have just arrived.
    """

    steps: Floats
    elapsed_s: Floats
    isolated_s: Floats
    start: float

    straight: ClassVar[bool] = False

    def tangent(
        self,
        active: NDArray[np.bool_],
        level: Floats,
        height: float,
    ) -> tuple[Floats, Floats]:
        """Return the demands at a height and their derivatives; zeros for jobs not active."""
        left_s = np.where(active, self.isolated_s - self.elapsed_s * height, np.inf)
        return self.steps * height / left_s, self.steps * self.isolated_s / left_s**2

    def highest(self, active: NDArray[np.bool_]) -> float:
        """Return the height at which the first job would have had to be done by now."""
        waited = active & (self.elapsed_s > 0)
        return float((self.isolated_s[waited] / self.elapsed_s[waited]).min(initial=np.inf))
