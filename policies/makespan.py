"""The last job is done as early as possible."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp

from apportion.policies import Form, Policy, Problem


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
        """State the seconds until the last job is done."""
        return cp.Minimize(cp.max(cp.multiply(p.steps_remaining, cp.inv_pos(p.throughput))))

    def form(self, p: Problem) -> Form:
        """Return the steps that each job has left."""
        return Form.inverse(p.steps_remaining)
