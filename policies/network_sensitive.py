"""The jobs come first that lost most time to the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies.base import Policy
from apportion.policies.core.forms import Form

if TYPE_CHECKING:
    from apportion.policies.problem import Problem
    from apportion.types import Floats


_LEAST_PRIORITY = 1e-3
"""Keeps the weight of a job that never ran finite."""


@dataclass(frozen=True)
class NetworkSensitive(Policy):
    r"""Maximise relative throughput, jobs weighted by what the network cost them so far.

    .. math:: \max_X \sum_i \frac{\mathrm{thr}_i}{\mathrm{fast}_i \max(P_i, 0.001)}

    The problem::

        max over X of sum over jobs of throughput / fastest / network priority

    A job's priority is the time that its steps would have taken without network delay over the time
    that they took: 1 for a job that was never delayed, 0 for one that never ran; the lower one is
    served first (Dally). As a weight, 1 / priority is the slope of the sum of log priorities; Dally
    itself serves jobs one by one in this order.
    """

    name = "network_sensitive"
    source = "Dally (arXiv 2401.16492, 2024), its priority of jobs"
    columns = ("network_priority",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum of throughputs relative to the fastest over the priority."""
        return cp.Maximize(p.total(cp.multiply(self._gain(p), p.throughput)))

    def form(self, p: Problem) -> Form:
        """Return the weights of the throughputs."""
        return Form.gain(p.count * self._gain(p))

    def _gain(self, p: Problem) -> Floats:
        """Inverse of the priority over the fastest throughput, for each job."""
        urgency = 1 / np.maximum(p.column("network_priority"), _LEAST_PRIORITY)
        return urgency / p.fastest_throughput
