"""The jobs come first that lost most time to the network."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from apportion.policies import Form, Policy, Problem

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
        priority = np.maximum(p.column("network_priority"), _LEAST_PRIORITY)
        gain = 1 / (priority * p.fastest_throughput)
        return cp.Maximize(p.total(cp.multiply(gain, p.throughput)))

    def form(self, p: Problem) -> Form:
        """Return the weights of the throughputs."""
        priority = np.maximum(p.column("network_priority"), _LEAST_PRIORITY)
        return Form.gain(p.count / (priority * p.fastest_throughput))
