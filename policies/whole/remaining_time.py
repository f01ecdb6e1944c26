"""Optimus and Lyra: seconds of remaining time that GPUs save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.checks import seconds
from apportion.errors import InputError
from apportion.policies.base import Policy
from apportion.policies.whole.values import expected_seconds, where_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.problem import Problem
    from apportion.types import Floats


@dataclass(frozen=True)
class Optimus(Policy):
    r"""Minimise the remaining time of all jobs.

    .. math:: \min_X \sum_i w_i \Big( \sum_o X_{io} \frac{R_i}{T_{io}} + U (1 - \sum_o X_{io})
        \Big),\ X \in \{0, 1\}

    The problem::

        min over whole X of sum over jobs of weight * remaining seconds

        remaining seconds = steps remaining / throughput, `unserved_s` without an option

    Optimus gives each job one worker in turn, then each next one to the job whose remaining time it
    cuts most. That is this program where savings fall from GPU to GPU, and where `unserved_s` is so
    large that as many jobs as possible are served; by default it is twice the sum,
    over all jobs, of their remaining times under their slowest options.
    """

    name, integral, unit = "optimus", True, "s"
    source = "Optimus (EuroSys 2018), section 4.1"
    columns = ("weight", "steps_remaining")

    unserved_s: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        seconds("unserved_s", 1.0 if self.unserved_s is None else self.unserved_s, strict=True)

    def objective(self, p: Problem) -> cp.Minimize:
        """State the sum of remaining times."""
        left_s = expected_seconds(p)
        slowest = np.where(np.isfinite(left_s), left_s, 0.0).max(axis=1)
        U = self.unserved_s or float(2 * p.count @ (p.weight / p.weight.min() * slowest))
        V = where_known(p, left_s, U)
        remaining_s = cp.sum(cp.multiply(V, p.X), axis=1) + U * (1 - p.time)
        return cp.Minimize(p.total(cp.multiply(p.weight, remaining_s)))


@dataclass(frozen=True)
class Lyra(Policy):
    r"""Maximise the seconds that workers beyond the first ones save, every job having those.

    .. math:: \max_X \sum_{io} w_i X_{io} L_{io} \frac{e_{io}}{s_i + e_{io}}\ \text{such that}\
        \sum_o X_{io} = 1,\ X \in \{0, 1\}

    The problem::

        max over whole X of sum over jobs of weight * T e / (w + e)

        w = scale factor, the base workers; e = GPUs of the option beyond w
        T = steps remaining / throughput with w workers on the type

    It is Lyra's elastic phase (also Aryl's): speeds are taken to grow with the workers. Which jobs
    have their base workers is decided before, shortest first
    (`apportion.mechanism.elastic.greedy.shortest_first`); the jobs here are those. Options of fewer
    GPUs than w are closed, and each type on which a job runs has one of w.
    """

    name, integral, unit, base_workers_first = "lyra", True, "s", True
    works_by = ("configurations",)
    works_how = "divides what the base workers of all jobs leave, of elastic jobs"
    source = "Lyra (EuroSys 2023), its elastic phase"
    columns = ("weight", "scale_factor", "steps_remaining")

    def objective(self, p: Problem) -> cp.Maximize:
        """State the seconds that are saved."""
        extra = np.maximum(p.gpus - p.scale_factor[:, None], 0.0)
        V = where_known(p, _base_seconds(p) * extra / np.maximum(p.gpus, 1.0))
        saved_s = cp.sum(cp.multiply(V, p.X), axis=1)
        return cp.Maximize(p.total(cp.multiply(p.weight, saved_s)))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Let every job keep its base workers."""
        enough = p.gpus >= p.scale_factor[:, None]
        served = cp.sum(cp.multiply(enough, p.X), axis=1) == 1
        return [served.set_label("base workers of every job")]


def _base_seconds(p: Problem) -> Floats:
    """Return remaining seconds with the base workers, on the type of each option.

    Raises
    ------
    InputError
        If a job runs on a type on which it has no option of its base workers.
    """
    seconds, base = expected_seconds(p), p.gpus == p.scale_factor[:, None]
    found = np.full(seconds.shape, np.inf)
    for accelerator in np.unique(p.instance.option_accelerator):
        mine = p.instance.option_accelerator == accelerator
        least = np.where(base & mine, seconds, np.inf).min(axis=1, initial=np.inf)
        found[:, mine] = least[:, None]
    missing = np.isinf(found) & (p.speed > 0) & (p.gpus > p.scale_factor[:, None])
    if missing.any():
        job, option = np.argwhere(missing)[0]
        raise InputError(
            f"A job of {p.scale_factor[job]:g} base workers has no throughput with as many GPUs on "
            f"a type on which it runs with {p.gpus[job, option]:g}; Lyra needs it to say how long "
            f"the job takes."
        )
    return np.where(np.isfinite(found), found, 0.0)
