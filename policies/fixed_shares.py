"""Fixed shares, as baselines: isolated slices of the cluster, and equal time for all."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InputError
from apportion.policies.base import Policy
from apportion.policies.isolated import isolated_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.policies.instance import Instance
    from apportion.policies.problem import Problem

__all__ = [
    "FixedShare",
    "IsolatedShare",
    "ProportionalShare",
    "refuse_combinations_only",
    "type_of_option",
]


class FixedShare(Policy):
    """Run jobs by themselves for all the time that given shares allow."""

    traits = frozenset({"has_one_optimum", "runs_jobs_alone"})

    @abstractmethod
    def target(self, p: Problem) -> NDArray[np.float64]:
        """Return the share of time of each job on each type, shape (jobs, types)."""

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total time, an option that is slower than another of its type counting less."""
        time = cp.sum(cp.multiply(_relative_to_type(p), p.X), axis=1)
        return cp.Maximize(p.instance.row_count @ time)

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit every job to its share of each type, whichever options of the type it takes."""
        refuse_combinations_only(p.instance)
        share = np.zeros((p.instance.rows, p.instance.accelerators))
        share[p.instance.row_alone] = self.target(p)
        return [(share >= p.X @ type_of_option(p)).set_label("share")]


def refuse_combinations_only(instance: Instance) -> None:
    """Refuse jobs without a row of their own; `solve` has refused them by name before."""
    if (instance.row_alone < 0).any():
        job = int(np.argmin(instance.row_alone))
        raise InputError(f"Job number {job} has no row of its own, which this policy needs.")


def type_of_option(p: Problem) -> NDArray[np.float64]:
    """Tell which option is of which accelerator type, 0 or 1, shape (options, types)."""
    return np.asarray(np.eye(p.instance.accelerators)[p.instance.option_accelerator])


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
    """Give every job a 1/n slice of every type, as if the cluster were split and walled off.

    The problem::

        X = (GPUs of the type / jobs) / scale_factor, at most all the time

    The slice is of the GPUs that the cluster has, whether or not a job runs on them. A job with
    options of several numbers of GPUs makes the most of its slice.
    """

    name = "isolated"
    source = "Gavel (OSDI 2020), section 4.2"

    traits = frozenset({"runs_jobs_alone"})  # several options can make the most of a slice

    heterogeneity_aware: bool = True

    def target(self, p: Problem) -> NDArray[np.float64]:
        """Return the isolated shares; all the time on every type where options differ in size."""
        solo = p.instance.solo_speeds
        gpus = p.instance.shared_gpus
        share = isolated_share(gpus, p.instance.gpus_held, p.count.sum())
        share[solo.elastic] = 1.0
        return share

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total time, or of jobs with options of several sizes the throughput."""
        solo, instance = p.instance.solo_speeds, p.instance
        worth = _relative_to_type(p)
        elastic = np.flatnonzero(solo.elastic)
        most = instance.isolated_throughput[elastic, None]
        worth[instance.row_alone[elastic]] = solo.speed[elastic] / most
        return cp.Maximize(instance.row_count @ cp.sum(cp.multiply(worth, p.X), axis=1))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit jobs with options of several sizes to the GPUs of a slice."""
        solo, instance = p.instance.solo_speeds, p.instance
        elastic = np.flatnonzero(solo.elastic)
        limits = list(super().constraints(p))
        if elastic.size:
            held = cp.multiply(solo.gpus[elastic], p.X[instance.row_alone[elastic]])
            slice_gpus = instance.shared_gpus / p.count.sum()
            within = held @ type_of_option(p) <= slice_gpus[None, :]
            limits.append(within.set_label("slice"))
        return limits


@dataclass(frozen=True)
class ProportionalShare(FixedShare):
    """Give every job time in proportion to its weight, on each type in proportion to its GPUs.

    The problem::

        X = c * weight * GPUs of the type / all GPUs, with the largest c that fits

    On each type it takes its fastest option; the GPUs that this holds count.
    """

    name = "proportional"
    source = "Gavel (OSDI 2020), section 4.1 (its normaliser)"
    columns = ("weight",)

    heterogeneity_aware: bool = True

    def target(self, p: Problem) -> NDArray[np.float64]:
        """Return the proportional shares."""
        instance = p.instance
        wanted = (p.count * p.weight) @ _gpus_where_fastest(instance)
        most = instance.shared_gpus.sum() / wanted.max()
        time = p.weight * min(most, 1 / p.weight.max())
        return np.asarray(time[:, None] * instance.type_share, dtype=float)


def _gpus_where_fastest(instance: Instance) -> NDArray[np.float64]:
    """GPUs of each job's fastest option of each type; its scale factor where it has none."""
    solo, best = instance.solo_speeds, instance.alone
    gpus = np.zeros_like(best)
    for option, accelerator in enumerate(instance.option_accelerator):
        fastest = (solo.speed[:, option] > 0) & (solo.speed[:, option] == best[:, accelerator])
        held = np.where(fastest, solo.gpus[:, option], 0.0)
        gpus[:, accelerator] = np.maximum(gpus[:, accelerator], held)
    return np.where(gpus > 0, gpus, instance.columns["scale_factor"][:, None])
