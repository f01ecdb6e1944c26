"""What the max-min policies share: the least utility, and beyond it lexicographic water filling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies.base import Policy
from apportion.policies.solving.worst_off.water_filling import Steady, water_fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.problem import Problem
    from apportion.policies.solving.worst_off.water_filling import Rates

__all__ = ["MaxMinPolicy"]


class MaxMinPolicy(Policy):
    """Maximise the least of a utility over the jobs.

    A subclass states the `demand` of each job at a level, in proportion to it; or, where a utility
    is no multiple of the throughput, `utility` itself. With ``lexicographic=True`` also the second
    least, then the third, and so on: water filling.
    """

    lexicographic: bool = False

    def utility(self, p: Problem) -> cp.Expression:
        """State what the worst off job should have most of, an affine expression over jobs."""
        demand = self.demand(p, 1.0)
        if demand is None:
            raise NotImplementedError(f"{self!r} states neither a demand nor a utility.")
        return cp.multiply(1 / demand, p.throughput)

    def objective(self, p: Problem) -> cp.Maximize:
        """State the least utility."""
        return cp.Maximize(cp.min(self.utility(p)))

    def rates(self, p: Problem) -> Rates:
        """Return how fast the utilities rise in water filling: all alike."""
        return lambda active: active.astype(float)

    def final_levels(self, p: Problem) -> Sequence[cp.Constraint] | None:
        """Fill to the lexicographic optimum and state that every job keeps its level."""
        if not self.lexicographic:
            return None
        utility = self.utility(p)
        filled = water_fill(p, utility, Steady(self.rates(p)), self.constraints(p))
        return [utility == filled.level]
