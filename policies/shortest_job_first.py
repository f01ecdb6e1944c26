"""The jobs with least time left come first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies import Form, Policy, Problem
from apportion.policies.fifo import weight_by_place

if TYPE_CHECKING:
    from apportion.types import Floats


@dataclass(frozen=True)
class ShortestJobFirst(Policy):
    r"""Shortest job first: the less time a job needs on its fastest type, the more it counts.

    .. math:: \max_X \sum_i s_i (M + 1 - m_i) \frac{\mathrm{thr}_i}{\mathrm{fast}_i},\ m_i\
        \text{by}\ R_i / \mathrm{fast}_i

    The problem::

        max over X of sum of GPUs * (M + 1 - place by time left) * throughput / fastest
    """

    name = "shortest_job_first"
    source = "Gavel (OSDI 2020), section 4.2"
    columns = ("steps_remaining",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def order(self, p: Problem) -> Floats:
        """Return the seconds that are left on the fastest type."""
        return p.steps_remaining / p.fastest_throughput

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum of throughputs, weighted by place."""
        weight = weight_by_place(p, self.order(p))
        return cp.Maximize(p.total(cp.multiply(weight, p.throughput)))

    def form(self, p: Problem) -> Form:
        """Return the weights."""
        return Form.gain(p.count * weight_by_place(p, self.order(p)))
