"""AlloX: which job on which GPU in which place of its queue, so that completion times are least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from apportion.errors import InputError
from apportion.policies.fixed_shares import FixedShare
from apportion.policies.solving.whole.ties import without_noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

    Floats = NDArray[np.float64]

__all__ = ["AlloX", "best_matching"]


@dataclass(frozen=True)
class AlloX(FixedShare):
    """Least average completion time of single-GPU jobs, by bipartite matching.

    The problem::

        min sum of place from the end of a GPU's queue * duration there; the first ones run

    A job in the k-th last place of a GPU's queue delays itself and those behind it, so it costs k
    times its duration there; the cheapest matching of jobs with (GPU, place) gives the order
    (AlloX, EuroSys 2020, section 4). The first of every queue runs.

    Parameters
    ----------
    keeps_running
        Whether a job that runs all the time on a type (its ``running_on``) stays there until it is
        complete, and only the others are matched, with the GPUs that are left. So Gavel has it,
        and jobs are never preempted. Without, all are matched anew at each solve: a variant that
        moves jobs freely.
    """

    name = "allox"
    source = "AlloX (EuroSys 2020), section 4"
    columns = ("steps_remaining", "running_on")
    traits = FixedShare.traits | {"tells_identical_jobs_apart"}

    heterogeneity_aware: bool = True
    keeps_running: bool = True

    def target(self, p: Problem) -> Floats:
        """Return 1 for each job that runs or is first in its queue, on the type of that queue."""
        return best_matching(p, keeps_running=self.keeps_running)[1]


def best_matching(p: Problem, *, keeps_running: bool = True) -> tuple[float, Floats]:
    """Match jobs with places in queues by the Hungarian method.

    Returns
    -------
    cost
        Sum of completion times of the jobs that are matched, seconds.
    first
        1 for each job that goes on running, or is first in the queue of a GPU of a type, shape
        (jobs, types).
    """
    duration = _durations(p)
    gpus = p.instance.capacity[: p.instance.accelerators].astype(int)
    gpus = np.where(np.isfinite(duration).any(axis=0), gpus, 0)
    runs = _running(p, duration) if keeps_running else np.zeros_like(duration)
    waiting = ~runs.any(axis=1)
    # Not in the order of the columns, by which equal matchings would be told apart.
    order = np.lexsort([gpus, *duration[::-1]])
    left = (gpus - runs.sum(axis=0).astype(int))[order]
    cost, first = _matched(duration[np.ix_(waiting, order)], np.maximum(left, 0))
    runs[np.ix_(waiting, order)] = first
    return cost, runs


def _running(p: Problem, duration: Floats) -> Floats:
    """Return 1 where a job runs and goes on, shape (jobs, types)."""
    on = p.instance.columns.get("running_on", np.full(len(duration), -1.0))
    return np.asarray((np.arange(duration.shape[1]) == on[:, None]) & np.isfinite(duration), float)


def _matched(duration: Floats, gpus: NDArray[np.intp]) -> tuple[float, Floats]:
    """Match waiting jobs with the GPUs of each type, and return cost and who runs where."""
    first = np.zeros_like(duration)
    jobs = len(duration)
    queue = np.repeat(np.arange(gpus.size), gpus)  # type of each GPU
    if not (jobs and queue.size):
        return 0.0, first
    places = np.arange(1, jobs + 1)
    # Rounding must not choose among equal matchings: the unit of speeds changes it.
    told_apart = np.full_like(duration, np.inf)
    told_apart[np.isfinite(duration)] = without_noise(duration[np.isfinite(duration)])
    cost = (places[None, :, None] * told_apart[:, None, queue]).reshape(jobs, -1)
    never = (1.0 + jobs) * cost.max(where=np.isfinite(cost), initial=1.0)  # beyond any schedule
    job, slot = linear_sum_assignment(np.where(np.isfinite(cost), cost, never))
    place, gpu = np.divmod(slot, queue.size)
    last_place = np.full(queue.size, -1)
    np.maximum.at(last_place, gpu, place)
    runs = (place == last_place[gpu]) & np.isfinite(duration[job, queue[gpu]])
    first[job[runs], queue[gpu[runs]]] = 1.0
    return float(cost[job, slot].sum()), first


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
