"""One order for jobs, options and types, so that a result does not depend on how they are given.

Equal optima, sums of floats and random splits all depend on the order of rows and columns, be it
in their last digits. So `solve` puts a problem in an order of its own first: jobs in the order of
submission (by arrival, then by id), combinations by their jobs, types and options by name, without
the types of which the cluster has no GPUs; and puts the solution back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.solving.rows.pairs import PairTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.policies.instance import Instance
    from apportion.policies.solution import Solution

    Ints = NDArray[np.intp]

__all__ = ["GivenOrder"]


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
    def of(
        cls, instance: Instance, resources: Sequence[str], options: Sequence[tuple[str, ...]]
    ) -> GivenOrder:
        """Find the order of a problem.

        Parameters
        ----------
        instance
            As given, with the column ``order``: the place of each job in the order of submission.
        resources, options
            Their names; those of resources beside the GPUs come after those of the types.
        """
        order = instance.columns["order"]
        jobs = np.argsort(order, kind="stable")
        types = instance.accelerators
        there = (instance.capacity > 0) | (np.arange(len(resources)) >= types)
        by_name = sorted(
            np.flatnonzero(there).tolist(), key=lambda at: (at >= types, resources[at])
        )
        offered = np.flatnonzero(there[instance.option_accelerator]).tolist()
        names = sorted(offered, key=lambda at: options[at])
        rows = jobs if instance.solo else _by_members(instance)
        return cls(
            jobs,
            rows,
            options=np.array(names, dtype=np.intp),
            resources=np.array(by_name, dtype=np.intp),
            all_options=len(options),
            all_resources=len(resources),
        )

    @property
    def as_given(self) -> bool:
        """Whether nothing moves."""
        if (self.options.size, self.resources.size) != (self.all_options, self.all_resources):
            return False
        each = (self.jobs, self.rows, self.options, self.resources)
        return all(bool((place == np.arange(place.size)).all()) for place in each)

    def apply(self, instance: Instance) -> Instance:
        """Return a problem in the order in which it is solved."""
        if self.as_given:
            return instance
        new_row, new_job = np.argsort(self.rows), np.argsort(self.jobs)
        new_type = np.full(self.all_resources, -1, dtype=np.intp)
        new_type[self.resources] = np.arange(self.resources.size)
        row, job = new_row[instance.member_row], new_job[instance.member_job]
        member = np.lexsort([job, row])
        columns = {name: values[self.jobs] for name, values in instance.columns.items()}
        if "running_on" in columns:
            on = columns["running_on"].astype(np.intp)
            columns["running_on"] = np.where(on < 0, -1.0, new_type[on])
        if "current_option" in columns:
            now = columns["current_option"].astype(np.intp)
            new_option = np.full(self.all_options, -1.0)
            new_option[self.options] = np.arange(self.options.size)
            columns["current_option"] = np.where(now < 0, -1.0, new_option[now])
        tier = instance.option_tier
        return replace(
            instance,
            throughput=instance.throughput[member][:, self.options],
            member_row=row[member],
            member_job=job[member],
            member_share=instance.member_share[member],
            usage=self._usage(instance),
            plain_usage=None,
            capacity=instance.capacity[self.resources],
            prices=instance.prices[self.resources],
            option_accelerator=new_type[instance.option_accelerator[self.options]],
            columns=columns,
            types=int((self.resources < instance.accelerators).sum()),
            resource_names=tuple(instance.resource_names[place] for place in self.resources),
            option_tier=tier if tier is None else tier[self.options],
        )

    def _usage(self, instance: Instance) -> sparse.csr_array:
        column = (self.options[:, None] * self.all_resources + self.resources).ravel()
        usage = sparse.csr_array(instance.usage[self.rows][:, column])
        usage.sort_indices()
        return usage

    def apply_to_pairs(self, pairs: PairTable | None) -> PairTable | None:
        """Return what is known of pairs in the order in which it is solved.

        Keys are numbered as they first appear.
        """
        if pairs is None or self.as_given:
            return pairs
        key = pairs.key[self.jobs]
        first = np.sort(np.unique(key, return_index=True)[1])
        seen = key[first]
        keys = np.concatenate([seen, np.setdiff1d(np.arange(pairs.own.shape[0]), seen)])
        own = pairs.own[np.ix_(keys, keys)][:, :, self.options]
        return PairTable(own, np.argsort(keys)[key])

    def restore(self, solution: Solution) -> Solution:
        """Return a solution in the order in which the problem was given.

        Types without GPUs have shares of zero, and a price of zero: no job can run there.
        Rows of pairs stay behind the others, in an order of their own.
        """
        if self.as_given:
            return solution
        rows, X = self.rows.size, np.zeros((len(solution.X), self.all_options))
        X[:, self.options] = solution.X
        prices = np.zeros(self.all_resources)
        prices[self.resources] = solution.prices
        return replace(
            solution,
            X=np.vstack([X[:rows][np.argsort(self.rows)], X[rows:]]),
            throughput=solution.throughput[np.argsort(self.jobs)],
            prices=prices,
            pairs=self.jobs[solution.pairs] if len(solution.pairs) else solution.pairs,
        )


def _by_members(instance: Instance) -> Ints:
    """Order rows by the places of their jobs in the order of submission."""
    members: list[list[float]] = [[] for _ in range(instance.rows)]
    order = instance.columns["order"][instance.member_job]
    for row, place in zip(instance.member_row.tolist(), order.tolist(), strict=True):
        members[row].append(place)
    keys = [(len(each), sorted(each)) for each in members]
    return np.array(sorted(range(instance.rows), key=lambda row: keys[row]), dtype=np.intp)
