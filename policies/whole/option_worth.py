"""Policies whose objective is a sum of what options are worth to jobs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies.base import Policy

if TYPE_CHECKING:
    from apportion.policies.problem import Problem
    from apportion.types import Floats


class WeightedOptions(Policy):
    """Maximise a weighted sum over jobs: a policy says what each option is worth to each.

    Who decides again and again asks for `worth` alone, and needs no expression.
    """

    @abstractmethod
    def worth(self, p: Problem) -> Floats:
        """Return what each option is worth to a job, before its weight, shape (jobs, options)."""

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum over jobs of weight * worth of the option that each has."""
        each = cp.sum(cp.multiply(self.worth(p), p.X), axis=1)
        return cp.Maximize(p.total(cp.multiply(p.weight, each)))
