"""Least average completion time of single-GPU jobs, by bipartite matching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InputError
from apportion.policies import Policy, Problem
from apportion.policies.fixed_shares import by_themselves, time_by_type, total_time
from apportion.policies.whole.decide import without_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.types import Floats, Ints


@dataclass(frozen=True)
class AlloX(Policy):
    r"""Least average completion time of single-GPU jobs, by bipartite matching.

    .. math:: \min_M \sum_{ikg} k \, d_{ig} M_{ikg}\ \text{such that}\ \sum_{kg} M_{ikg} = 1,\
        \sum_i M_{ikg} \le 1,\ M \ge 0

    The problem::

        min over M of sum of k * d[i, g] * M[i, k, g], a matching of jobs i and places k of GPUs g

    A job in the k-th last place of a GPU's queue delays itself and those behind it, so it costs k
    times its duration d there; the cheapest matching of jobs with (GPU, place) gives the order
    (AlloX, EuroSys 2020, section 4). The first of every queue runs: ``X[i, type of g] = 1``.

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
    traits = frozenset({"runs_jobs_alone", "tells_identical_jobs_apart"})

    heterogeneity_aware: bool = True
    keeps_running: bool = True

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total time."""
        return cp.Maximize(total_time(p))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Let those run who go on, and who is first in the queue of a GPU that is left."""
        d, W = _durations(p), p.instance.shared_gpus.astype(int)
        W = np.where(np.isfinite(d).any(axis=0), W, 0)
        runs = _running(p, d) if self.keeps_running else np.zeros_like(d)
        waiting = ~runs.any(axis=1)
        # Not in the order of the columns, by which equal matchings would be told apart.
        order = np.lexsort([W, *d[::-1]])
        left = np.maximum(W - runs.sum(axis=0).astype(int), 0)[order]
        runs[np.ix_(waiting, order)] = first_of_queues(d[np.ix_(waiting, order)], left)
        return [(time_by_type(p) <= by_themselves(p, runs)).set_label("share")]


def best_matching(d: Floats) -> tuple[Ints, Ints]:
    """Return rows and columns of the ones of M in the cheapest matching, by the Hungarian method.

    Columns are the places k of GPUs g, of cost ``k * d[i, g]``, places in turn. A job in a place
    where it cannot run costs more than any schedule.

    Parameters
    ----------
    d
        Seconds that each job needs on each GPU, shape (jobs, GPUs); infinite where it cannot run.
    """
    from scipy.optimize import linear_sum_assignment  # few solves need it

    jobs = len(d)
    never = (1.0 + jobs) * max(jobs * d.max(where=np.isfinite(d), initial=0.0), 1.0)
    k = np.arange(1, jobs + 1)[None, :, None]
    return linear_sum_assignment(np.minimum((k * d[:, None, :]).reshape(jobs, -1), never))


def first_of_queues(d: Floats, gpus: Ints) -> Floats:
    """Return 1 for each job that is first in the queue of a GPU of a type, shape (jobs, types).

    Parameters
    ----------
    d
        Seconds that each job needs on each type, shape (jobs, types); infinite where it cannot run.
    gpus
        GPUs of each type, shape (types,).
    """
    first, queue = np.zeros_like(d), np.repeat(np.arange(gpus.size), gpus)  # type of each GPU
    if not (len(d) and queue.size):
        return first
    # Rounding must not choose among equal matchings: the unit of speeds changes it.
    told_apart = np.full_like(d, np.inf)
    told_apart[np.isfinite(d)] = without_noise(d[np.isfinite(d)])
    job, place_of_gpu = best_matching(told_apart[:, queue])
    place, gpu = np.divmod(place_of_gpu, queue.size)
    last_place = np.full(queue.size, -1)
    np.maximum.at(last_place, gpu, place)
    runs = (place == last_place[gpu]) & np.isfinite(d[job, queue[gpu]])
    first[job[runs], queue[gpu[runs]]] = 1.0
    return first


def _running(p: Problem, duration: Floats) -> Floats:
    """Return 1 where a job runs and goes on, shape (jobs, types)."""
    on = p.instance.columns.get("running_on", np.full(len(duration), -1.0))
    return np.asarray((np.arange(duration.shape[1]) == on[:, None]) & np.isfinite(duration), float)


def _durations(p: Problem) -> Floats:
    """Seconds that each job needs on each type, shape (jobs, types); infinite where it cannot."""
    large = p.instance.solo_speeds.held > 1
    if large.any():
        raise InputError(
            f"AlloX places single-GPU jobs; {int(large.sum())} jobs hold more GPUs than one."
        )
    with np.errstate(divide="ignore"):
        return np.asarray(p.steps_remaining[:, None] / p.instance.alone, dtype=float)
