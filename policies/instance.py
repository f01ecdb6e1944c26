"""One allocation problem in arrays: what `solve` makes of labels and policies are posed on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.normalisers import SoloSpeeds, isolated_share, slice_throughput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from apportion.types import Floats, Ints


def usage_of_gpus(gpus: Floats, accelerator: Ints, resources: int) -> sparse.csr_array:
    """Return usage of the GPUs of options alone, shape (rows, options * resources).

    Parameters
    ----------
    gpus
        What rows hold under options, shape (rows, options).
    accelerator
        Type of each option, shape (options,).
    resources
        How many there are, resources fastest.
    """
    rows, options = gpus.shape
    column = np.arange(options, dtype=np.int32) * resources + accelerator
    starts = np.arange(0, gpus.size + 1, max(options, 1), dtype=np.int32)
    held = (gpus.ravel(), np.tile(column, rows), starts)
    return sparse.csr_array(held, shape=(rows, options * resources))


@dataclass(frozen=True, eq=False)
class Instance:
    """One allocation problem: jobs, options, resources and what is known of them, as arrays.

    A row is what can be given time: a job, or a combination of jobs that share devices. A member
    is one job in one row; it is the member that has a throughput.

    Parameters
    ----------
    throughput
        Steps/s of each member under each option, shape (members, options); 0 = cannot run.
    member_row, member_job
        Row and job of each member, shape (members,).
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
    texts
        What columns of texts say, by column, which then hold the places of it: ``entity``.
    member_share
        Part of a row's time that each job of a member has, shape (members,): 1, but where a row
        stands for pairs of classes and a job takes part in only some of them.
    types
        Number of accelerator types of the cluster, which are the first resources, whether or not
        an option is of each; by default up to the last that an option is of.
    option_tier
        Tier of each option, its place in `apportion.cluster.TIERS`, shape (options,), or ``None``.
    own_usage
        `usage`, sparse, resources fastest; ``None`` where rows are the jobs, in their order, and
        hold their scale factor in accelerators of an option and nothing else, as of `of_jobs`.
    alike
        Whether types are taken to be alike, as by a policy that is blind to them: throughputs are
        those of `Instance.blind_to_types`, and what jobs are compared with has them run as fast on
        types on which they cannot run.
    """

    throughput: Floats
    member_row: Ints
    member_job: Ints
    capacity: Floats
    option_accelerator: Ints
    columns: Mapping[str, Floats]
    prices: Floats = field(repr=False)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    member_share: Floats = field(default_factory=lambda: np.ones(0))
    types: int | None = None
    resource_names: tuple[str, ...] = ()
    option_tier: Ints | None = None
    own_usage: sparse.csr_array | None = None
    alike: bool = False

    def __post_init__(self) -> None:
        if self.member_share.size != self.member_row.size:
            object.__setattr__(self, "member_share", np.ones(self.member_row.size))

    @property
    def entities(self) -> tuple[str, ...]:
        """Names of the entities, which the column ``entity`` holds the places of."""
        return self.texts.get("entity", ())

    @cached_property
    def jobs(self) -> int:
        """Number of jobs (of job classes, once identical jobs are grouped)."""
        return self.columns["count"].size

    @cached_property
    def rows(self) -> int:
        """Number of rows of the allocation matrix."""
        return self.jobs if self.own_usage is None else int(self.own_usage.shape[0])

    @cached_property
    def options(self) -> int:
        """Number of options, the columns of the allocation matrix."""
        return int(self.throughput.shape[1])

    @property
    def count(self) -> Floats:
        """Identical jobs that each job stands for, shape (jobs,)."""
        return self.columns["count"]

    @cached_property
    def usage(self) -> sparse.csr_array:
        """What a row holds under an option, shape (rows, options * resources); see `own_usage`."""
        own, kind = self.own_usage, self.option_accelerator
        return usage_of_gpus(self.gpus, kind, self.capacity.size) if own is None else own

    @cached_property
    def hard(self) -> Ints:
        """Places of the resources with a hard capacity."""
        return np.isfinite(self.capacity).nonzero()[0]

    @cached_property
    def soft(self) -> Ints:
        """Places of the resources without one."""
        return np.isinf(self.capacity).nonzero()[0]

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
        if self.own_usage is None:
            return True
        own, row, job = np.arange(self.jobs), self.member_row, self.member_job
        return self.rows == row.size == own.size and bool(((row == own) & (job == own)).all())

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
        if self.solo:
            return self.count * self.member_share
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

    @classmethod
    def of_jobs(
        cls,
        throughput: ArrayLike,
        scale_factor: ArrayLike,
        capacity: ArrayLike,
        *,
        columns: Mapping[str, Floats] | None = None,
        prices: ArrayLike | None = None,
        texts: Mapping[str, tuple[str, ...]] | None = None,
        resource_names: tuple[str, ...] = (),
    ) -> Instance:
        """Pose the common case: every row is one job, every option one accelerator type.

        Parameters
        ----------
        throughput
            Steps/s of each job on each type, shape (jobs, types); 0 = cannot run.
        scale_factor
            GPUs that each job holds while it runs, shape (jobs,).
        capacity
            GPUs of each type, shape (types,).
        columns
            More columns of the jobs table, each of shape (jobs,).
        prices
            US dollars per GPU-hour of each type, shape (types,).
        texts
            What columns of texts say, by column, if ``columns`` has the places of it.
        resource_names
            Names of the types.
        """
        return cls.of_options(
            throughput,
            None,
            capacity,
            option_accelerator=np.arange(np.size(capacity)),
            columns={"scale_factor": scale_factor, **(columns or {})},
            prices=prices,
            resource_names=resource_names,
            texts=texts,
        )

    @classmethod
    def of_options(
        cls,
        throughput: ArrayLike,
        gpus: ArrayLike | None,
        capacity: ArrayLike,
        *,
        option_accelerator: ArrayLike | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
        usage: sparse.csr_array | None = None,
        resource_capacity: ArrayLike = (),
        prices: ArrayLike | None = None,
        resource_names: tuple[str, ...] = (),
        option_tier: Ints | None = None,
        texts: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Instance:
        """Pose a problem whose rows are jobs and whose options hold GPUs of one type each.

        Quick, for callers that decide many times: nothing is checked.

        Parameters
        ----------
        throughput
            Steps/s of each job under each option, shape (jobs, options); 0 = cannot run.
        gpus
            GPUs that a job holds, (options,) or (jobs, options); ``None``: its scale factor alone.
        capacity
            GPUs of each type, shape (types,).
        option_accelerator
            Type of each option, shape (options,); the first by default.
        columns
            Columns of the jobs table, each of shape (jobs,); see `Instance`.
        usage
            What a job holds of resources beside the GPUs, shape (jobs, options * resources),
            resources fastest.
        resource_capacity
            Capacity of each of those, infinite where it has none, shape (resources,).
        prices, resource_names, option_tier, texts
            As of an `Instance`; prices are unknown by default.
        """
        speed, types = np.asarray(throughput, dtype=float), np.asarray(capacity, dtype=float)
        jobs, options = speed.shape
        accelerator = np.zeros(options, dtype=np.intp)
        if option_accelerator is not None:
            accelerator[:] = option_accelerator
        beside = np.asarray(resource_capacity, dtype=float)
        resources, held = types.size + beside.size, None
        if gpus is not None:
            each = np.broadcast_to(np.asarray(gpus, dtype=float), speed.shape)
            held = usage_of_gpus(each, accelerator, resources)
        if held is not None and usage is not None and beside.size:
            option, resource = np.divmod(usage.indices, beside.size)
            column = option * resources + types.size + resource
            held = held + sparse.csr_array((usage.data, column, usage.indptr), shape=held.shape)
        ones, own = np.ones(jobs), np.arange(jobs)
        known = {name: np.asarray(each, dtype=float) for name, each in (columns or {}).items()}
        return cls(
            throughput=speed,
            member_row=own,
            member_job=own,
            member_share=ones,
            own_usage=held,
            capacity=np.concatenate((types, beside)),
            option_accelerator=accelerator,
            columns={"weight": ones, "count": ones, "scale_factor": ones} | known,
            prices=np.full(resources, np.nan) if prices is None else np.array(prices, dtype=float),
            types=types.size,
            resource_names=resource_names,
            option_tier=option_tier,
            texts=texts or {},
        )

    def subset(self, jobs: Ints, count: Floats) -> Instance:
        """Keep some jobs, each with a new count; rows are then single jobs."""
        own, speed = np.arange(jobs.size), self.throughput if self.solo else self.solo_speeds.speed
        usage = None if self.own_usage is None else self.own_usage[self.row_alone[jobs]]
        columns = {name: values[jobs] for name, values in self.columns.items()}
        return replace(
            self,
            throughput=speed[jobs],
            member_row=own,
            member_job=own,
            member_share=np.ones(own.size),
            own_usage=usage,
            columns={**columns, "count": count},
        )

    def with_columns(self, columns: Mapping[str, Floats]) -> Instance:
        """Return the same problem with other columns."""
        return replace(self, columns=columns)

    @cached_property
    def solo_speeds(self) -> SoloSpeeds:
        """How each job runs by itself under each option, or else in combinations."""
        if self.solo:
            return SoloSpeeds(self.throughput, self.gpus)
        job, row = self.member_job, self.member_row
        single = np.bincount(row, minlength=self.rows)[row] == 1
        speed = np.zeros((self.jobs, self.options))
        np.maximum.at(speed, job[single], self.throughput[single])
        together = np.where(self.can_run[row], self.throughput, 0.0)
        taken = single | (speed.max(axis=1, initial=0.0) == 0)[job]
        np.maximum.at(speed, job[taken], together[taken])
        fastest = taken[:, None] & (together == speed[job])
        gpus = np.full(speed.shape, np.inf)
        np.minimum.at(gpus, job, np.where(fastest, self.gpus[row], np.inf))
        return SoloSpeeds(speed, np.where(np.isfinite(gpus), gpus, 0.0))

    @cached_property
    def compared_speeds(self) -> SoloSpeeds:
        """The same, as jobs are compared with it: where types count as alike, on each as on others.

        An option under which a job cannot run counts then as one of as many GPUs under which it
        can.
        """
        solo = self.solo_speeds
        if not self.alike:
            return solo
        speed = solo.speed.copy()
        for gpus in np.unique(solo.gpus):
            there = solo.gpus == gpus
            known = np.where(there, solo.speed, 0.0).max(axis=1, keepdims=True)
            np.copyto(speed, known, where=there & (solo.speed == 0))
        return solo._replace(speed=speed)

    @cached_property
    def alone(self) -> Floats:
        """Steps/s of each job by itself on each accelerator type, shape (jobs, types).

        The best of the options of a type; zero where it cannot run. A job that never runs by
        itself is taken as it runs in combinations.
        """
        return self.best_of_types(self.throughput if self.solo else self.solo_speeds.speed)

    def best_of_types(self, by_option: Floats) -> Floats:
        """Return the largest entry over the options of each type, shape (jobs, types)."""
        if self.option_accelerator.tolist() == [*range(self.accelerators)]:
            return by_option
        of_type = [self.option_accelerator == kind for kind in range(self.accelerators)]
        return np.stack([by_option[:, own].max(axis=1, initial=0.0) for own in of_type], axis=1)

    @cached_property
    def accelerators(self) -> int:
        """Number of accelerator types of the cluster, which are the first resources."""
        kind, types = self.option_accelerator, self.types
        return int(kind.max(initial=-1)) + 1 if types is None else types

    @cached_property
    def shared_gpus(self) -> Floats:
        """GPUs of each type, which jobs divide among them, shape (types,)."""
        return self.capacity[: self.accelerators]

    @cached_property
    def type_share(self) -> Floats:
        """Share of the GPUs that jobs divide which are of each type, shape (types,)."""
        return np.asarray(self.shared_gpus / self.shared_gpus.sum(), dtype=float)

    @cached_property
    def equal_share_throughput(self) -> Floats:
        """Steps/s if a job ran all the time, on each type as often as its GPUs are there, (jobs,).

        ``sum over types of GPUs of the type / all GPUs * throughput``, at the job's scale factor.
        Where an option says how many GPUs it holds, its throughput counts per GPU, times the scale
        factor; of the options of a type the best counts (Gavel's ``ProportionalPolicy``).
        """
        if self.own_usage is None and not self.alike:
            return np.asarray(self.best_of_types(self.throughput) @ self.type_share)
        solo = self.compared_speeds
        factor, held = np.ones_like(solo.gpus), self.columns["scale_factor"][:, None]
        np.divide(held, solo.gpus, out=factor, where=solo.gpus > 0)
        return np.asarray(self.best_of_types(solo.speed * factor) @ self.type_share)

    @cached_property
    def fastest_throughput(self) -> Floats:
        """Steps/s of each job on the type that suits it best, shape (jobs,)."""
        speed = self.throughput if self.solo else self.solo_speeds.speed
        return np.asarray(speed.max(axis=1, initial=0.0), dtype=float)

    @cached_property
    def gpus_held(self) -> Floats:
        """Most GPUs that each job holds where it runs; its scale factor if nowhere, (jobs,)."""
        if self.own_usage is None:
            return self.columns["scale_factor"]
        held = self.solo_speeds.held
        return np.where(held > 0, held, self.columns["scale_factor"])

    @cached_property
    def isolated_throughput(self) -> Floats:
        """Steps/s of each job in an isolated 1/n slice of the cluster, shape (jobs,).

        A job that holds the same number of GPUs wherever it runs has the shares of
        `isolated_share`. One with options of several sizes has a choice in its slice, and takes the
        best (`slice_throughput`).
        """
        solo, n = self.compared_speeds, float(self.count.sum())
        share = isolated_share(self.shared_gpus, self.gpus_held, n)
        speed = np.asarray((share * self.best_of_types(solo.speed)).sum(axis=1), dtype=float)
        if self.own_usage is not None and (elastic := solo.elastic).any():
            kind = self.option_accelerator
            each = self.shared_gpus[kind] / max(n, 1.0)
            speed[elastic] = slice_throughput(solo.speed[elastic], solo.gpus[elastic], each, kind)
        return speed

    @cached_property
    def gpus(self) -> Floats:
        """GPUs that a row holds under each option, shape (rows, options)."""
        shape = self.rows, self.options
        if self.own_usage is None:
            return self.columns["scale_factor"].repeat(self.options).reshape(shape)
        usage, held = self.usage.tocoo(), np.zeros(shape)
        row, (option, resource) = usage.coords[0], np.divmod(usage.coords[1], self.capacity.size)
        own = resource == self.option_accelerator[option]
        np.add.at(held, (row[own], option[own]), usage.data[own])
        return held

    @cached_property
    def hourly_price(self) -> Floats:
        """US dollars for an hour of a row under each option, shape (rows, options)."""
        if self.own_usage is None:
            return self.gpus * self.prices[self.option_accelerator]
        each = sparse.kron(sparse.eye_array(self.options), self.prices[:, None], format="csr")
        return np.asarray((self.usage @ each).toarray(), dtype=float)

    def blind_to_types(self) -> Instance:
        """Return what a heterogeneity-agnostic policy believes: one speed wherever a job can run.

        The speed is the job's average over the GPUs on which it runs. Options that hold different
        numbers of GPUs differ in more than their type: the average is over those of one number.
        Equal shares and isolated slices are those of a cluster of one type, so that throughput
        relative to them is time, whichever types a job cannot run on (Gavel, section 4.1).
        """
        speed, average = self.throughput, np.zeros_like(self.throughput)
        held = self.gpus[self.member_row]
        weight = (speed > 0) * self.capacity[self.option_accelerator]
        for gpus in np.unique(held):
            there = weight * (held == gpus)
            mean = (there * speed).sum(axis=1) / np.maximum(there.sum(axis=1), 1e-300)
            average += (held == gpus) * mean[:, None]
        return replace(self, throughput=(speed > 0) * average, alike=True)
