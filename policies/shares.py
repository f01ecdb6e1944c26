"""Fixed shares, as baselines: isolated slices of the cluster, and equal time for all."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies.base import Policy
from apportion.policies.isolated import isolated_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

__all__ = ["FixedShare", "IsolatedShare", "ProportionalShare"]


class FixedShare(Policy):
    """Run jobs for all the time that given shares allow."""

    leaves_ties = False

    @abstractmethod
    def target(self, p: Problem) -> NDArray[np.float64]:
        """Return the share of time of each job on each type, shape (jobs, types)."""

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total time, an option that is slower than another of its type counting less."""
        time = cp.sum(cp.multiply(_relative_to_type(p), p.X), axis=1)
        return cp.Maximize(p.instance.row_count @ time)

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit every job to its share of each type, whichever options of the type it takes."""
        row = p.instance.member_row[np.unique(p.instance.member_job, return_index=True)[1]]
        share = np.zeros((p.instance.rows, p.instance.accelerators))
        share[row] = self.target(p)
        return [(share >= p.X @ _type_of_option(p)).set_label("share")]


def _type_of_option(p: Problem) -> NDArray[np.float64]:
    """Tell which option is of which accelerator type, 0 or 1, shape (options, types)."""
    return np.eye(p.instance.accelerators)[p.instance.option_accelerator]


def _relative_to_type(p: Problem) -> NDArray[np.float64]:
    """Return the speed of each row under each option over its fastest option of the same type."""
    instance = p.instance
    fastest = np.zeros((instance.accelerators, instance.member_row.size))
    np.maximum.at(fastest, instance.option_accelerator, instance.throughput.T)
    fastest = np.maximum(fastest.T, 1e-300)[:, instance.option_accelerator]
    relative = np.zeros((instance.rows, instance.options))
    np.maximum.at(relative, instance.member_row, instance.throughput / fastest)
    return relative


@dataclass(frozen=True)
class IsolatedShare(FixedShare):
    """Give every job a 1/n slice of every type, as if the cluster were split and walled off."""

    name = "isolated"
    problem = "X = (GPUs of the type / jobs) / scale_factor, at most all the time"
    source = "Gavel (OSDI 2020), section 4.2"

    heterogeneity_aware: bool = True

    def target(self, p: Problem) -> NDArray[np.float64]:
        """Return the isolated shares."""
        gpus = p.instance.capacity[: p.instance.accelerators]
        return isolated_share(gpus, p.scale_factor, p.count.sum())


@dataclass(frozen=True)
class ProportionalShare(FixedShare):
    """Give every job time in proportion to its weight, on each type in proportion to its GPUs."""

    name = "proportional"
    problem = "X = c * weight * GPUs of the type / all GPUs, with the largest c that fits"
    source = "Gavel (OSDI 2020), section 4.1 (its normaliser)"
    columns = ("weight",)

    heterogeneity_aware: bool = True

    def target(self, p: Problem) -> NDArray[np.float64]:
        """Return the proportional shares."""
        gpus = p.instance.capacity[: p.instance.accelerators]
        wanted = (p.count * p.weight * p.scale_factor).sum()
        time = p.weight * min(gpus.sum() / wanted, 1 / p.weight.max())
        return np.asarray(time[:, None] * p.instance.type_share, dtype=float)
