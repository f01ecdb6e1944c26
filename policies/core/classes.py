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
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from apportion.policies.core.own_problems import check_stated, counts_as_jobs
from apportion.policies.core.pairs import PairTable, add_pairs, pairs_of_jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solution import Solution
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
        texts: list[Any] = [*map(str, options)]
        if options.nlevels > 1:
            texts = [[*map(str, each)] for each in options]
        named, types = instance.resource_names, instance.accelerators
        there = (instance.capacity > 0) | (np.arange(len(named)) >= types)
        by_name = sorted(np.flatnonzero(there).tolist(), key=named.__getitem__)
        offered = np.flatnonzero(there[instance.option_accelerator]).tolist()
        jobs = np.argsort(instance.columns["order"], kind="stable")
        return cls(
            jobs,
            rows=jobs if instance.solo else _by_members(instance),
            options=np.array(sorted(offered, key=texts.__getitem__), dtype=np.intp),
            resources=np.array(sorted(by_name, key=types.__le__), dtype=np.intp),  # types first
            all_options=len(texts),
            all_resources=len(named),
        )

    def apply(self, instance: Instance) -> Instance:
        """Return a problem in the order in which it is solved."""
        options, resources = self.options, self.resources
        row = np.argsort(self.rows)[instance.member_row]
        job = np.argsort(self.jobs)[instance.member_job]
        member = np.lexsort([job, row])
        new_type = _new_places(resources, self.all_resources)
        columns = {name: values[self.jobs] for name, values in instance.columns.items()}
        named = {"running_on": new_type, "current_option": _new_places(options, self.all_options)}
        for name in columns.keys() & named.keys():
            old = columns[name].astype(np.intp)
            columns[name] = np.where(old < 0, -1.0, named[name][old])
        usage = instance.own_usage
        if usage is not None:
            column = (options[:, None] * self.all_resources + resources).ravel()
            usage = sparse.csr_array(usage[self.rows][:, column])
            usage.sort_indices()
        tier = instance.option_tier
        return replace(
            instance,
            throughput=instance.throughput[member][:, options],
            member_row=row[member],
            member_job=job[member],
            member_share=instance.member_share[member],
            own_usage=usage,
            capacity=instance.capacity[resources],
            prices=instance.prices[resources],
            option_accelerator=new_type[instance.option_accelerator[options]],
            columns=columns,
            types=int((resources < instance.accelerators).sum()),
            resource_names=tuple(map(instance.resource_names.__getitem__, resources)),
            option_tier=tier if tier is None else tier[options],
        )

    def restore(self, solution: Solution) -> Solution:
        """Return a solution in the order in which the problem was given.

        Types without GPUs have a price of zero, and shares of zero: no job can run there. Rows of
        pairs stay behind the others, in an order of their own.
        """
        X = np.zeros((len(solution.X), self.all_options))
        rows = np.append(self.rows, np.arange(self.rows.size, len(X)))
        X[rows[:, None], self.options] = solution.X
        prices, made = np.zeros(self.all_resources), np.empty(self.jobs.size)
        prices[self.resources], made[self.jobs] = solution.prices, solution.throughput
        pairs = self.jobs[solution.pairs] if len(solution.pairs) else solution.pairs
        return replace(solution, X=X, throughput=made, prices=prices, pairs=pairs)


def _new_places(kept: Ints, size: int) -> Ints:
    """Return the new place of each of so many things of which some are kept; -1 for the others."""
    places = np.full(size, -1, dtype=np.intp)
    places[kept] = np.arange(kept.size)
    return places


