"""Proportional fairness: the largest product of throughputs."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from apportion.policies import Form, Policy, Problem


@dataclass(frozen=True)
class NashWelfare(Policy):
    r"""Maximise the weighted product of normalised throughputs: proportional fairness.

    .. math:: \max_X \sum_i w_i \log \frac{s_i \, \mathrm{thr}_i}{\mathrm{eq}_i}

    The problem::

        max over X of sum over jobs of weight * log(scale_factor * throughput / equal share)
    """

    name = "nash_welfare"
    source = "Kelly, Maulloo, Tan (1998); Cole, Gkatzelis, Goel (EC 2013)"
    columns = ("weight",)

    heterogeneity_aware: bool = True

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum of weighted logarithms."""
        share = cp.multiply(p.scale_factor / p.equal_share_throughput, p.throughput)
        return cp.Maximize((p.count * p.weight) @ cp.log(share))

    def form(self, p: Problem) -> Form:
        """Return the weights of the logarithms, and what the logarithms of the units add."""
        weight = p.count * p.weight
        return Form.log(weight, float(weight @ np.log(p.scale_factor / p.equal_share_throughput)))
