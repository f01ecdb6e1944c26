"""Policies that serve jobs in an order: first in first out, shortest job first."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.total_throughput import WeightedThroughput
from apportion.ties import ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

_ROUNDING = 1e-9
"""Numbers that differ by less, relatively, differ by the rounding of sums: they are data, not
what a solver left open."""


class OrderedPolicy(WeightedThroughput):
    """Give each job its fastest throughput, the first of the order above all.

    The job in place m of M weighs ``M + 1 - m`` (Gavel, section 4.2), times the GPUs that it holds
    where it is fastest, so that a large gang is not outbid by several later jobs that would fit in
    its place. Jobs that are equal in the order, but for rounding, have one place, and M is the last
    place.
    """

    @abstractmethod
    def order(self, p: Problem) -> NDArray[np.float64]:
        """Return a number for each job: the smaller, the earlier it is served."""

    def gain(self, p: Problem) -> NDArray[np.float64]:
        """Weigh throughputs relative to the fastest by place in the order."""
        place = ranks(self.order(p), relative=_ROUNDING)
        weight = p.instance.fastest_gpus * (place.max() + 1 - place)
        return np.asarray(weight / p.fastest_throughput)


@dataclass(frozen=True)
class FIFO(OrderedPolicy):
    r"""First in, first out: the earlier a job was submitted, the more it counts.

    .. math:: \max_X \sum_i s_i (M + 1 - m_i) \frac{\mathrm{thr}_i}{\mathrm{fast}_i},\ m_i\
        \text{by arrival}

    The problem::

        max over X of sum of GPUs * (M + 1 - place in line) * throughput / fastest
    """

    name = "fifo"
    source = "Gavel (OSDI 2020), section 4.2"
    columns = ("order",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def order(self, p: Problem) -> NDArray[np.float64]:
        """Take the order of submission."""
        return p.column("order")


@dataclass(frozen=True)
class ShortestJobFirst(OrderedPolicy):
    r"""Shortest job first: the less time a job needs on its fastest type, the more it counts.

    .. math:: \max_X \sum_i s_i (M + 1 - m_i) \frac{\mathrm{thr}_i}{\mathrm{fast}_i},\ m_i\
        \text{by}\ R_i / \mathrm{fast}_i

    The problem::

        max over X of sum of GPUs * (M + 1 - place by time left) * throughput / fastest
    """

    name = "shortest_job_first"
    source = "Gavel (OSDI 2020), section 4.2"
    columns = ("steps_remaining",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def order(self, p: Problem) -> NDArray[np.float64]:
        """Take the seconds that are left on the fastest type."""
        return p.steps_remaining / p.fastest_throughput
