"""Fairness: of the worst off (max-min), of products (Nash), and strategy-proof.

Also under a cap on the power that GPUs may draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.checks import number
from apportion.cluster import ACCELERATORS
from apportion.errors import InputError
from apportion.policies.base import Policy
from apportion.policies.fixed_shares import FixedShare, by_themselves, refuse_combinations_only
from apportion.policies.solving.driver import solve_instance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.policies.instance import Instance
    from apportion.policies.problem import Problem
    from apportion.policies.solution import Solution


_ROUNDING = float(np.finfo(float).eps)
"""Part of each term that may be lost where terms are added up."""


@dataclass(frozen=True)
class NashWelfare(Policy):
    r"""Maximise the weighted product of normalised throughputs: proportional fairness.

    .. math:: \max_X \sum_i w_i \log \frac{s_i \, \mathrm{thr}_i}{\mathrm{eq}_i}

    The problem::

        max over X of sum over jobs of weight * log(scale_factor * throughput / equal share)
    """

    name = "nash_welfare"
    source = "Kelly, Maulloo, Tan (1998); Cole, Gkatzelis, Goel (EC 2013)"
    columns = ("weight",)

    heterogeneity_aware: bool = True

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum of weighted logarithms."""
        share = cp.multiply(p.scale_factor / p.equal_share_throughput, p.throughput)
        return cp.Maximize((p.count * p.weight) @ cp.log(share))


@dataclass(frozen=True)
class StrategyProof(FixedShare):
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
    traits = FixedShare.traits | {"leaves_gpus_idle"}

    heterogeneity_aware: bool = True

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit every job to its part of each option: another would be worth another time."""
        refuse_combinations_only(p.instance)
        instance = _by_themselves(p.instance)
        # What jobs keep hangs on small differences of optimal values, so that these come from the
        # optimum itself and not from what is chosen among the optima, which gives way a little.
        everyone = solve_instance(NashWelfare(), instance, group=False, second_stage=False)
        N = solve_instance(NashWelfare(), instance, group=False)
        r = np.array([self._kept(p, instance, job, everyone) for job in range(instance.jobs)])
        # What a job makes then is the exponential of a difference of two optimal values, which are
        # known to their gaps; its own throughput at an optimum is known to the root of one only.
        r = np.minimum(r * everyone.throughput / N.throughput, 1.0)
        return [(by_themselves(p, N.X * r[:, None]) >= p.X).set_label("share")]

    def _kept(self, p: Problem, instance: Instance, job: int, everyone: Solution) -> float:
        """Share that one job (of a class) keeps."""
        count = instance.count.copy()
        count[job] -= 1
        there = np.flatnonzero(count)
        if not there.size:
            return 1.0
        without = instance.subset(there, count[there])
        alone = solve_instance(NashWelfare(), without, group=False, second_stage=False)
        loss = np.log(everyone.throughput[there] / alone.throughput)
        weight = instance.columns["weight"]
        size = instance.jobs * (abs(everyone.objective) + abs(alone.objective))
        known = everyone.gap + alone.gap + _ROUNDING * size
        p.inexact = max(p.inexact, float(-np.expm1(-known / weight[job])))
        # A job of weight w counts as w jobs: the others' losses are raised to w_other / w_own.
        return float(min(1.0, np.exp((count[there] * weight[there]) @ loss / weight[job])))


def _by_themselves(instance: Instance) -> Instance:
    """Keep the rows of single jobs, one for each job."""
    if instance.solo:
        return instance
    member = np.empty(instance.rows, dtype=np.intp)
    member[instance.member_row] = np.arange(instance.member_row.size)
    own = np.arange(instance.jobs)
    return replace(
        instance,
        throughput=instance.throughput[member[instance.row_alone]],
        member_row=own,
        member_job=own,
        member_share=np.ones(own.size),
        own_usage=instance.usage[instance.row_alone],
    )


@dataclass(frozen=True)
class MaxMinFairness(Policy):
    r"""Least attained service: maximise the least weighted, normalised throughput.

    .. math:: \max_X \min_i \frac{s_i}{w_i} \frac{\mathrm{thr}_i}{\mathrm{eq}_i}

    The problem::

        max over X of min over jobs of scale_factor / weight * throughput / equal share

    A job's throughput is counted relative to its equal share, per GPU that it holds, and per unit
    of its weight (Gavel, section 4.1).
    """

    name = "max_min_fairness"
    source = "Gavel (OSDI 2020), section 4.1"
    columns = ("weight",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = False

    def objective(self, p: Problem) -> cp.Maximize:
        """State the least normalised throughput."""
        per_step = p.scale_factor / (p.weight * p.equal_share_throughput)
        return cp.Maximize(cp.min(cp.multiply(per_step, p.throughput)))


@dataclass(frozen=True)
class PowerCapped(MaxMinFairness):
    r"""Max-min fairness such that the GPUs that are held never draw more than a cap.

    .. math:: \max_X \min_i \frac{s_i}{w_i} \frac{\mathrm{thr}_i}{\mathrm{eq}_i}\ \text{such
        that}\ \sum_j P_j \sum_i s_i X_{ij} \le C

    The problem::

        max over X of min over jobs of scale_factor / weight * throughput / equal share,
        sum over types of watts * GPUs held <= cap

    A GPU that is held draws the largest power of its type, one that is not held nothing: it is
    switched off. Simulations keep the cap at every instant, not on average.

    Parameters
    ----------
    cap_w
        The cap, watts; infinite for none.
    watts
        Power of one GPU by type, W; of types that are not named here that of `accelerators`.
    """

    name = "power_capped"
    source = "a linear constraint on max_min_fairness; watts from data sheets"
    _bounds_resources = True

    cap_w: float = math.inf
    watts: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check switches and watts."""
        super().__post_init__()
        number("cap_w", self.cap_w, words="a number of watts", infinite=True)
        for accelerator, each in self.watts.items():
            number(f"watts of {accelerator!r}", each, words="a number of watts")

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit the power of all GPUs that are held; a type of unknown power is refused by name."""
        if self.cap_w == math.inf:
            return []
        sheets = {name: each.watts for name, each in ACCELERATORS.items() if each.watts > 0}
        known = sheets | dict(self.watts)
        if unknown := [name for name in p.accelerators if name not in known]:
            raise InputError(
                f"{self.name} needs the power of a GPU of each type, and {unknown[0]!r} is none of "
                f"those in accelerators() that tell it; give watts={{{unknown[0]!r}: 300.0}} with "
                f"what one draws at most."
            )
        each_w = [known[name] for name in p.accelerators]
        return [(p.held[: len(each_w)] @ each_w <= self.cap_w).set_label("power cap")]
