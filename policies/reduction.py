"""What is solved in place of an instance: classes of identical jobs, rows for pairs; and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.classes import group_identical
from apportion.policies.pairs import PairTable, add_pairs, pairs_of_jobs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["Reduction", "reduce"]


@dataclass(frozen=True, eq=False)
class Reduction:
    """An instance, what stands for it, and how to get back.

    Attributes
    ----------
    full
        The instance as posed.
    true, believed
        Its reduction at the speeds that jobs have, and at those that the policy believes in.
    class_of
        Class of each job, shape (jobs,).
    pairs
        Classes of the rows that stand for pairs of jobs, shape (pairs, 2).
    """

    full: Instance
    true: Instance
    believed: Instance
    class_of: Ints
    pairs: Ints

    def expand(self, X: Floats) -> tuple[Floats, Ints]:
        """Return the shares of jobs, then of pairs of jobs; and the jobs of those pairs."""
        if not self.full.solo:
            return X, np.empty((0, 2), dtype=np.intp)
        classes = self.believed.jobs
        jobs, shared = pairs_of_jobs(self.pairs, X[classes:], self.class_of)
        return np.vstack([X[:classes][self.class_of], shared]), jobs

    def throughput(self, X: Floats) -> Floats:
        """Steps/s of each job at the speeds that jobs have, from the reduced shares."""
        if self.full.solo and not len(self.pairs):
            return np.asarray((self.full.throughput * X[self.class_of]).sum(axis=1), dtype=float)
        instance = self.true
        speed = (instance.throughput * X[instance.member_row]).sum(axis=1) * instance.member_share
        each = np.bincount(instance.member_job, weights=speed, minlength=instance.jobs)
        return each[self.class_of].astype(float)


def reduce(policy: Policy, full: Instance, group: bool, table: PairTable | None) -> Reduction:
    """Group identical jobs, if asked and allowed, and add rows for pairs, if there is a table."""
    true, class_of = full, np.arange(full.jobs)
    pairs = np.empty((0, 2), dtype=np.intp)
    columns = ("weight", "scale_factor", *policy.columns_of_class)
    group = group and policy.groups_identical_jobs and full.solo
    if table is not None and full.solo:
        if group:
            keyed = {**full.columns, "pair key": table.key.astype(float)}
            true, class_of = group_identical(full.with_columns(keyed), (*columns, "pair key"))
            table = PairTable(table.own, true.columns["pair key"].astype(np.intp))
        true, pairs = add_pairs(true, table, policy.pairs_to_consider(true))
        believed = true if policy.heterogeneity_aware else true.blind_to_types()
        return Reduction(full, true, believed, class_of, pairs)
    believed = full if policy.heterogeneity_aware else full.blind_to_types()
    if group:
        believed, class_of = group_identical(believed, columns)
    return Reduction(full, true, believed, class_of, pairs)
