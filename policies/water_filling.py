"""Policies that are water filling: throughputs rise at rates of their own."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies.base import Policy

if TYPE_CHECKING:
    from apportion.policies.base import Rates
    from apportion.policies.problem import Problem


class WaterFilling(Policy):
    """Raise throughputs, relative to equal shares, at rates: a policy says these.

    Who fills again and again asks for `rates` alone, and needs no expression.
    """

    lexicographic: bool = True

    @abstractmethod
    def rates(self, p: Problem) -> Rates:
        """Return how fast the utilities rise, given which jobs still can."""

    def utility(self, p: Problem) -> cp.Expression:
        """State the throughput relative to the equal share."""
        return cp.multiply(1 / p.equal_share_throughput, p.throughput)

    def objective(self, p: Problem) -> cp.Maximize:
        """State the height of the first level."""
        speed = self.rates(p)(np.ones(p.count.size, dtype=bool))
        rising = np.flatnonzero(speed > 0)
        return cp.Maximize(cp.min(cp.multiply(1 / speed[rising], self.utility(p)[rising])))
