"""Policies about the job that is slowest, by numbers that each job has."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies.base import Policy
from apportion.policies.core.forms import Form

if TYPE_CHECKING:
    from apportion.policies.problem import Problem
    from apportion.types import Floats


class SlowestJob(Policy):
    """Minimise the largest ``offset + factor / throughput``: a policy says both for each job.

    Who solves again and again asks for `slowness` alone, and needs no expression.
    """

    @abstractmethod
    def slowness(self, p: Problem) -> tuple[Floats | float, Floats]:
        """Return offset and factor of each job, >= 0 and > 0, shape (jobs,)."""

    def objective(self, p: Problem) -> cp.Minimize:
        """State the largest over jobs of offset + factor / throughput."""
        offset, factor = self.slowness(p)
        return cp.Minimize(cp.max(offset + cp.multiply(factor, cp.inv_pos(p.throughput))))

    def form(self, p: Problem) -> Form:
        """Return offset and factor of each job."""
        offset, factor = self.slowness(p)
        return Form.inverse(factor, offset)
