"""A slice of the cluster for each job, as if it were split and walled off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies import Policy, Problem
from apportion.policies.fixed_shares import (
    by_themselves,
    relative_to_type,
    time_by_type,
    type_of_option,
)
from apportion.policies.normalisers import isolated_share

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class IsolatedShare(Policy):
    r"""Give every job a 1/n slice of every type, as if the cluster were split and walled off.

    .. math:: \max_X \sum_{ij} X_{ij}\ \text{such that}\ X_{ij} \le \frac{W_j / (n s_i)}{\max(1,
        \sum_k W_k / (n s_i))}

    The problem::

        max over X of sum of X, X[i, j] <= (W[j] / n) / s[i], scaled down to a sum over j of 1

    W are the GPUs that the cluster has, whether or not a job runs on them, n the jobs, s their
    scale factors. A job with options of several numbers of GPUs makes the most of its slice, of
    which it holds ``sum over options of GPUs * X <= W[j] / n``.
    """

    name = "isolated"
    source = "Gavel (OSDI 2020), section 4.2"

    traits = frozenset({"runs_jobs_alone"})  # several options can make the most of a slice

    heterogeneity_aware: bool = True

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total time, or of jobs with options of several sizes the throughput."""
        solo, instance = p.instance.solo_speeds, p.instance
        worth = relative_to_type(p)
        elastic = np.flatnonzero(solo.elastic)
        most = instance.isolated_throughput[elastic, None]
        worth[instance.row_alone[elastic]] = solo.speed[elastic] / most
        return cp.Maximize(instance.row_count @ cp.sum(cp.multiply(worth, p.X), axis=1))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit each job to its slice: its time, or its GPUs where options hold several numbers."""
        instance, W, n = p.instance, p.instance.shared_gpus, p.count.sum()
        share = isolated_share(W, instance.gpus_held, n)
        elastic = np.flatnonzero(instance.solo_speeds.elastic)
        share[elastic] = 1.0
        limits = [(time_by_type(p) <= by_themselves(p, share)).set_label("share")]
        if elastic.size:
            gpus = instance.solo_speeds.gpus[elastic]
            held = cp.multiply(gpus, p.X[instance.row_alone[elastic]]) @ type_of_option(p)
            limits.append((held <= (W / n)[None, :]).set_label("slice"))
        return limits
