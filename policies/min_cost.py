"""The most throughput per dollar."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp

from apportion.policies import Form, Policy, Problem


@dataclass(frozen=True)
class MinCost(Policy):
    r"""Maximise throughput per dollar: total throughput over total price, a linear fraction.

    .. math:: \max_X \frac{\sum_i \mathrm{thr}_i / \mathrm{fast}_i}{\sum_j c_j \sum_i s_i
        X_{ij}}

    The problem::

        max over X of sum of throughput / fastest over sum of price (per US dollar)

    A job's throughput counts relative to its fastest, so that steps of different models compare
    (the objective is Gavel's, section 4.2). Only the best bargains run; idle GPUs cost nothing and
    are not lent.
    """

    name = "min_cost"
    source = "Gavel (OSDI 2020), section 4.2"
    unit = "job-hours/$"
    traits = frozenset({"leaves_gpus_idle"})

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def objective(self, p: Problem) -> cp.Maximize:
        """State the relative throughput over the dollars an hour that it costs."""
        progress = p.total(cp.multiply(1 / p.fastest_throughput, p.throughput))
        return cp.Maximize(progress / p.cost_per_hour)

    def form(self, p: Problem) -> Form:
        """Return what a step/s of each job adds, and what a row costs under an option."""
        return Form.ratio(p.count / p.fastest_throughput, p.hourly_cost)
