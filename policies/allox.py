"""AlloX: which job on which GPU in which place of its queue, so that completion times are least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from scipy.optimize import linear_sum_assignment

from apportion.errors import InputError
from apportion.policies.shares import FixedShare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

    Floats = NDArray[np.float64]

__all__ = ["AlloX", "best_matching", "matching_problem"]


@dataclass(frozen=True)
class AlloX(FixedShare):
    """Least average completion time of single-GPU jobs, by bipartite matching.

    A job in the k-th last place of a GPU's queue delays itself and those behind it, so it costs k
    times its duration there; the cheapest matching of jobs with (GPU, place) gives the order
    (AlloX, EuroSys 2020, section 4). The first of every queue runs.
    """

    name = "allox"
    problem = "min sum of place from the end of a GPU's queue * duration there; the first ones run"
    source = "AlloX (EuroSys 2020), section 4"
    columns = ("steps_remaining",)
    groups_identical_jobs = False

    heterogeneity_aware: bool = True

    def target(self, p: Problem) -> Floats:
        """Return 1 for each job that is first in its queue, on the type of that queue."""
        return best_matching(p)[1]


_NEVER = 1e15
"""Seconds on a type where a job cannot run: beyond any real schedule, yet a number."""


def best_matching(p: Problem) -> tuple[float, Floats]:
    """Match jobs with places in queues by the Hungarian method.

    Returns
    -------
    cost
        Sum of completion times, seconds.
    first
        1 for each job that is first in the queue of a GPU of a type, shape (jobs, types).
    """
    duration = _durations(p)
    gpus = p.instance.capacity[: p.instance.accelerators].astype(int)
    gpus = np.where(np.isfinite(duration).any(axis=0), gpus, 0)
    jobs = duration.shape[0]
    queue = np.repeat(np.arange(gpus.size), gpus)  # type of each GPU
    places = np.arange(1, jobs + 1)
    cost = (places[None, :, None] * duration[:, None, queue]).reshape(jobs, -1)
    job, slot = linear_sum_assignment(np.where(np.isfinite(cost), cost, _NEVER))
    place, gpu = np.divmod(slot, queue.size)
    last_place = np.full(queue.size, -1)
    np.maximum.at(last_place, gpu, place)
    runs = place == last_place[gpu]
    first = np.zeros_like(duration)
    first[job[runs], queue[gpu[runs]]] = 1.0
    return float(cost[job, slot].sum()), first


def matching_problem(p: Problem, places: int) -> cp.Problem:
    """State the matching as a linear program; its optimum is integral.

    Parameters
    ----------
    p
        A problem of single-GPU jobs.
    places
        Longest queue considered.
    """
    duration = _durations(p)
    jobs, types = duration.shape
    runs = np.isfinite(duration)
    cost = np.where(runs, duration, 0.0)
    chosen = [cp.Variable((jobs, types), nonneg=True) for _ in range(places)]
    total = sum((place + 1) * cp.sum(cp.multiply(cost, chosen[place])) for place in range(places))
    gpus = p.instance.capacity[: p.instance.accelerators]
    constraints: list[Any] = [cp.sum(sum(chosen), axis=1) == 1]
    constraints += [cp.sum(each, axis=0) <= gpus for each in chosen]
    constraints += [cp.multiply(~runs, each) == 0 for each in chosen]
    return cp.Problem(cp.Minimize(total), constraints)


def _durations(p: Problem) -> Floats:
    """Seconds that each job needs on each type, shape (jobs, types); infinite where it cannot."""
    large = p.instance.solo_speeds.held > 1
    if large.any():
        raise InputError(
            f"AlloX places single-GPU jobs; {int(large.sum())} jobs hold more GPUs than one."
        )
    speed = p.instance.alone
    with np.errstate(divide="ignore"):
        return np.asarray(p.steps_remaining[:, None] / speed, dtype=float)
