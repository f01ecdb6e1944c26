"""Time in proportion to weights, on each type in proportion to its GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies import Instance, Policy, Problem
from apportion.policies.fixed_shares import by_themselves, time_by_type, total_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.types import Floats


@dataclass(frozen=True)
class ProportionalShare(Policy):
    r"""Give every job time in proportion to its weight, on each type in proportion to its GPUs.

    .. math:: \max_X \sum_{ij} X_{ij}\ \text{such that}\ X_{ij} \le c \, w_i \frac{W_j}{\sum_k
        W_k}

    The problem::

        max over X of sum of X, X[i, j] <= c * w[i] * W[j] / sum of W, with the largest c that fits

    It fits where ``sum over i of s[i] * X[i, j] <= W[j]`` and ``sum over j of X[i, j] <= 1``. On
    each type a job takes its fastest option; the GPUs that this holds count.
    """

    name = "proportional"
    source = "Gavel (OSDI 2020), section 4.1 (its normaliser)"
    columns = ("weight",)
    traits = frozenset({"runs_jobs_alone"})

    heterogeneity_aware: bool = True

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total time."""
        return cp.Maximize(total_time(p))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit every job to its share of each type."""
        W, w = p.instance.shared_gpus, p.weight
        wanted = (p.count * w) @ _gpus_where_fastest(p.instance)
        c = min(W.sum() / wanted.max(), 1 / w.max())
        share = (c * w)[:, None] * (W / W.sum())
        return [(time_by_type(p) <= by_themselves(p, share)).set_label("share")]


def _gpus_where_fastest(instance: Instance) -> Floats:
    """GPUs of each job's fastest option of each type; its scale factor where it has none."""
    solo = instance.solo_speeds
    fastest = (solo.speed > 0) & (solo.speed == instance.alone[:, instance.option_accelerator])
    gpus = instance.best_of_types(np.where(fastest, solo.gpus, 0.0))
    return np.where(gpus > 0, gpus, instance.columns["scale_factor"][:, None])
