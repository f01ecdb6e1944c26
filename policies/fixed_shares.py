"""Fixed shares, as baselines: slices of the cluster, equal time for all, and Gandiva's pairs.

Each is the problem ``max sum of X such that X <= share``, with the formula of its share. Gandiva
puts pairs of jobs together by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InputError
from apportion.policies.base import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.policies.instance import Instance
    from apportion.policies.problem import Problem
    from apportion.types import Floats, Ints


class FixedShare(Policy):
    """Run jobs for all the time that shares allow, which `constraints` states."""

    traits = frozenset({"has_one_optimum", "runs_jobs_alone"})

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total time, an option that is slower than another of its type counting less."""
        time = cp.sum(cp.multiply(_relative_to_type(p), p.X), axis=1)
        return cp.Maximize(p.instance.row_count @ time)


def time_by_type(p: Problem) -> cp.Expression:
    """Time of each row on each accelerator type, whichever options of it, shape (rows, types)."""
    return p.X @ _type_of_option(p)


def by_themselves(p: Problem, share: Floats) -> Floats:
    """Bring shares of jobs to their rows, with none for combinations, shape (rows, types)."""
    refuse_combinations_only(p.instance)
    of_rows = np.zeros((p.instance.rows, share.shape[1]))
    of_rows[p.instance.row_alone] = share
    return of_rows


def refuse_combinations_only(instance: Instance) -> None:
    """Refuse jobs without a row of their own; `solve` has refused them by name before."""
    if (instance.row_alone < 0).any():
        job = int(np.argmin(instance.row_alone))
        raise InputError(f"Job number {job} has no row of its own, which this policy needs.")


def isolated_share(capacity: Floats, scale_factor: Floats, jobs: float | None = None) -> Floats:
    """Return the time shares of jobs that each own a 1/n slice of every accelerator type.

    ``X[i, j] = (capacity[j] / n) / scale_factor[i]``, scaled down where a job would run more than
    all the time (Gavel, section 4.2: the isolated allocation of finish-time fairness). Types on
    which a job does not run take their part of its time as well.

    Parameters
    ----------
    capacity
        GPUs of each type of the cluster, shape (types,).
    scale_factor
        GPUs of each job, shape (jobs,).
    jobs
        The number n of jobs that share the cluster; the number of rows by default.

    Raises
    ------
    InputError
        If capacity or scale_factor is no list of numbers.
    """
    capacity, scale_factor = np.asarray(capacity, float), np.asarray(scale_factor, float)
    for name, each in (("capacity", capacity), ("scale_factor", scale_factor)):
        if each.ndim != 1:
            raise InputError(f"{name} has the shape {each.shape}; it must be a list of numbers.")
    n = scale_factor.size if jobs is None else jobs
    share = capacity[None, :] / (max(n, 1) * scale_factor[:, None])
    return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0), dtype=float)


@dataclass(frozen=True)
class IsolatedShare(FixedShare):
    r"""Give every job a 1/n slice of every type, as if the cluster were split and walled off.

    .. math:: \max_X \sum_{ij} X_{ij}\ \text{such that}\ X_{ij} \le \frac{W_j / (n s_i)}{\max(1,
        \sum_k W_k / (n s_i))}

    The problem::

        max over X of sum of X, X[i, j] <= (W[j] / n) / s[i], scaled down to a sum over j of 1

    W are the GPUs that the cluster has, whether or not a job runs on them, n the jobs, s their
    scale factors. A job with options of several numbers of GPUs makes the most of its slice, of
    which it holds ``sum over options of GPUs * X <= W[j] / n``.
    """

    name = "isolated"
    source = "Gavel (OSDI 2020), section 4.2"

    traits = frozenset({"runs_jobs_alone"})  # several options can make the most of a slice

    heterogeneity_aware: bool = True

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total time, or of jobs with options of several sizes the throughput."""
        solo, instance = p.instance.solo_speeds, p.instance
        worth = _relative_to_type(p)
        elastic = np.flatnonzero(solo.elastic)
        most = instance.isolated_throughput[elastic, None]
        worth[instance.row_alone[elastic]] = solo.speed[elastic] / most
        return cp.Maximize(instance.row_count @ cp.sum(cp.multiply(worth, p.X), axis=1))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit each job to its slice: its time, or its GPUs where options hold several numbers."""
        instance, W, n = p.instance, p.instance.shared_gpus, p.count.sum()
        share = isolated_share(W, instance.gpus_held, n)
        elastic = np.flatnonzero(instance.solo_speeds.elastic)
        share[elastic] = 1.0
        limits = [(time_by_type(p) <= by_themselves(p, share)).set_label("share")]
        if elastic.size:
            gpus = instance.solo_speeds.gpus[elastic]
            held = cp.multiply(gpus, p.X[instance.row_alone[elastic]]) @ _type_of_option(p)
            limits.append((held <= (W / n)[None, :]).set_label("slice"))
        return limits