def _by_members(instance: Instance) -> Ints:
    """Return the rows, ordered by the places of their jobs in the order of submission."""
    members: list[list[float]] = [[] for _ in range(instance.rows)]
    order = instance.columns["order"][instance.member_job]
    for row, place in zip(instance.member_row.tolist(), order.tolist(), strict=True):
        members[row].append(place)
    keys = [(len(each), sorted(each)) for each in members]
    return np.array(sorted(range(instance.rows), key=keys.__getitem__), dtype=np.intp)


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
    """

    full: Instance
    true: Instance
    believed: Instance
    class_of: Ints
    pairs: Ints
    kind: str

    def expand(self, X: Floats) -> tuple[Floats, Ints]:
        """Return the shares of jobs, then of pairs of jobs; and the jobs of those pairs."""
        if not len(self.pairs):
            return X[self.class_of] if self.full.solo else X, np.empty((0, 2), dtype=np.intp)
        classes = self.believed.jobs
        jobs, shared = pairs_of_jobs(self.pairs, X[classes:], self.class_of)
        return np.vstack([X[:classes][self.class_of], shared]), jobs

    def throughput(self, X: Floats) -> Floats:
        """Steps/s of each job at the speeds that jobs have, from the reduced shares."""
        if self.full.solo and not len(self.pairs):
            return np.asarray((self.full.throughput * X[self.class_of]).sum(axis=1), dtype=float)
        instance = self.true
        speed = (instance.throughput * X[instance.member_row]).sum(axis=1) * instance.member_share
        return np.bincount(instance.member_job, speed, instance.jobs)[self.class_of].astype(float)


def believed(policy: Policy, instance: Instance) -> Instance:
    """Return an instance at the speeds that a policy believes in."""
    return instance if policy.heterogeneity_aware else instance.blind_to_types()


def reduce(
    policy: Policy, full: Instance, group: bool = True, table: PairTable | None = None
) -> Reduction:
    """Group identical jobs, if asked and allowed, and add rows for pairs, if there is a table."""
    jobs, class_of, paired = believed(policy, full), np.arange(full.jobs), False
    columns = ("weight", *policy.columns)
    if policy.integral:
        columns += ("current_option", "pinned")
    if table is not None and full.solo:
        paired, columns = True, (*columns, "pair key")
        jobs = full.with_columns({**full.columns, "pair key": table.key.astype(float)})
    reason = "" if full.solo else "rows are combinations of jobs"
    if "tells_identical_jobs_apart" in policy.traits:
        reason = "the policy tells identical jobs apart"
    if not group:
        reason = "switched off"
    if not reason:
        classes, of = group_identical(jobs, columns)
        few = classes.jobs < full.jobs
        if (few or (full.count > 1).any()) and not counts_as_jobs(policy, classes):
            reason = "the policy does not count each class as its jobs"
        else:
            jobs, class_of = classes, of
            if not few and not paired:
                reason = "jobs are ordered" if "order" in columns else "no jobs are alike"
    if reason and full.solo and not paired and not policy.integral:
        jobs, class_of = _each_by_itself(policy, jobs)
    kind, true, pairs = "classes", full, np.empty((0, 2), dtype=np.intp)
    if paired and table is not None:
        table = PairTable(table.own, jobs.columns["pair key"].astype(np.intp))
        drawn = policy.pairs_to_consider(jobs) if hasattr(policy, "pairs_to_consider") else None
        true, pairs = add_pairs(jobs, table, drawn)
        kind, jobs = "pairs of classes", believed(policy, true)
    check_stated(policy, jobs)
    return Reduction(full, true, jobs, class_of, pairs, f"none ({reason})" if reason else kind)


def _each_by_itself(policy: Policy, jobs: Instance) -> tuple[Instance, Ints]:
    """Give each job of a row a row of its own where a policy would count the row as one job."""
    times = jobs.count.astype(np.intp)
    if (times == 1).all() or counts_as_jobs(policy, jobs):
        return jobs, np.arange(jobs.jobs)
    job_of = np.repeat(np.arange(jobs.jobs), times)
    return jobs.subset(job_of, np.ones(job_of.size)), np.cumsum(times) - times


def group_identical(instance: Instance, columns: Sequence[str]) -> tuple[Instance, Ints]:
    """Merge jobs that agree in throughputs, usage and the named columns.

    Parameters
    ----------
    instance
        A problem whose rows are single jobs.
    columns
        Columns of the jobs table that the policy reads, beside the scale factor.

    Returns
    -------
    reduced
        One row per class; its ``count`` is the number of jobs in the class.
    class_of
        The class of each job, shape (jobs,).
    """
    known = instance.columns
    keys = [known[name] for name in dict.fromkeys(("scale_factor", *columns)) if name in known]
    if (usage := instance.own_usage) is not None:
        usage.sort_indices()
        cells = [
            usage.indices[a:b].tobytes() + usage.data[a:b].tobytes()
            for a, b in pairwise(usage.indptr.tolist())
        ]
        keys.append(_numbered(cells).astype(float))
    first, class_of = group_rows(instance.throughput, *keys)
    if first.size == instance.jobs:
        return instance, class_of
    count = np.bincount(class_of, weights=instance.count, minlength=first.size)
    return instance.subset(first, count.astype(float)), class_of


def group_rows(*keys: Floats) -> tuple[Ints, Ints]:
    """Find equal rows by their bytes: the first row of each class, and the class of every row.

    Classes come in the order in which they first appear.

    Parameters
    ----------
    *keys
        Arrays of shape (rows,) or (rows, any) that equal rows agree in; NaN equals NaN.
    """
    rows = np.ascontiguousarray(np.column_stack(keys) + 0.0)  # -0.0 and 0.0 are one key
    class_of = _numbered(rows.view(f"V{rows.shape[1] * rows.itemsize}").ravel().tolist())
    first = np.empty(class_of.max(initial=-1) + 1, dtype=np.intp)
    first[class_of[::-1]] = np.arange(class_of.size)[::-1]
    return first, class_of


def _numbered(cells: list[bytes]) -> Ints:
    """Return the place of each among those that are different, as they first appear."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(each, len(seen)) for each in cells], dtype=np.intp)
