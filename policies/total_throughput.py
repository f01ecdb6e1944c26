"""The most work: in all, in steps or in jobs, or per dollar, with deadlines if there are any.

Network-sensitive priorities: the jobs that lost most time to the network come first.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.checks import seconds
from apportion.errors import InputError, written
from apportion.policies.base import Policy
from apportion.policies.core.forms import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from apportion.policies.problem import Problem
    from apportion.types import Floats


class WeightedThroughput(Policy):
    """Maximise a weighted sum of throughputs: a policy says what each job's steps/s add.

    Who solves again and again asks for `gain` alone, and needs no expression.
    """

    @abstractmethod
    def gain(self, p: Problem) -> Floats:
        """Return what one step/s of each job adds to the objective, shape (jobs,)."""

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum over jobs of gain * throughput."""
        return cp.Maximize(p.total(cp.multiply(self.gain(p), p.throughput)))

    def form(self, p: Problem) -> Form:
        """Return what a step/s of each job adds."""
        return Form.gain(p.count * self.gain(p))


@dataclass(frozen=True)
class MaxTotalThroughput(WeightedThroughput):
    r"""Maximise the sum of all jobs' steps/s (Gavel, section 4.2).

    .. math:: \max_X \sum_i \mathrm{thr}_i

    The problem::

        max over X of sum over jobs of throughput

    Steps of different models are counted alike, so jobs with short steps come first.
    """

    name = "max_total_throughput"
    source = "Gavel (OSDI 2020), section 4.2"
    unit = "steps/s"
    traits = frozenset({"depends_on_step_size"})

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def gain(self, p: Problem) -> Floats:
        """Count every step of every job alike."""
        return np.ones(p.instance.jobs)


@dataclass(frozen=True)
class LeastMeanCompletion(WeightedThroughput):
    r"""Serve the jobs that are soonest done, on the types that shorten them most.

    .. math:: \max_X \sum_i \sqrt{\frac{w_i}{\max(R_i / \mathrm{fast}_i, h)}}\,
        \frac{\mathrm{thr}_i}{\mathrm{fast}_i},\ X \in \{0, 1\}

    The problem, with R / fast the seconds that a job takes at least::

        max over whole X of sum of sqrt(weight / max(R / fast, horizon)) * throughput / fastest

    Where GPUs are fought for, the mean completion time is least if a job counts by Smith's index,
    its weight over the time that it takes: the first interval of the program that bounds the mean
    of any schedule from below (`apportion.floor`). Where all jobs run anyway, and it only matters
    on which types, a second by which any of them is done earlier counts alike. The root lies
    between the two. On one GPU it is Smith's rule, the shortest first; where speeds differ a short
    job that is hardly faster on a type leaves it to a longer one that is. Jobs of less than the
    horizon count alike, or the last steps of a job would count without end.

    Decisions are whole: each job has one type, all of the time, or waits. Shares of time of a gang
    that fills a type cannot be had in rounds without GPUs that idle, or that others borrow, and are
    further from the least mean (``python -m benchmarks.floors --parts nearest``).
    ``integral=False`` gives shares, as does ``space_sharing=True``, where jobs take turns in pairs.

    Not to be taken for the queue ``minimum_completion_time``, in which a job waits for the type on
    which it will be done first.
    """

    name = "least_mean_completion"
    source = "Smith (1956); mean busy times: Goemans, Queyranne, Schulz, Skutella, Wang (2002)"
    columns = ("steps_remaining", "weight")

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    integral: bool = True
    horizon_s: float = 3600.0

    def __post_init__(self) -> None:
        """Refuse a horizon that is no length of time; pairs of jobs have shares."""
        super().__post_init__()
        object.__setattr__(self, "integral", self.integral and not self.space_sharing)
        seconds("horizon_s", self.horizon_s, strict=True)

    def gain(self, p: Problem) -> Floats:
        """Weigh throughputs relative to the fastest by the root of Smith's index."""
        left_s = np.maximum(p.steps_remaining / p.fastest_throughput, self.horizon_s)
        return np.sqrt(p.weight / left_s) / p.fastest_throughput


