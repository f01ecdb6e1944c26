"""The jobs that are soonest done, on the types that shorten them most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.checks import seconds
from apportion.policies import Form, Policy, Problem

if TYPE_CHECKING:
    from apportion.types import Floats


@dataclass(frozen=True)
class LeastMeanCompletion(Policy):
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

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum of relative throughputs, weighted by the root of Smith's index."""
        return cp.Maximize(p.total(cp.multiply(self._gain(p), p.throughput)))

    def form(self, p: Problem) -> Form:
        """Return the weights of the throughputs."""
        return Form.gain(p.count * self._gain(p))

    def _gain(self, p: Problem) -> Floats:
        """Root of Smith's index over the fastest throughput, for each job."""
        left_s = np.maximum(p.steps_remaining / p.fastest_throughput, self.horizon_s)
        return np.sqrt(p.weight / left_s) / p.fastest_throughput
