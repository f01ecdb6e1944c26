"""Optimus: the remaining time of all jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.checks import seconds
from apportion.policies.base import Policy
from apportion.policies.elastic_values import expected_seconds, where_known

if TYPE_CHECKING:
    from apportion.policies.problem import Problem


@dataclass(frozen=True)
class Optimus(Policy):
    r"""Minimise the remaining time of all jobs.

    .. math:: \min_X \sum_i w_i \Big( \sum_o X_{io} \frac{R_i}{T_{io}} + U (1 - \sum_o X_{io})
        \Big),\ X \in \{0, 1\}

    The problem::

        min over whole X of sum over jobs of weight * remaining seconds

        remaining seconds = steps remaining / throughput, `unserved_s` without an option

    Optimus gives each job one worker in turn, then each next one to the job whose remaining time it
    cuts most. That is this program where savings fall from GPU to GPU, and where `unserved_s` is so
    large that as many jobs as possible are served; by default it is twice the sum,
    over all jobs, of their remaining times under their slowest options.
    """

    name, integral, unit = "optimus", True, "s"
    source = "Optimus (EuroSys 2018), section 4.1"
    columns = ("weight", "steps_remaining")

    unserved_s: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        seconds("unserved_s", 1.0 if self.unserved_s is None else self.unserved_s, strict=True)

    def objective(self, p: Problem) -> cp.Minimize:
        """State the sum of remaining times."""
        left_s = expected_seconds(p)
        slowest = np.where(np.isfinite(left_s), left_s, 0.0).max(axis=1)
        U = self.unserved_s or float(2 * p.count @ (p.weight / p.weight.min() * slowest))
        V = where_known(p, left_s, U)
        remaining_s = cp.sum(cp.multiply(V, p.X), axis=1) + U * (1 - p.time)
        return cp.Minimize(p.total(cp.multiply(p.weight, remaining_s)))
