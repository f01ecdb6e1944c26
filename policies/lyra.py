"""Lyra: the seconds that workers beyond the first ones save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InputError
from apportion.policies.base import Policy
from apportion.policies.elastic_values import expected_seconds, where_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies.problem import Problem
    from apportion.types import Floats


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
    (`apportion.mechanism.elastic.greedy.base_workers`); the jobs here are those. Options of fewer
    GPUs than w are closed, and each type on which a job runs has one of w.
    """

    name, integral, unit, base_workers_first = "lyra", True, "s", True
    works_by = ("configurations",)
    works_how = "divides what the base workers of all jobs leave, of elastic jobs"
    source = "Lyra (EuroSys 2023), its elastic phase"
    columns = ("weight", "scale_factor", "steps_remaining")

    def objective(self, p: Problem) -> cp.Maximize:
        """State the sum over jobs of weight * V of the option that each has."""
        extra = np.maximum(p.gpus - p.scale_factor[:, None], 0.0)
        V = where_known(p, _base_seconds(p) * extra / np.maximum(p.gpus, 1.0))
        return cp.Maximize(p.total(cp.multiply(p.weight, cp.sum(cp.multiply(V, p.X), axis=1))))

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
