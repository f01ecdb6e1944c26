"""An allocation in arrays, and what could be held against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from apportion.policies.solving.highs import optimal_vertex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.types import Floats


TELLING = 1e-6
"""Less than this, relatively, is no gain: optima are certified to about as much."""


@dataclass(frozen=True, eq=False)
class Case:
    """An allocation in arrays: jobs by types.

    Attributes
    ----------
    jobs, types
        Labels.
    speed
        Steps/s, 0 where a job cannot run, shape (jobs, types).
    gang, weight
        GPUs of each job, and what its part of the cluster is in proportion to, shape (jobs,).
    gpus
        Of each type, shape (types,).
    X
        Share of time, shape (jobs, types).
    """

    jobs: pd.Index
    types: list[Any]
    speed: Floats
    gang: Floats
    weight: Floats
    gpus: Floats
    X: Floats

    @property
    def made(self) -> Floats:
        """Steps/s of each job."""
        return np.asarray((self.speed * self.X).sum(axis=1), dtype=float)

    def of_bundles(self, bundles: Floats) -> Floats:
        """Return steps/s that each job would make of some GPUs of each type, fastest first.

        Parameters
        ----------
        bundles
            GPUs on average, shape (jobs, types), a row for each job.
        """
        order = np.argsort(-self.speed, axis=1, kind="stable")
        time = np.take_along_axis(bundles / self.gang[:, None], order, axis=1)
        until = np.minimum(np.cumsum(time, axis=1), 1.0)
        used = np.diff(until, axis=1, prepend=0.0)
        return np.asarray((np.take_along_axis(self.speed, order, axis=1) * used).sum(axis=1))

    def sharing(self) -> pd.DataFrame:
        """Set each job beside its part of the cluster."""
        part = self.weight / self.weight.sum()
        alone = self.of_bundles(part[:, None] * self.gpus)
        ratio = np.divide(self.made, alone, out=np.full_like(alone, np.inf), where=alone > 0)
        table = {"has": self.made, "alone": alone, "ratio": ratio}
        return pd.DataFrame(table, index=self.jobs)

    def with_bundle_of(self, other: int) -> Floats:
        """Return steps/s that each job would make of what another one holds, at equal weights."""
        held = self.X[other] * self.gang[other]
        return self.of_bundles(held * (self.weight / self.weight[other])[:, None])

    def envy(self) -> pd.DataFrame:
        """Find who would make more of what another one holds."""
        made = np.array([self.with_bundle_of(other) for other in range(len(self.jobs))])
        return envious(self.jobs, self.made, made)

    def improved(self) -> tuple[float, pd.DataFrame | None]:
        """Return the largest gain that costs nobody anything, and an allocation that has it."""
        count, kinds = self.speed.shape
        fastest = self.speed.max(axis=1, keepdims=True)
        gain = np.divide(self.speed, fastest, out=np.zeros_like(self.speed), where=fastest > 0)
        each, hold = np.eye(count), np.eye(kinds)
        time = np.repeat(each, kinds, axis=1)
        capacity = np.concatenate([gang * hold for gang in self.gang], axis=1)
        kept = (gain * self.X).sum(axis=1)
        limits = np.vstack([time, capacity, -time * gain.ravel()])
        most = np.concatenate([np.ones(count), self.gpus, -kept * (1 - TELLING**2)])
        rows = np.full(most.size, -np.inf), most
        found = optimal_vertex(-gain.ravel(), sparse.csr_array(limits), rows)
        more = 0.0 if found is None else float(gain.ravel() @ found - kept.sum())
        if found is None or more <= TELLING * max(kept.sum(), 1.0):
            return 0.0, None
        better = np.where(self.speed > 0, found.reshape(count, kinds), 0.0)
        table = pd.DataFrame(better, index=self.jobs, columns=self.types)
        return more, table


def envious(jobs: pd.Index, made: Floats, with_others: Floats) -> pd.DataFrame:
    """List who would make more of what another one holds, the worst first.

    Parameters
    ----------
    jobs
        Labels.
    made
        By each job with what it holds, shape (jobs,), or while both were there, (others, jobs).
    with_others
        By each job with what another one holds, shape (others, jobs).
    """
    mine = np.broadcast_to(made, with_others.shape)
    nothing = np.where(with_others > 0, np.inf, 1.0)
    ratio = np.divide(with_others, mine, out=nothing, where=mine > 0)
    others, who = np.nonzero(ratio > 1 + TELLING)
    labels = jobs.tolist()
    pairs = zip(who.tolist(), others.tolist(), strict=True)
    rows = [(labels[job], labels[other], float(ratio[other, job])) for job, other in pairs]
    return worst_first(rows, ["job", "other", "ratio"])


def worst_first(rows: Sequence[tuple[object, ...]], columns: list[str]) -> pd.DataFrame:
    """Make a table, the largest ratio first."""
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("ratio", ascending=False, kind="stable").reset_index(drop=True)
