"""The arrays of a problem: jobs, rows, options, resources, and what follows from their shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from scipy import sparse

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["ProblemArrays"]


@dataclass(frozen=True, eq=False)
class ProblemArrays:
    """Jobs, options, resources and what is known of them, as arrays.

    A row is what can be given time: a job, or a combination of jobs that share devices. A member
    is one job in one row; it is the member that has a throughput.

    Parameters
    ----------
    throughput
        Steps/s of each member under each option, shape (members, options); 0 = cannot run.
    member_row, member_job
        Row and job of each member, shape (members,).
    usage
        What a row holds while it runs under an option, sparse, shape (rows, options * resources),
        resources fastest.
    capacity
        Hard capacity of each resource, infinite for one that has none, shape (resources,). The
        accelerator types come first.
    option_accelerator
        Accelerator type of each option, an index into the resources, shape (options,).
    columns
        Columns of the jobs table that are known, each of shape (jobs,); ``weight``, ``count`` and
        ``scale_factor`` always are. ``current_option`` is the place of the option that a job has
        now, -1 for none; ``pinned`` is 1 where it must keep it.
    prices
        US dollars per hour of one unit of each resource, shape (resources,).
    entities
        Names of the entities, which the column ``entity`` holds the places of.
    member_share
        Part of a row's time that each job of a member has, shape (members,): 1, but where a row
        stands for pairs of classes and a job takes part in only some of them.
    types
        Number of accelerator types of the cluster, which are the first resources, whether or not
        an option is of each; by default up to the last that an option is of.
    option_tier
        Tier of each option, its place in `apportion.cluster.TIERS`, shape (options,); ``None``
        where options are no tiers.
    plain_usage
        The same object as ``usage`` where a row holds its scale factor of the accelerators of an
        option and nothing else, as `of_jobs` poses it; another or ``None`` if that is not known.
    alike
        Whether types are taken to be alike, as by a policy that is blind to them: throughputs are
        those of `Instance.blind_to_types`, and what jobs are compared with has them run as fast on
        types on which they cannot run.
    """

    throughput: Floats
    member_row: Ints
    member_job: Ints
    usage: sparse.csr_array
    capacity: Floats
    option_accelerator: Ints
    columns: Mapping[str, Floats]
    prices: Floats = field(repr=False)
    entities: tuple[str, ...] = ()
    member_share: Floats = field(default_factory=lambda: np.ones(0))
    types: int | None = None
    resource_names: tuple[str, ...] = ()
    option_tier: Ints | None = None
    plain_usage: sparse.csr_array | None = field(default=None, repr=False)
    alike: bool = False

    def __post_init__(self) -> None:
        if self.member_share.size != self.member_row.size:
            object.__setattr__(self, "member_share", np.ones(self.member_row.size))

    @property
    def jobs(self) -> int:
        """Number of jobs (of job classes, once identical jobs are grouped)."""
        return self.columns["count"].size

    @property
    def rows(self) -> int:
        """Number of rows of the allocation matrix."""
        return int(self.usage.shape[0])

    @property
    def options(self) -> int:
        """Number of options, the columns of the allocation matrix."""
        return int(self.throughput.shape[1])

    @property
    def count(self) -> Floats:
        """Identical jobs that each job stands for, shape (jobs,)."""
        return self.columns["count"]

    @property
    def holds_gpus_only(self) -> bool:
        """Whether a row is known to hold its scale factor in GPUs of an option, nothing else."""
        return self.usage is self.plain_usage

    @cached_property
    def hard(self) -> Ints:
        """Places of the resources with a hard capacity."""
        return np.flatnonzero(np.isfinite(self.capacity))

    @cached_property
    def soft(self) -> Ints:
        """Places of the resources without one."""
        return np.flatnonzero(np.isinf(self.capacity))

    def worth(self, prices: Floats) -> float:
        """Return the price of all there is of the hard resources, prices of shape (resources,)."""
        return float(self.capacity[self.hard] @ prices[self.hard])

    @cached_property
    def current(self) -> Floats:
        """1 where a row is under the option that it has now, else 0; shape (rows, options)."""
        now = np.zeros((self.rows, self.options))
        if "current_option" in self.columns:
            option = self.columns["current_option"].astype(np.intp)
            job = np.flatnonzero((option >= 0) & (self.row_alone >= 0))
            now[self.row_alone[job], option[job]] = 1.0
        return now

    @cached_property
    def pinned(self) -> NDArray[np.bool_]:
        """Whether a row must keep the option that it has now, shape (rows,)."""
        kept = np.zeros(self.rows, dtype=bool)
        if "pinned" in self.columns:
            job = np.flatnonzero((self.columns["pinned"] > 0) & (self.row_alone >= 0))
            kept[self.row_alone[job]] = True
        return kept

    @cached_property
    def solo(self) -> bool:
        """Whether every row is one job, in the order of the jobs."""
        own = np.arange(self.jobs)
        return (
            self.rows == self.jobs == self.member_row.size
            and np.array_equal(self.member_row, own)
            and np.array_equal(self.member_job, own)
        )

    @cached_property
    def row_alone(self) -> Ints:
        """Row of each job by itself; -1 for a job that never runs by itself, shape (jobs,)."""
        if self.solo:
            return np.arange(self.jobs)
        members = np.bincount(self.member_row, minlength=self.rows)
        own = (members[self.member_row] == 1) & (self.throughput > 0).any(axis=1)
        row = np.full(self.jobs, -1, dtype=np.intp)
        row[self.member_job[own]] = self.member_row[own]
        return row

    @cached_property
    def row_count(self) -> Floats:
        """Identical rows that each row stands for, shape (rows,)."""
        count = np.ones(self.rows)
        count[self.member_row] = self.count[self.member_job] * self.member_share
        return count

    @cached_property
    def can_run(self) -> NDArray[np.bool_]:
        """Whether every member of a row runs under an option, shape (rows, options)."""
        if self.solo:
            return self.throughput > 0
        runs = np.ones((self.rows, self.options), dtype=bool)
        np.logical_and.at(runs, self.member_row, self.throughput > 0)
        return runs
