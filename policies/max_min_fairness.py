"""Max-min fairness: the job that is worst off is as well off as can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies.base import Policy
from apportion.policies.core.forms import Form

if TYPE_CHECKING:
    from apportion.policies.problem import Problem
    from apportion.types import Floats


@dataclass(frozen=True)
class MaxMinFairness(Policy):
    r"""Least attained service: maximise the least weighted, normalised throughput.

    .. math:: \max_X \min_i \frac{s_i}{w_i} \frac{\mathrm{thr}_i}{\mathrm{eq}_i}

    The problem::

        max over X of min over jobs of scale_factor / weight * throughput / equal share

    A job's throughput is counted relative to its equal share, per GPU that it holds, and per unit
    of its weight (Gavel, section 4.1).
    """

    name = "max_min_fairness"
    source = "Gavel (OSDI 2020), section 4.1"
    columns = ("weight",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = False

    def objective(self, p: Problem) -> cp.Maximize:
        """State the least normalised throughput."""
        return cp.Maximize(cp.min(cp.multiply(self._per_step(p), p.throughput)))

    def form(self, p: Problem) -> Form:
        """Return what a step/s adds to a job's level."""
        return Form.level(self._per_step(p))

    def _per_step(self, p: Problem) -> Floats:
        return p.scale_factor / (p.weight * p.equal_share_throughput)
