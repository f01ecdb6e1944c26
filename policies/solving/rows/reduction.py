"""What is solved in place of an instance: classes of identical jobs, rows for pairs; and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.extensions import DrawsPairs
from apportion.policies.solving.rows.classes import group_identical
from apportion.policies.solving.rows.declared_floors import (
    DeclaredFloors,
    floors_of,
    tells_no_jobs_apart,
)
from apportion.policies.solving.rows.demand_intervals import Bins, worth_merging
from apportion.policies.solving.rows.pairs import PairTable, add_pairs, pairs_of_jobs
from apportion.policies.solving.solvable import solvable
from apportion.policies.solving.worst_off.common_share import HAIR, DeclaredShare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["Reduction", "believed", "reduce"]


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
    kind
        In words: "classes", "pairs of classes", or "none" and why.
    faithful
        Whether the policy believes in the speeds that jobs have.
    bins
        What `believed` is made of, where classes that differ in their floors only were merged.
    floors
        Theirs, which stand for the constraints of the policy then.
    """

    full: Instance
    true: Instance
    believed: Instance
    class_of: Ints
    pairs: Ints
    kind: str
    faithful: bool
    bins: Bins | None = None
    floors: DeclaredFloors | None = None

    def expand(self, X: Floats) -> tuple[Floats, Ints]:
        """Return the shares of jobs, then of pairs of jobs; and the jobs of those pairs."""
        X = X if self.bins is None else self.bins.expand(X)
        if not len(self.pairs):
            shares = X.take(self.class_of, axis=0) if len(X) < self.full.rows else X
            return shares, np.empty((0, 2), dtype=np.intp)
        classes = self.believed.jobs
        jobs, shared = pairs_of_jobs(self.pairs, X[classes:], self.class_of)
        return np.vstack([X[:classes][self.class_of], shared]), jobs

    def throughput(self, X: Floats) -> Floats:
        """Steps/s of each job at the speeds that jobs have, from the reduced shares."""
        if self.full.solo and not len(self.pairs):
            if self.bins is not None:
                X = self.bins.expand(X)
            elif self.faithful:
                by_class = (self.believed.throughput * X).sum(axis=1)
                return np.asarray(by_class[self.class_of], dtype=float)
            return np.asarray((self.full.throughput * X[self.class_of]).sum(axis=1), dtype=float)
        instance = self.true
        speed = (instance.throughput * X[instance.member_row]).sum(axis=1) * instance.member_share
        each = np.bincount(instance.member_job, weights=speed, minlength=instance.jobs)
        return each[self.class_of].astype(float)


def believed(policy: Policy, instance: Instance) -> Instance:
    """Return an instance at the speeds that a policy believes in."""
    return instance if policy.heterogeneity_aware else instance.blind_to_types()


def reduce(
    policy: Policy,
    full: Instance,
    group: bool,
    table: PairTable | None,
    *,
    intervals: bool = False,
) -> Reduction:
    """Group identical jobs, if asked and allowed, and add rows for pairs, if there is a table.

    With `intervals` jobs that differ in their floors only are merged, where all can be met.
    """
    true, class_of = full, np.arange(full.jobs)
    pairs = np.empty((0, 2), dtype=np.intp)
    columns = ("weight", "scale_factor", *policy.columns)
    if policy.integral:
        columns += ("current_option", "pinned")
    reason = _why_not(policy, full, group)
    if table is not None and full.solo:
        if not reason:
            keyed = {**full.columns, "pair key": table.key.astype(float)}
            true, class_of = group_identical(full.with_columns(keyed), (*columns, "pair key"))
            table = PairTable(table.own, true.columns["pair key"].astype(np.intp))
        drawn = policy.pairs_to_consider(true) if isinstance(policy, DrawsPairs) else None
        true, pairs = add_pairs(true, table, drawn)
        told = believed(policy, true)
        kind = f"none ({reason})" if reason else "pairs of classes"
        return Reduction(full, true, told, class_of, pairs, kind, policy.heterogeneity_aware)
    told = believed(policy, full)
    if not reason:
        told, class_of = group_identical(told, columns)
        alike = told.jobs < full.jobs
        reason = "" if alike else "jobs are ordered" if "order" in columns else "no jobs are alike"
    kind = f"none ({reason})" if reason else "classes"
    classes = Reduction(full, true, told, class_of, pairs, kind, policy.heterogeneity_aware)
    return _with_floors_merged(policy, classes) if group and intervals else classes


def _with_floors_merged(policy: Policy, classes: Reduction) -> Reduction:
    """Merge classes whose floors lie in one interval, if there are enough, and all can be met.

    What is given up where they cannot depends on each job's own floor.
    """
    told = classes.believed
    merging = worth_merging(told) if told.solo else None
    if merging is None or "tells_identical_jobs_apart" in policy.traits:
        return classes
    with solvable(policy):
        floors = floors_of(policy, told)
    if floors is None or not (floors.pace <= told.fastest_throughput).all():
        return classes
    bins = merging.bins(floors.pace)
    if not tells_no_jobs_apart(policy, told, bins):
        return classes
    share = 1.0
    if floors.pace.any():
        common = DeclaredShare(bins.instance, "auto").optimum(bins.demand)
        if common.bound < 1 - HAIR:
            return classes
        share = min(common.share, 1.0)
    merged = DeclaredFloors(bins.demand * share, floors.label)
    return replace(
        classes, believed=bins.instance, bins=bins, floors=merged, kind="demand intervals"
    )


def _why_not(policy: Policy, full: Instance, group: bool) -> str:
    """Reason for which identical jobs are not solved as one; empty where they are."""
    if not group:
        return "switched off"
    if "tells_identical_jobs_apart" in policy.traits:
        return "the policy tells identical jobs apart"
    return "" if full.solo else "rows are combinations of jobs"
