"""The most steps in all."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp

from apportion.policies import Form, Policy, Problem


@dataclass(frozen=True)
class MaxTotalThroughput(Policy):
    r"""Maximise the sum of all jobs' steps/s (Gavel, section 4.2).

    .. math:: \max_X \sum_i \mathrm{thr}_i

    The problem::

        max over X of sum over jobs of throughput

    Steps of different models are counted alike, so jobs with short steps come first.
    """

    name = "max_total_throughput"
    source = "Gavel (OSDI 2020), section 4.2"
    unit = "steps/s"
    traits = frozenset({"depends_on_step_size"})

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum of throughputs."""
        return cp.Maximize(p.total(p.throughput))

    def form(self, p: Problem) -> Form:
        """Return 1 for each job of a class."""
        return Form.gain(p.count)
