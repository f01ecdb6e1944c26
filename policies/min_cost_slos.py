"""The most throughput per dollar such that deadlines are met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InputError, written
from apportion.policies.min_cost import MinCost

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from apportion.policies import Problem


@dataclass(frozen=True)
class MinCostWithSLOs(MinCost):
    r"""Maximise throughput per dollar while every job with a deadline is fast enough to meet it.

    .. math:: \max_X \frac{\sum_i \mathrm{thr}_i / \mathrm{fast}_i}{\sum_j c_j \sum_i s_i
        X_{ij}}\ \text{such that}\ \mathrm{thr}_i \ge \frac{R_i}{d_i - t_i}

    The problem::

        min_cost, such that throughput >= steps remaining / time left for every deadline

    Gavel, section 4.2. Deadlines that have passed no longer count. Where those that are left cannot
    all be met there are two objectives, the first of which counts first::

        1. min sum of missed,  such that throughput >= (1 - missed) * pace,  missed >= 0
        2. max sum of throughput / fastest over sum of price (per US dollar)

    With ``strict=True`` nothing may be missed, and the problem is then infeasible.
    """

    name = "min_cost_slos"
    columns = ("steps_remaining", "elapsed_s", "deadline_s")
    traits = MinCost.traits | {"meets_deadlines"}

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    strict: bool = False

    def earlier_objectives(self, p: Problem) -> Sequence[cp.Minimize]:
        """State the sum over jobs of the parts of paces that are missed."""
        return [] if self.strict else [cp.Minimize(p.total(self._missed(p)))]

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Hold every job with a deadline that has not passed to the pace that meets it."""
        left_s = p.column("deadline_s") - p.elapsed_s
        due = np.flatnonzero((left_s > 0) & (p.steps_remaining > 0))
        pace = p.steps_remaining[due] / left_s[due]
        if not self.strict:
            pace = cp.multiply(pace, 1 - self._missed(p)[due])
        return [(p.throughput[due] >= pace).set_label("deadlines")]

    def _missed(self, p: Problem) -> cp.Variable:
        """Part of its pace that each job misses, a variable of shape (jobs,)."""
        return p.variable("missed", p.count.size, nonneg=True)

    def check_jobs(self, jobs: pd.DataFrame) -> None:
        """Refuse a deadline that has passed, if deadlines are strict."""
        passed = jobs.index[jobs["deadline_s"] <= jobs["elapsed_s"]]
        if self.strict and len(passed):
            job = passed[0]
            raise InputError(
                f"Job {written(job)} has missed its deadline: it arrived "
                f"{jobs['elapsed_s'][job]:g} s ago and was due after {jobs['deadline_s'][job]:g} s."
            )