@dataclass(frozen=True)
class ProportionalShare(FixedShare):
    r"""Give every job time in proportion to its weight, on each type in proportion to its GPUs.

    .. math:: \max_X \sum_{ij} X_{ij}\ \text{such that}\ X_{ij} \le c \, w_i \frac{W_j}{\sum_k
        W_k}

    The problem::

        max over X of sum of X, X[i, j] <= c * w[i] * W[j] / sum of W, with the largest c that fits

    It fits where ``sum over i of s[i] * X[i, j] <= W[j]`` and ``sum over j of X[i, j] <= 1``. On
    each type a job takes its fastest option; the GPUs that this holds count.
    """

    name = "proportional"
    source = "Gavel (OSDI 2020), section 4.1 (its normaliser)"
    columns = ("weight",)

    heterogeneity_aware: bool = True

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit every job to its share of each type."""
        W, w = p.instance.shared_gpus, p.weight
        wanted = (p.count * w) @ _gpus_where_fastest(p.instance)
        c = min(W.sum() / wanted.max(), 1 / w.max())
        share = (c * w)[:, None] * (W / W.sum())
        return [(time_by_type(p) <= by_themselves(p, share)).set_label("share")]


def _type_of_option(p: Problem) -> Floats:
    """Tell which option is of which accelerator type, 0 or 1, shape (options, types)."""
    return np.asarray(np.eye(p.instance.accelerators)[p.instance.option_accelerator])


def _relative_to_type(p: Problem) -> Floats:
    """Return the speed of each row under each option over its fastest option of the same type."""
    instance = p.instance
    fastest = np.zeros((instance.accelerators, instance.member_row.size))
    np.maximum.at(fastest, instance.option_accelerator, instance.throughput.T)
    fastest = np.maximum(fastest.T, 1e-300)[:, instance.option_accelerator]
    relative = np.zeros((instance.rows, instance.options))
    np.maximum.at(relative, instance.member_row, instance.throughput / fastest)
    return relative


def _gpus_where_fastest(instance: Instance) -> Floats:
    """GPUs of each job's fastest option of each type; its scale factor where it has none."""
    solo, best = instance.solo_speeds, instance.alone
    gpus = np.zeros_like(best)
    for option, accelerator in enumerate(instance.option_accelerator):
        fastest = (solo.speed[:, option] > 0) & (solo.speed[:, option] == best[:, accelerator])
        held = np.where(fastest, solo.gpus[:, option], 0.0)
        gpus[:, accelerator] = np.maximum(gpus[:, accelerator], held)
    return np.where(gpus > 0, gpus, instance.columns["scale_factor"][:, None])


@dataclass(frozen=True)
class GandivaPacking(FixedShare):
    r"""Pack jobs in random pairs when the cluster is full; equal shares for all that then stand.

    .. math:: \max_X \sum_{rj} X_{rj}\ \text{such that}\ X_{rj} \le \frac{W_j / (m s_r)}{\max(1,
        \sum_k W_k / (m s_r))}

    The problem::

        max over X of sum of X, X[r, j] <= (W[j] / rows that run) / s[r], scaled down to a sum of 1

    The rows r that run are the jobs or, when these want more GPUs than there are, random pairs and
    the jobs left over; no other row has time. Jobs that hold as many GPUs are drawn in pairs; a
    pair stays if the two together make more steps, relative to running alone and averaged over the
    GPUs of the cluster, than they would by taking turns (Gandiva, OSDI 2018, section 4; Gavel,
    section 6). The same seed and jobs give the same pairs.
    """

    name = "gandiva_packing"
    source = "Gandiva (OSDI 2018), section 4; Gavel (OSDI 2020), section 6"
    columns = ("order",)
    traits = frozenset({"has_one_optimum", "tells_identical_jobs_apart"})

    heterogeneity_aware: bool = True
    space_sharing: bool = True
    seed: int = 0

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit every row that runs, single or pair, to an equal share; the others have none."""
        W, s = p.instance.shared_gpus, p.gpus.max(axis=1)
        runs = self._packed(p) if p.scale_factor.sum() > W.sum() else self._alone(p)
        share = runs[:, None] * isolated_share(W, s, runs.sum())
        return [(time_by_type(p) <= share).set_label("share")]

    def _alone(self, p: Problem) -> NDArray[np.bool_]:
        """Rows of one job."""
        members = np.bincount(p.instance.member_row, minlength=p.instance.rows)
        only_together = p.instance.member_row[(p.instance.row_alone < 0)[p.instance.member_job]]
        runs = np.asarray(members == 1, dtype=bool)
        runs[only_together] = True
        return runs

    def pairs_to_consider(self, instance: Instance) -> Ints:
        """Draw the pairs: jobs of a scale factor in the order of their tickets, two by two."""
        order = instance.columns["order"].astype(int)
        ticket = np.random.default_rng(self.seed).random(int(order.max(initial=0)) + 1)[order]
        size = instance.columns["scale_factor"]
        drawn = [np.empty((0, 2), dtype=np.intp)]
        for gpus in np.unique(size):
            alike = np.flatnonzero(size == gpus)
            queue = alike[np.argsort(ticket[alike], kind="stable")]
            even = queue.size - queue.size % 2
            drawn.append(np.sort(queue[:even].reshape(-1, 2), axis=1))
        return np.vstack(drawn)

    def _packed(self, p: Problem) -> NDArray[np.bool_]:
        """Rows that run: the pairs drawn that are worth it, and the jobs left over."""
        instance, runs = p.instance, self._alone(p)
        accelerator = instance.option_accelerator
        alone = np.maximum(instance.alone, 1e-300)[:, accelerator]
        there = instance.type_share[accelerator] / np.bincount(accelerator)[accelerator]
        relative = (instance.throughput / alone[instance.member_job]) @ there
        together = np.bincount(instance.member_row, weights=relative, minlength=instance.rows)
        drawn = {tuple(pair) for pair in self.pairs_to_consider(instance).tolist()}
        for row in np.flatnonzero(~runs & (together > 1.0)).tolist():
            pair = np.sort(instance.member_job[instance.member_row == row])
            if tuple(pair.tolist()) in drawn:
                own = instance.row_alone[pair]
                runs[own[own >= 0]], runs[row] = False, True
        return runs
