"""First in, first out, and how much a job counts by its place in an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies import Form, Policy, Problem
from apportion.ties import ranks

if TYPE_CHECKING:
    from apportion.types import Floats


_ROUNDING = 1e-9
"""Numbers that differ by less, relatively, differ by the rounding of sums: they are data, not
what a solver left open."""


def weight_by_place(p: Problem, order: Floats) -> Floats:
    """Return ``GPUs * (M + 1 - m) / fastest`` of each job, in place m of M, shape (jobs,).

    The GPUs are those that the job holds where it is fastest: a large gang is then not outbid by
    several later jobs that would fit in its place. Jobs that are equal in the order, but for
    rounding, have one place.

    Parameters
    ----------
    order
        A number for each job, shape (jobs,): the smaller, the earlier it is served.
    """
    place = ranks(order, relative=_ROUNDING)
    instance, fastest = p.instance, p.fastest_throughput
    gpus = instance.columns["scale_factor"]
    if instance.own_usage is not None:  # an option may hold others
        solo = instance.solo_speeds
        held = np.where(solo.speed == fastest[:, None], solo.gpus, np.inf)
        gpus = held.min(axis=1, initial=np.inf)
    return np.asarray(gpus * (place.max() + 1 - place) / fastest)


@dataclass(frozen=True)
class FIFO(Policy):
    r"""First in, first out: the earlier a job was submitted, the more it counts.

    .. math:: \max_X \sum_i s_i (M + 1 - m_i) \frac{\mathrm{thr}_i}{\mathrm{fast}_i},\ m_i\
        \text{by arrival}

    The problem::

        max over X of sum of GPUs * (M + 1 - place in line) * throughput / fastest

    A class that derives from this one and returns another `order` serves by that one.
    """

    name = "fifo"
    source = "Gavel (OSDI 2020), section 4.2"
    columns = ("order",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def order(self, p: Problem) -> Floats:
        """Return the order of submission."""
        return p.column("order")

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum of throughputs, weighted by place."""
        weight = weight_by_place(p, self.order(p))
        return cp.Maximize(p.total(cp.multiply(weight, p.throughput)))

    def form(self, p: Problem) -> Form:
        """Return the weights."""
        return Form.gain(p.count * weight_by_place(p, self.order(p)))
