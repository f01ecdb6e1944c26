"""Strategy-proof shares: the partial allocation mechanism on Nash welfare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies import NashWelfare, Policy, Problem, solve_instance
from apportion.policies.fixed_shares import by_themselves, refuse_combinations_only, total_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies import Instance
    from apportion.policies.solution import Solution


_ROUNDING = float(np.finfo(float).eps)
"""Part of each term that may be lost where terms are added up."""


@dataclass(frozen=True)
class StrategyProof(Policy):
    r"""Take from each job what its presence costs the others, so that lying does not pay.

    .. math:: \max_X \sum_{ij} X_{ij}\ \text{such that}\ X_{ij} \le r_i N_{ij},\ r_i = \prod_{k
        \ne i} \Big( \frac{\mathrm{thr}_k}{\mathrm{thr}_k^{-i}} \Big)^{w_k / w_i}

    The problem::

        max over X of sum of X, X[i, j] <= r[i] * N[i, j], N an optimum of nash_welfare

        r[i] = product over jobs k but i of (throughput of k in N / in N without i) ** (w[k] / w[i])

    The partial allocation mechanism: `NashWelfare` with all jobs and without each says what part
    r of its own a job keeps (Cole, Gkatzelis, Goel, 2013; Gavel, section 4.4, has no weights w).
    GPUs stay idle for it. The objective is the total time that is left.

    What a job of weight w makes in the end is ``exp(difference of two optimal values / w)``, so the
    gaps of both count 1 / w-fold: where weights lie many decades apart, what the light jobs keep is
    known less well, and the gap of the result says how well.
    """

    name = "strategy_proof"
    source = "Cole, Gkatzelis, Goel (EC 2013); Gavel (OSDI 2020), section 4.4"
    columns = ("weight",)
    traits = frozenset({"leaves_gpus_idle", "runs_jobs_alone"})

    heterogeneity_aware: bool = True

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total time."""
        return cp.Maximize(total_time(p))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit every job to its part of each option: another would be worth another time."""
        refuse_combinations_only(p.instance)
        instance = p.instance.subset(np.arange(p.instance.jobs), p.count)
        # What jobs keep hangs on small differences of optimal values, so that these come from the
        # optimum itself and not from what is chosen among the optima, which gives way a little.
        everyone = solve_instance(NashWelfare(), instance, group=False, second_stage=False)
        N = solve_instance(NashWelfare(), instance, group=False)
        r = np.array([_kept(p, instance, job, everyone) for job in range(instance.jobs)])
        # What a job makes then is the exponential of a difference of two optimal values, which are
        # known to their gaps; its own throughput at an optimum is known to the root of one only.
        r = np.minimum(r * everyone.throughput / N.throughput, 1.0)
        return [(by_themselves(p, N.X * r[:, None]) >= p.X).set_label("share")]


def _kept(p: Problem, instance: Instance, job: int, everyone: Solution) -> float:
    """Return the part of its shares that one job (of a class) keeps."""
    count = instance.count.copy()
    count[job] -= 1
    others = np.flatnonzero(count)
    if not others.size:
        return 1.0
    without = instance.subset(others, count[others])
    alone = solve_instance(NashWelfare(), without, group=False, second_stage=False)
    loss = np.log(everyone.throughput[others] / alone.throughput)
    weight = instance.columns["weight"]
    size = instance.jobs * (abs(everyone.objective) + abs(alone.objective))
    known = everyone.gap + alone.gap + _ROUNDING * size
    p.inexact = max(p.inexact, float(-np.expm1(-known / weight[job])))
    # A job of weight w counts as w jobs: the others' losses are raised to w_other / w_own.
    return float(min(1.0, np.exp((count[others] * weight[others]) @ loss / weight[job])))
