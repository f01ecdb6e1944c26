"""Random pairs of jobs share GPUs when the cluster is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies import Instance, Policy, Problem
from apportion.policies.fixed_shares import time_by_type, total_time
from apportion.policies.normalisers import isolated_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.types import Bools, Ints


@dataclass(frozen=True)
class GandivaPacking(Policy):
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
    traits = frozenset({"tells_identical_jobs_apart"})

    heterogeneity_aware: bool = True
    space_sharing: bool = True
    seed: int = 0

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total time."""
        return cp.Maximize(total_time(p))

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit every row that runs, single or pair, to an equal share; the others have none."""
        W, s = p.instance.shared_gpus, p.gpus.max(axis=1)
        runs = self._packed(p) if p.scale_factor.sum() > W.sum() else self._alone(p)
        share = runs[:, None] * isolated_share(W, s, runs.sum())
        return [(time_by_type(p) <= share).set_label("share")]

    def _alone(self, p: Problem) -> Bools:
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
        queue = np.lexsort([ticket, instance.columns["scale_factor"]])
        size = instance.columns["scale_factor"][queue]
        place = np.arange(queue.size) - np.searchsorted(size, size)
        first = np.flatnonzero((place[:-1] % 2 == 0) & (size[:-1] == size[1:]))
        return np.sort(np.column_stack([queue[first], queue[first + 1]]), axis=1)

    def _packed(self, p: Problem) -> Bools:
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
