"""Finish-time fairness: no job is done much later than on a slice of its own."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp

from apportion.policies import Form, Policy, Problem


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
        """State the largest ratio of completion times."""
        here_s = p.elapsed_s + cp.multiply(p.steps_remaining, cp.inv_pos(p.throughput))
        isolated_s = p.column("isolated_elapsed_s") + p.steps_remaining / p.isolated_throughput
        return cp.Minimize(cp.max(here_s / isolated_s))

    def form(self, p: Problem) -> Form:
        """Return the steps left, and the time elapsed, over the time in a slice."""
        isolated_s = p.column("isolated_elapsed_s") + p.steps_remaining / p.isolated_throughput
        return Form.inverse(p.steps_remaining / isolated_s, p.elapsed_s / isolated_s)
