"""One allocation problem in arrays: what `solve` makes of labels and policies are posed on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.arrays import ProblemArrays
from apportion.policies.normalisers import (
    SoloSpeeds,
    average_speeds,
    best_of_types,
    equal_share_throughput,
    isolated_throughput,
    solo_speeds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["Instance"]


@dataclass(frozen=True, eq=False)
class Instance(ProblemArrays):
    """One allocation problem; its parameters are those of `ProblemArrays`."""

    @classmethod
    def of_jobs(
        cls,
        throughput: ArrayLike,
        scale_factor: ArrayLike,
        capacity: ArrayLike,
        *,
        columns: Mapping[str, Floats] | None = None,
        prices: ArrayLike | None = None,
        entities: tuple[str, ...] = (),
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
        entities
            Names of the entities, if ``columns`` has their places.
        """
        speed = np.asarray(throughput, dtype=float)
        gpus = np.asarray(scale_factor, dtype=float)
        jobs, types = speed.shape
        on_own_type = np.tile(np.arange(types, dtype=np.int32) * (types + 1), jobs)
        row_starts = np.arange(0, jobs * types + 1, types, dtype=np.int32)
        held = (np.repeat(gpus, types), on_own_type, row_starts)
        usage = sparse.csr_array(held, shape=(jobs, types * types))
        ones = np.ones(jobs)
        return cls(
            throughput=speed,
            member_row=np.arange(jobs),
            member_job=np.arange(jobs),
            usage=usage,
            capacity=np.asarray(capacity, dtype=float),
            option_accelerator=np.arange(types),
            columns={"weight": ones, "count": ones, "scale_factor": gpus} | dict(columns or {}),
            prices=np.full(types, np.nan) if prices is None else np.asarray(prices, dtype=float),
            entities=entities,
            plain_usage=usage,
        )

    @classmethod
    def of_options(
        cls,
        throughput: ArrayLike,
        gpus: ArrayLike,
        capacity: ArrayLike,
        *,
        option_accelerator: ArrayLike | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
        usage: sparse.csr_array | None = None,
        resource_capacity: ArrayLike = (),
        resource_names: tuple[str, ...] = (),
        option_tier: Ints | None = None,
    ) -> Instance:
        """Pose a problem whose rows are jobs and whose options hold GPUs of one type each.

        Quick, for callers that decide many times: nothing is checked.

        Parameters
        ----------
        throughput
            Steps/s of each job under each option, shape (jobs, options); 0 = cannot run.
        gpus
            GPUs that a job holds under an option, shape (options,) or (jobs, options).
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
        resource_names
            Names of all resources, types first.
        option_tier
            Tier of each option, if it has one, shape (options,).
        """
        speed, types = np.asarray(throughput, dtype=float), np.asarray(capacity, dtype=float)
        jobs, options = speed.shape
        accelerator = np.zeros(options, dtype=np.intp)
        if option_accelerator is not None:
            accelerator[:] = option_accelerator
        held = np.broadcast_to(np.asarray(gpus, dtype=float), speed.shape)
        beside = np.asarray(resource_capacity, dtype=float)
        resources = types.size + beside.size
        place = np.arange(options, dtype=np.int64) * resources + accelerator
        starts = np.arange(0, held.size + 1, options, dtype=np.int64)
        own = sparse.csr_array(
            (held.ravel(), np.tile(place, jobs), starts), shape=(jobs, options * resources)
        )
        if usage is not None:
            used = usage.tocoo()
            option, resource = np.divmod(used.coords[1], beside.size)
            column = option * resources + types.size + resource
            own = own + sparse.csr_array((used.data, (used.coords[0], column)), shape=own.shape)
        ones = np.ones(jobs)
        known = {name: np.asarray(each, dtype=float) for name, each in (columns or {}).items()}
        return cls(
            throughput=speed,
            member_row=np.arange(jobs),
            member_job=np.arange(jobs),
            usage=own,
            capacity=np.append(types, beside),
            option_accelerator=accelerator,
            columns={"weight": ones, "count": ones, "scale_factor": ones} | known,
            prices=np.full(resources, np.nan),
            types=types.size,
            resource_names=resource_names,
            option_tier=option_tier,
        )

    def subset(self, jobs: Ints, count: Floats) -> Instance:
        """Keep some jobs of a problem whose rows are single jobs, each with a new count."""
        own = np.arange(jobs.size)
        columns = {name: values[jobs] for name, values in self.columns.items()}
        usage = self.usage[jobs]
        return replace(
            self,
            throughput=self.throughput[jobs],
            member_row=own,
            member_job=own,
            member_share=np.ones(own.size),
            usage=usage,
            plain_usage=usage if self.holds_gpus_only else None,
            columns={**columns, "count": count},
        )

    def with_columns(self, columns: Mapping[str, Floats]) -> Instance:
        """Return the same problem with other columns."""
        return replace(self, columns=columns)

    @cached_property
    def solo_speeds(self) -> SoloSpeeds:
        """How each job runs by itself under each option, or else in combinations."""
        return solo_speeds(self)

    @cached_property
    def alone(self) -> Floats:
        """Steps/s of each job by itself on each accelerator type, shape (jobs, types).

        The best of the options of a type; zero where it cannot run. A job that never runs by
        itself is taken as it runs in combinations.
        """
        return best_of_types(self, self.solo_speeds.speed)

    @property
    def accelerators(self) -> int:
        """Number of accelerator types of the cluster, which are the first resources."""
        named = int(self.option_accelerator.max(initial=-1)) + 1
        return named if self.types is None else self.types

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
        """Steps/s of all the time, on each type as often as its GPUs are there, shape (jobs,)."""
        return equal_share_throughput(self)

    @cached_property
    def fastest_throughput(self) -> Floats:
        """Steps/s of each job on the type that suits it best, shape (jobs,)."""
        return np.asarray(self.alone.max(axis=1, initial=0.0), dtype=float)

    @cached_property
    def fastest_gpus(self) -> Floats:
        """GPUs that each job holds where it is fastest, the fewest of equals, shape (jobs,)."""
        solo = self.solo_speeds
        fastest = solo.speed == self.fastest_throughput[:, None]
        return np.asarray(np.where(fastest, solo.gpus, np.inf).min(axis=1, initial=np.inf))

    @cached_property
    def gpus_held(self) -> Floats:
        """Most GPUs that each job holds where it runs; its scale factor if nowhere, (jobs,)."""
        held = self.solo_speeds.held
        return np.where(held > 0, held, self.columns["scale_factor"])

    @cached_property
    def isolated_throughput(self) -> Floats:
        """Steps/s of each job in an isolated 1/n slice of the cluster, shape (jobs,)."""
        return isolated_throughput(self)

    @cached_property
    def gpus(self) -> Floats:
        """GPUs that a row holds under each option, shape (rows, options)."""
        if self.holds_gpus_only:
            return np.repeat(self.columns["scale_factor"][:, None], self.options, axis=1)
        resources = self.capacity.size
        columns = np.arange(self.options) * resources + self.option_accelerator
        return np.asarray(self.usage[:, columns].toarray(), dtype=float)

    @cached_property
    def hourly_price(self) -> Floats:
        """US dollars for an hour of a row under each option, shape (rows, options)."""
        each = sparse.kron(sparse.eye_array(self.options), self.prices[:, None], format="csr")
        return np.asarray((self.usage @ each).toarray(), dtype=float)

    def blind_to_types(self) -> Instance:
        """Return what a heterogeneity-agnostic policy believes: one speed wherever a job can run.

        The speed is the job's average over the GPUs on which it runs. Options that hold different
        numbers of GPUs differ in more than their type: the average is over those of one number.
        Equal shares and isolated slices are those of a cluster of one type, so that throughput
        relative to them is time, whichever types a job cannot run on (Gavel, section 4.1).
        """
        return replace(self, throughput=average_speeds(self), alike=True)
