"""When jobs complete: the last of them as early as possible, or none much later than by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies.base import Policy

if TYPE_CHECKING:
    from apportion.policies.problem import Problem


@dataclass(frozen=True)
class Makespan(Policy):
    r"""Minimise the time until all jobs are done.

    .. math:: \min_X \max_i \frac{R_i}{\mathrm{thr}_i}

    The problem::

        min over X of max over jobs of steps remaining / throughput

    Gavel, section 4.2, which bisects over the makespan; `solve` finds it by one linear program, in
    which the inverse is largest.
    """

    name = "makespan"
    source = "Gavel (OSDI 2020), section 4.2"
    unit = "s"
    columns = ("steps_remaining",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = False

    def objective(self, p: Problem) -> cp.Minimize:
        """State the makespan, seconds."""
        return cp.Minimize(cp.max(cp.multiply(p.steps_remaining, cp.inv_pos(p.throughput))))


@dataclass(frozen=True)
class FinishTimeFairness(Policy):
    r"""Minimise the largest ratio of completion time here to completion time in isolation.

    .. math:: \min_X \max_i \frac{t_i + R_i / \mathrm{thr}_i}{\tau_i + R_i / \mathrm{iso}_i}

    The problem::

        min over X of max over jobs of completion time / completion time in a 1/n slice

        completion time              = elapsed + steps remaining / throughput
        completion time in a slice   = isolated elapsed + steps remaining / isolated throughput

    The isolated cluster is a 1/n slice of every type (Themis, section 3; Gavel, section 4.2). With
    ``lexicographic=True`` also the second largest ratio is as small as can be, then the third, and
    so on.
    """

    name = "finish_time_fairness"
    source = "Themis (NSDI 2020), section 3; Gavel (OSDI 2020), section 4.2"
    columns = ("steps_remaining", "elapsed_s", "isolated_elapsed_s")

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = False

    def objective(self, p: Problem) -> cp.Minimize:
        """State the largest ratio."""
        isolated_s = p.column("isolated_elapsed_s") + p.steps_remaining / p.isolated_throughput
        speed = cp.multiply(isolated_s / p.steps_remaining, p.throughput)
        return cp.Minimize(cp.max(p.elapsed_s / isolated_s + cp.inv_pos(speed)))
