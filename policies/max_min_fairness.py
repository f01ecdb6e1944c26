"""Max-min fairness: the job that is worst off is as well off as can be."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp

from apportion.policies import Form, Policy, Problem


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
        per_step = p.scale_factor / (p.weight * p.equal_share_throughput)
        return cp.Maximize(cp.min(cp.multiply(per_step, p.throughput)))

    def form(self, p: Problem) -> Form:
        """Return what a step/s adds to a job's level."""
        return Form.level(p.scale_factor / (p.weight * p.equal_share_throughput))
