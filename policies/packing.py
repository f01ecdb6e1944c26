"""Ad-hoc packing: pairs of jobs put together by chance, as Gandiva does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.shares import FixedShare

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cvxpy as cp
    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

    Floats = NDArray[np.float64]

__all__ = ["GandivaPacking"]


@dataclass(frozen=True)
class GandivaPacking(FixedShare):
    """Pack jobs in random pairs when the cluster is full; equal shares for all that then stand.

    Jobs that hold as many GPUs are drawn in pairs; a pair stays if the two together make more
    steps, relative to running alone and averaged over the GPUs of the cluster, than they would by
    taking turns (Gandiva, OSDI 2018, section 4; Gavel, section 6). Nothing is packed while there
    are GPUs for all. The same seed and jobs give the same pairs.
    """

    name = "gandiva"
    problem = "X = GPUs of the type / combinations / scale_factor, in random pairs when full"
    source = "Gandiva (OSDI 2018), section 4; Gavel (OSDI 2020), section 6"
    columns = ("order",)
    groups_identical_jobs = False

    heterogeneity_aware: bool = True
    space_sharing: bool = True
    seed: int = 0

    def target(self, p: Problem) -> Floats:
        """Return equal shares over the jobs and pairs that run, shape (rows, types)."""
        instance = p.instance
        gpus = instance.capacity[: instance.accelerators]
        runs = self._packed(p) if p.scale_factor.sum() > gpus.sum() else self._alone(p)
        held = instance.gpus.max(axis=1)
        share = runs[:, None] * gpus[None, :] / (max(1, runs.sum()) * held[:, None])
        return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0), dtype=float)

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit every row, single or pair, to its share."""
        share = self.target(p)[:, p.instance.option_accelerator]
        return [(share * p.instance.can_run >= p.X).set_label("share")]

    def _alone(self, p: Problem) -> NDArray[np.bool_]:
        """Rows of one job."""
        members = np.bincount(p.instance.member_row, minlength=p.instance.rows)
        return np.asarray(members == 1, dtype=bool)

    def _packed(self, p: Problem) -> NDArray[np.bool_]:
        """Rows that run: the pairs drawn that are worth it, and the jobs left over."""
        instance = p.instance
        runs = self._alone(p)
        row_of = _rows_of_pairs(p)
        draw = np.random.default_rng(self.seed).random(int(p.column("order").max(initial=0)) + 1)
        ticket = draw[p.column("order").astype(int)]  # a job keeps its ticket as others come and go
        alone = np.maximum(instance.alone, 1e-300)[:, instance.option_accelerator]
        for size in np.unique(p.scale_factor):
            drawn = np.flatnonzero(p.scale_factor == size)
            drawn = drawn[np.argsort(ticket[drawn], kind="stable")]
            for one, other in zip(drawn[::2].tolist(), drawn[1::2].tolist(), strict=False):
                row = row_of.get((min(one, other), max(one, other)))
                if row is None:
                    continue
                members = np.flatnonzero(instance.member_row == row)
                relative = instance.throughput[members] / alone[instance.member_job[members]]
                if relative.sum(axis=0) @ instance.type_share > 1.0:
                    runs[[one, other]], runs[row] = False, True
        return runs


def _rows_of_pairs(p: Problem) -> dict[tuple[int, int], int]:
    """Row of each pair of jobs, the smaller first."""
    instance = p.instance
    order = np.argsort(instance.member_row, kind="stable")
    row, job = instance.member_row[order], instance.member_job[order]
    second = np.flatnonzero(row[1:] == row[:-1]) + 1
    return {
        (min(a, b), max(a, b)): r
        for a, b, r in zip(
            job[second - 1].tolist(), job[second].tolist(), row[second].tolist(), strict=True
        )
    }
