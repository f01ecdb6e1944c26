"""Maximum total throughput: as many steps per second as the cluster can make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies.base import Policy

if TYPE_CHECKING:
    from apportion.policies.problem import Problem

__all__ = ["MaxTotalThroughput"]


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
        """State the total throughput, steps/s."""
        return cp.Maximize(p.total(p.throughput))