_LEAST_PRIORITY = 1e-3
"""Keeps the weight of a job that never ran finite."""


@dataclass(frozen=True)
class NetworkSensitive(WeightedThroughput):
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

    def gain(self, p: Problem) -> Floats:
        """Weigh throughputs relative to the fastest by the inverse of the priority."""
        urgency = 1 / np.maximum(p.column("network_priority"), _LEAST_PRIORITY)
        return urgency / p.fastest_throughput


@dataclass(frozen=True)
class MinCost(Policy):
    r"""Maximise throughput per dollar: total throughput over total price, a linear fraction.

    .. math:: \max_X \frac{\sum_i \mathrm{thr}_i / \mathrm{fast}_i}{\sum_j c_j \sum_i s_i
        X_{ij}}

    The problem::

        max over X of sum of throughput / fastest over sum of price (per US dollar)

    A job's throughput counts relative to its fastest, so that steps of different models compare
    (the objective is Gavel's, section 4.2). Only the best bargains run; idle GPUs cost nothing and
    are not lent.
    """

    name = "min_cost"
    source = "Gavel (OSDI 2020), section 4.2"
    unit = "job-hours/$"
    traits = frozenset({"leaves_gpus_idle"})

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def objective(self, p: Problem) -> cp.Maximize:
        """State the relative throughput over the dollars an hour that it costs."""
        progress = p.total(cp.multiply(1 / p.fastest_throughput, p.throughput))
        return cp.Maximize(progress / p.cost_per_hour)


@dataclass(frozen=True)
class MinCostWithSLOs(MinCost):
    r"""Maximise throughput per dollar while every job with a deadline is fast enough to meet it.

    .. math:: \max_X \frac{\sum_i \mathrm{thr}_i / \mathrm{fast}_i}{\sum_j c_j \sum_i s_i
        X_{ij}}\ \text{such that}\ \mathrm{thr}_i \ge \frac{R_i}{d_i - t_i}

    The problem::

        min_cost, such that throughput >= steps remaining / time left for every deadline

    Gavel, section 4.2. Deadlines that have passed no longer count. Where those that are left cannot
    all be met there are two objectives, the first of which counts first::

        1. min sum of missed,  such that throughput >= (1 - missed) * pace,  missed >= 0
        2. max sum of throughput / fastest over sum of price (per US dollar)

    With ``strict=True`` nothing may be missed, and the problem is then infeasible.
    """

    name = "min_cost_slos"
    columns = ("steps_remaining", "elapsed_s", "deadline_s")
    traits = MinCost.traits | {"meets_deadlines"}

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    strict: bool = False

    def earlier_objectives(self, p: Problem) -> Sequence[cp.Minimize]:
        """State the sum over jobs of the parts of paces that are missed."""
        return [] if self.strict else [cp.Minimize(p.total(self._missed(p)))]

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Hold every job with a deadline that has not passed to the pace that meets it."""
        left_s = p.column("deadline_s") - p.elapsed_s
        due = np.flatnonzero((left_s > 0) & (p.steps_remaining > 0))
        pace = p.steps_remaining[due] / left_s[due]
        if not self.strict:
            pace = cp.multiply(pace, 1 - self._missed(p)[due])
        return [(p.throughput[due] >= pace).set_label("deadlines")]

    def _missed(self, p: Problem) -> cp.Variable:
        """Part of its pace that each job misses, a variable of shape (jobs,)."""
        return p.variable("missed", p.count.size, nonneg=True)

    def check_jobs(self, jobs: pd.DataFrame) -> None:
        """Refuse a deadline that has passed, if deadlines are strict."""
        passed = jobs.index[jobs["deadline_s"] <= jobs["elapsed_s"]]
        if self.strict and len(passed):
            job = passed[0]
            raise InputError(
                f"Job {written(job)} has missed its deadline: it arrived "
                f"{jobs['elapsed_s'][job]:g} s ago and was due after {jobs['deadline_s'][job]:g} s."
            )
