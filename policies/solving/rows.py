"""What is solved in place of an instance, and back: one order, one row for identical jobs.

* One order for jobs, options and types, so that a result does not depend on how they are given.
  Equal optima, sums of floats and random splits all depend on the order of rows and columns, be it
  in their last digits. So `solve` puts a problem in an order of its own first: jobs in the order of
  submission (by arrival, then by id), combinations by their jobs, types and options by name,
  without the types of which the cluster has no GPUs; and puts the solution back (`GivenOrder`).
* Identical jobs become one row with a count. A concave objective that treats them alike has an
  optimum in which they have the same shares (average any optimum over their permutations), so one
  row for all of them loses nothing (`reduce`). Pairs of jobs that share devices become rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from apportion.policies.base import DrawsPairs
from apportion.policies.chunks import made
from apportion.policies.instance import usage_of_gpus
from apportion.policies.normalisers import nothing_but_gpus
from apportion.policies.solving.copies import check_stated, counts_as_jobs
from apportion.policies.solving.equal_rows import classes_by_hashes, equal_sparse_rows
from apportion.policies.solving.pairs import PairTable, add_pairs, by_members, pairs_of_jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solution import Solution
    from apportion.policies.solving.declared_floors import DeclaredFloors
    from apportion.policies.solving.demand_intervals import Bins
    from apportion.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class GivenOrder:
    """The way from the order in which things were given to that in which they are solved.

    Attributes
    ----------
    jobs, rows, options, resources
        Place, as given, of each that is solved; types without GPUs and their options are not.
    all_options, all_resources
        How many were given.
    """

    jobs: Ints
    rows: Ints
    options: Ints
    resources: Ints
    all_options: int
    all_resources: int

    @classmethod
    def of(cls, instance: Instance, options: pd.Index) -> GivenOrder:
        """Find the order of a problem.

        Parameters
        ----------
        instance
            As given, with the column ``order``: the place of each job in the order of submission.
        options
            Their labels.
        """
        jobs = np.argsort(instance.columns["order"], kind="stable")
        texts: list[Any] = [*map(str, options)]
        if options.nlevels > 1:
            texts = [[*map(str, each)] for each in options]
        named, types = instance.resource_names, instance.accelerators
        there = (instance.capacity > 0) | (np.arange(len(named)) >= types)
        by_name = sorted(np.flatnonzero(there).tolist(), key=named.__getitem__)
        offered = np.flatnonzero(there[instance.option_accelerator]).tolist()
        return cls(
            jobs,
            rows=jobs if instance.solo else by_members(instance),
            options=np.array(sorted(offered, key=texts.__getitem__), dtype=np.intp),
            resources=np.array(sorted(by_name, key=types.__le__), dtype=np.intp),  # types first
            all_options=len(texts),
            all_resources=len(named),
        )

    def apply(self, instance: Instance) -> Instance:
        """Return a problem in the order in which it is solved."""
        options, resources = self.options, self.resources
        new_type = np.full(self.all_resources, -1, dtype=np.intp)
        new_type[resources] = np.arange(resources.size)
        if instance.solo:
            member, row, job = self.jobs, instance.member_row, instance.member_job
        else:
            new_row, new_job = np.argsort(self.rows), np.argsort(self.jobs)
            row, job = new_row[instance.member_row], new_job[instance.member_job]
            member = np.lexsort([job, row])
            row, job = row[member], job[member]
        columns = {name: values[self.jobs] for name, values in instance.columns.items()}
        if "running_on" in columns:
            on = columns["running_on"].astype(np.intp)
            columns["running_on"] = np.where(on < 0, -1.0, new_type[on])
        if "current_option" in columns:
            now = columns["current_option"].astype(np.intp)
            new_option = np.full(self.all_options, -1.0)
            new_option[options] = np.arange(options.size)
            columns["current_option"] = np.where(now < 0, -1.0, new_option[now])
        accelerator, tier = new_type[instance.option_accelerator[options]], instance.option_tier
        if instance.own_usage is None:
            usage = None
        elif (only := nothing_but_gpus(instance)) is not None:
            usage = usage_of_gpus(only[self.rows][:, options], accelerator, resources.size)
        else:
            column = (options[:, None] * self.all_resources + resources).ravel()
            usage = sparse.csr_array(instance.usage[self.rows][:, column])
            usage.sort_indices()
        return replace(
            instance,
            throughput=instance.throughput[member][:, options],
            member_row=row,
            member_job=job,
            member_share=instance.member_share[member],
            own_usage=usage,
            capacity=instance.capacity[resources],
            prices=instance.prices[resources],
            option_accelerator=accelerator,
            columns=columns,
            types=int((resources < instance.accelerators).sum()),
            resource_names=tuple(map(instance.resource_names.__getitem__, resources)),
            option_tier=tier if tier is None else tier[options],
        )

    def shares(self, X: Floats) -> Floats:
        """Return shares of rows under options in the order in which these were given.

        Types without GPUs have shares of zero: no job can run there. Rows of pairs stay behind
        the others, in an order of their own.
        """
        rows, given = self.rows.size, np.zeros((len(X), self.all_options))
        given[np.append(self.rows, np.arange(rows, len(X)))[:, None], self.options] = X
        return given

    def restore(self, solution: Solution) -> Solution:
        """Return a solution in the order in which the problem was given.

        Types without GPUs have a price of zero.
        """
        prices, made = np.zeros(self.all_resources), np.empty(self.jobs.size)
        prices[self.resources], made[self.jobs] = solution.prices, solution.throughput
        pairs = self.jobs[solution.pairs] if len(solution.pairs) else solution.pairs
        X = self.shares(solution.X)
        return replace(solution, X=X, throughput=made, prices=prices, pairs=pairs)


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
            shares = X.take(self.class_of, axis=0) if len(X) != self.full.rows else X
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
            return made(self.full.throughput, X, self.class_of)
        instance = self.true
        speed = (instance.throughput * X[instance.member_row]).sum(axis=1) * instance.member_share
        return np.bincount(instance.member_job, speed, instance.jobs)[self.class_of].astype(float)


def believed(policy: Policy, instance: Instance) -> Instance:
    """Return an instance at the speeds that a policy believes in."""
    return instance if policy.heterogeneity_aware else instance.blind_to_types()


def reduce(policy: Policy, full: Instance, group: bool, table: PairTable | None) -> Reduction:
    """Group identical jobs, if asked and allowed, and add rows for pairs, if there is a table."""
    true, class_of = full, np.arange(full.jobs)
    pairs = np.empty((0, 2), dtype=np.intp)
    columns = ("weight", "scale_factor", *policy.columns)
    if policy.integral:
        columns += ("current_option", "pinned")
    reason = "" if full.solo else "rows are combinations of jobs"
    if "tells_identical_jobs_apart" in policy.traits:
        reason = "the policy tells identical jobs apart"
    if not group:
        reason = "switched off"
    if table is not None and full.solo:
        if not reason:
            keyed = {**full.columns, "pair key": table.key.astype(float)}
            keys = (*columns, "pair key")
            true, class_of, reason = _classes(policy, full.with_columns(keyed), keys)
        if not reason:
            table = PairTable(table.own, true.columns["pair key"].astype(np.intp))
        drawn = policy.pairs_to_consider(true) if isinstance(policy, DrawsPairs) else None
        true, pairs = add_pairs(true, table, drawn)
        told = believed(policy, true)
        if not policy._built_in:
            check_stated(policy, told)
        kind = f"none ({reason})" if reason else "pairs of classes"
        return Reduction(full, true, told, class_of, pairs, kind, policy.heterogeneity_aware)
    told = full if policy.heterogeneity_aware else full.blind_to_types()
    if not reason:
        told, class_of, reason = _classes(policy, told, columns)
    if reason and full.solo and not policy.integral:
        told, class_of = _each_by_itself(policy, told)
    if not reason:
        alike = told.jobs < full.jobs
        reason = "" if alike else "jobs are ordered" if "order" in columns else "no jobs are alike"
    if not policy._built_in:
        check_stated(policy, told)
    kind = f"none ({reason})" if reason else "classes"
    return Reduction(full, true, told, class_of, pairs, kind, policy.heterogeneity_aware)


def _each_by_itself(policy: Policy, jobs: Instance) -> tuple[Instance, Ints]:
    """Give each job of a row a row of its own where a policy would count the row as one job."""
    times = jobs.count.astype(np.intp)
    if (times == 1).all() or counts_as_jobs(policy, jobs):
        return jobs, np.arange(jobs.jobs)
    job_of = np.repeat(np.arange(jobs.jobs), times)
    return jobs.subset(job_of, np.ones(job_of.size)), np.cumsum(times) - times


def _classes(policy: Policy, jobs: Instance, columns: Sequence[str]) -> tuple[Instance, Ints, str]:
    """Group jobs; or return them as they are, and the reason, where classes would not be exact."""
    classes, class_of = group_identical(jobs, columns)
    known = classes.jobs == jobs.jobs and (jobs.count == 1).all()
    if known or counts_as_jobs(policy, classes):
        return classes, class_of, ""
    return jobs, np.arange(jobs.jobs), "the policy does not count each class as its jobs"


_WIDE = 4096
"""Columns of usage above which rows are compared by what is stored of them."""
_FEW = 512
"""Rows up to which a dictionary of them is quicker than hashes."""


def group_identical(
    instance: Instance, columns: Sequence[str]
) -> tuple[Instance, NDArray[np.intp]]:
    """Merge jobs that agree in throughputs, usage and the named columns.

    Parameters
    ----------
    instance
        A problem whose rows are single jobs.
    columns
        Columns of the jobs table that the policy reads.

    Returns
    -------
    reduced
        One row per class; its ``count`` is the number of jobs in the class.
    class_of
        The class of each job, shape (jobs,).
    """
    keys: list[NDArray[Any]] = [instance.throughput]
    for name in columns:
        if name in instance.columns:
            keys.append(instance.columns[name])
    usage = instance.own_usage
    if usage is None:
        keys += [instance.columns["scale_factor"]]
    elif usage.nnz == instance.rows * instance.options:
        keys += [usage.data.reshape(instance.rows, -1)]
        keys += [usage.indices.reshape(instance.rows, -1).astype(float)]
    elif usage.shape[1] <= _WIDE:
        keys += [usage.toarray()]
    else:
        keys += [equal_sparse_rows(usage)]
    first, class_of = group_rows(*keys)
    if first.size == instance.jobs:
        return instance, class_of
    count = np.bincount(class_of, weights=instance.count, minlength=first.size)
    return instance.subset(first, count.astype(float)), class_of


def group_rows(*keys: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find equal rows: the first row of each class, and the class of every row.

    Classes come in the order in which they first appear. Many rows are told apart by hashes, see
    `apportion.policies.solving.equal_rows`.

    Parameters
    ----------
    *keys
        Arrays of shape (rows,) or (rows, any) that equal rows agree in.
    """
    told = []
    for key in keys:
        table = key.reshape(key.shape[0], -1)
        # One of which all rows are equal says nothing; a look at a few settles it for most others.
        if (table[:_FEW] != table[:1]).any() or (table != table[:1]).any():
            told.append(table)
    told = told or [keys[0].reshape(keys[0].shape[0], -1)]
    few = _groups_of_few(told) if len(keys[0]) <= _FEW else None
    return classes_by_hashes(told) if few is None else few


def _groups_of_few(
    tables: Sequence[NDArray[np.float64]],
) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Find equal rows by their bytes; ``None`` where some number is none, which equals nothing."""
    rows = np.ascontiguousarray(np.hstack(tables) + 0.0)  # -0.0 and 0.0 are one key
    if np.isnan(rows).any():
        return None
    cells: list[bytes] = rows.view(f"V{rows.shape[1] * rows.itemsize}").ravel().tolist()
    seen = dict.fromkeys(cells)
    place = dict(zip(seen, range(len(seen)), strict=True))
    classes = np.fromiter(map(place.__getitem__, cells), np.intp, len(cells))
    first = np.searchsorted(np.maximum.accumulate(classes), np.arange(len(seen)))
    return first, classes
