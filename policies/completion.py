"""When jobs complete: the last as early as possible, none much later than alone, AlloX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import multiply
from cvxpy.constraints import Equality, Inequality

from apportion.errors import InputError
from apportion.policies.fixed_shares import FixedShare, by_themselves, time_by_type
from apportion.policies.slowest_job import SlowestJob
from apportion.policies.whole.relaxation import without_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem
    from apportion.types import Floats, Ints


@dataclass(frozen=True)
class Makespan(SlowestJob):
    r"""Minimise the time until all jobs are done.

    .. math:: \min_X \max_i \frac{R_i}{\mathrm{thr}_i}

    The problem::

        min over X of max over jobs of steps remaining / throughput

    Gavel, section 4.2, which bisects over the makespan; `solve` finds it by one linear program, in
    which the inverse is largest.
    """

    name = "makespan"
    source = "Gavel (OSDI 2020), section 4.2"
    unit = "s"
    columns = ("steps_remaining",)

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = False

    def slowness(self, p: Problem) -> tuple[float, Floats]:
        """Return 0, and steps left: `SlowestJob` states the largest steps left / throughput."""
        return 0.0, p.steps_remaining


@dataclass(frozen=True)
class FinishTimeFairness(SlowestJob):
    r"""Minimise the largest ratio of completion time here to completion time in isolation.

    .. math:: \min_X \max_i \frac{t_i + R_i / \mathrm{thr}_i}{\tau_i + R_i / \mathrm{iso}_i}

    The problem::

        min over X of max over jobs of completion time / completion time in a 1/n slice

        completion time              = elapsed + steps remaining / throughput
        completion time in a slice   = isolated elapsed + steps remaining / isolated throughput

    The isolated cluster is a 1/n slice of every type (Themis, section 3; Gavel, section 4.2). With
    ``lexicographic=True`` also the second largest ratio is as small as can be, then the third, and
    so on.
    """

    name = "finish_time_fairness"
    source = "Themis (NSDI 2020), section 3; Gavel (OSDI 2020), section 4.2"
    columns = ("steps_remaining", "elapsed_s", "isolated_elapsed_s")

    heterogeneity_aware: bool = True
    space_sharing: bool = False
    lexicographic: bool = False

    def slowness(self, p: Problem) -> tuple[Floats, Floats]:
        """Return what has elapsed and the steps left, both over the time in a slice.

        `SlowestJob` states the largest elapsed / slice + steps left / slice / throughput.
        """
        isolated_s = p.column("isolated_elapsed_s") + p.steps_remaining / p.isolated_throughput
        return p.elapsed_s / isolated_s, p.steps_remaining / isolated_s


@dataclass(frozen=True)
class AlloX(FixedShare):
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
    traits = FixedShare.traits | {"tells_identical_jobs_apart"}

    heterogeneity_aware: bool = True
    keeps_running: bool = True

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


def matching(d: Floats) -> cp.Problem:
    """State the least sum of completion times as a linear program, whose vertices are matchings.

    ``min sum of k * d[i, g] * M[i, (k, g)]`` over ``M >= 0`` such that each job i has one place,
    and each place k from the end of the queue of GPU g one job at most. A job in a place where it
    cannot run costs more than any schedule.

    Parameters
    ----------
    d
        Seconds that each job needs on each GPU, shape (jobs, GPUs); infinite where it cannot run.
    """
    jobs = len(d)
    k = np.arange(1, jobs + 1)
    cost = (k[None, :, None] * d[:, None, :]).reshape(jobs, -1)
    never = (1.0 + jobs) * max(jobs * d.max(where=np.isfinite(d), initial=0.0), 1.0)
    np.minimum(cost, never, out=cost)
    M = cp.Variable(cost.shape, nonneg=True, name="M")
    total = cp.sum(cp.multiply(cost, M))
    return cp.Problem(cp.Minimize(total), [cp.sum(M, axis=1) == 1, cp.sum(M, axis=0) <= 1])


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
    job, place_of_gpu = whole_vertex(matching(told_apart[:, queue]))
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
    speed = p.instance.alone
    with np.errstate(divide="ignore"):
        return np.asarray(p.steps_remaining[:, None] / speed, dtype=float)


class Matched(NamedTuple):
    """Rows and columns of the ones of M."""

    row: NDArray[np.intp]
    column: NDArray[np.intp]


def whole_vertex(declared: cp.Problem) -> Matched:
    """Solve ``min sum(C * M)``, M >= 0, whose rows sum to 1 and columns to 1 at most.

    The vertices of such a program are whole (Birkhoff), and the Hungarian method finds the best. C
    is read off the expression: nothing is compiled, which takes longer than to solve it.

    Raises
    ------
    ValueError
        If the program is of another form.
    """
    from scipy.optimize import linear_sum_assignment  # few solves need it

    goal, limits = declared.objective, {type(each): each for each in declared.constraints}
    product = goal.args[0].args[0] if isinstance(goal.args[0], cp.Sum) else goal.args[0]
    if not (isinstance(goal, cp.Minimize) and isinstance(product, multiply)):
        raise ValueError(f"{goal} is no least sum of C * M.")
    cost, M = product.args
    by_rows, by_columns = (_sums_to_one(limits.get(kind), M) for kind in (Equality, Inequality))
    if (by_rows, by_columns, len(declared.constraints)) != (1, 0, 2) or not M.is_nonneg():
        raise ValueError("The constraints do not say that M is a matching.")
    return Matched(*linear_sum_assignment(cost.value))


def _sums_to_one(limit: cp.Constraint | None, M: cp.Expression) -> int | None:
    """Return the axis along which a constraint compares sums of M with 1, if it does."""
    if limit is None:
        return None
    side, one = limit.args
    compares = isinstance(side, cp.Sum) and side.args[0] is M and np.all(one.value == 1)
    return side.axis if compares else None
