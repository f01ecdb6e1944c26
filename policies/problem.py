"""The problem as a policy sees it: an allocation matrix, its constraints, and facts about jobs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import cvxpy as cp
import numpy as np
from scipy import sparse

from apportion.errors import InputError, unknown_name, written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.types import Floats, Ints


_ALWAYS = ("weight", "count", "scale_factor")
"""Columns that every policy may read: jobs that differ in them are in no case solved as one."""


class OwnVariable(NamedTuple):
    """A variable of a policy's own.

    Attributes
    ----------
    variable
        The variable; continuous here, `boolean` is left to who solves.
    shape, nonneg, boolean
        As asked for.
    limits
        Constraints that keep it in its range.
    """

    variable: cp.Variable
    shape: tuple[int, ...]
    nonneg: bool
    boolean: bool
    limits: list[cp.Constraint]


class Problem:
    """Variables, constraints and data that every policy shares.

    With `read_by` columns that this policy does not list are refused.

    Expressions and arrays have one entry per job (per class of identical jobs, which stands for
    ``count`` jobs): sum over jobs with `total`, take ``cp.min`` and ``cp.max`` as they are.

    Attributes
    ----------
    inexact
        Certified relative error of numbers that the policy took from problems of its own; a policy
        that does so raises it, and the gap of the result is no smaller.
    variables
        What `variable` made, by name.
    averaged
        Constraints that `on_average` was told of, by the ids that cvxpy gives them.
    """

    def __init__(self, instance: Instance, *, read_by: Policy | None = None) -> None:
        if not hasattr(instance, "member_row"):
            raise InputError(f"instance is {written(instance)}; it must be an Instance.")
        self.instance, self._read_by = instance, read_by
        self.inexact = 0.0
        self.variables: dict[str, OwnVariable] = {}
        self.averaged: set[int] = set()

    @cached_property
    def X(self) -> cp.Variable:
        """Share of time of each row under each option, shape (rows, options)."""
        return cp.Variable((self.instance.rows, self.instance.options), name="X")

    @cached_property
    def capacity(self) -> cp.Constraint:
        """What is held of each resource is no more than there is; soft ones have no such limit."""
        hard = self.instance.hard
        held = self.held if hard.size == self.instance.capacity.size else self.held[hard]
        return (held <= self.instance.capacity[hard]).set_label("capacity")

    @property
    def constraints(self) -> list[cp.Constraint]:
        """What holds for every policy: shares of time, capacities, where jobs can run."""
        return [*self._shared, *self.own_limits]

    @property
    def own_limits(self) -> list[cp.Constraint]:
        """What holds for the policy's own variables."""
        return [limit for own in self.variables.values() for limit in own.limits]

    @cached_property
    def _shared(self) -> list[cp.Constraint]:
        nonnegative = (self.X >= 0).set_label("X >= 0")
        time = (self.time <= 1).set_label("time of a job <= 1")
        cannot = np.nonzero(~self.instance.can_run.ravel())[0]
        shared: list[cp.Constraint] = [nonnegative, self.capacity, time]
        if cannot.size:
            shared.append((cp.vec(self.X, order="C")[cannot] == 0).set_label("cannot run"))
        return shared

    def variable(
        self,
        name: str,
        shape: int | tuple[int, ...] = (),
        *,
        nonneg: bool = False,
        boolean: bool = False,
    ) -> cp.Variable:
        """Return a variable of the policy's own: the same one wherever it asks for the name.

        Parameters
        ----------
        name
            How the policy calls it, in its objective and its constraints alike.
        shape
            Its shape, a number or a tuple.
        nonneg, boolean
            Whether it is at least 0; 0 or 1, which only a policy with ``integral = True`` can ask
            for.

        Raises
        ------
        InputError
            If it was asked for before and was another kind of variable.
        """
        asked = (shape if isinstance(shape, tuple) else (shape,), nonneg, boolean)
        if name not in self.variables:
            made, limits = cp.Variable(asked[0], name=name), []
            if nonneg or boolean:
                limits.append((made >= 0).set_label(f"{name} >= 0"))
            if boolean:
                limits.append((made <= 1).set_label(f"{name} <= 1"))
            self.variables[name] = OwnVariable(made, *asked, limits)
        if self.variables[name][1:4] != asked:
            raise InputError(
                f"The variable {name!r} was asked for with other dimensions or limits before; a "
                f"name stands for one variable."
            )
        return self.variables[name].variable

    def on_average(self, constraint: cp.Constraint) -> cp.Constraint:
        """Return a constraint of the policy's own, noted as one that single rounds need not keep.

        A budget, for instance, that is to be met over time. Upper bounds on what several jobs hold
        are kept in every round otherwise; see `apportion.policies.stated_resources`.
        """
        self.averaged.add(constraint.id)
        return constraint

    @cached_property
    def held(self) -> cp.Expression:
        """Units of each resource in use on average, shape (resources,), in their order.

        The accelerator types come first. ``p.held[p.resource("link 1")]`` is one by name,
        ``p.held[p.soft]`` are all without a hard capacity.
        """
        instance, resources = self.instance, self.instance.capacity.size
        usage = instance.usage.tocoo()
        row, (option, resource) = usage.coords[0], np.divmod(usage.coords[1], resources)
        cells = (resource, row * instance.options + option)
        shape = (resources, instance.rows * instance.options)
        each = sparse.csr_array((usage.data * instance.row_count[row], cells), shape=shape)
        return each @ cp.vec(self.X, order="C")

    @property
    def soft(self) -> Ints:
        """Places of the resources without a hard capacity, for `held`, shape (soft,)."""
        return self.instance.soft

    def resource(self, *names: str) -> Ints:
        """Places of resources by name, for `held`, shape (names,).

        Raises
        ------
        InputError
            If there is none of that name.
        """
        known = {name: place for place, name in enumerate(self.instance.resource_names)}
        for name in names:
            if name not in known:
                raise unknown_name("resource", name, known)
        return np.array([known[name] for name in names], dtype=np.intp)

    @property
    def current(self) -> Floats:
        """1 where a row is under the option that it has now, else 0; shape (rows, options)."""
        return self.instance.current

    @property
    def pinned(self) -> NDArray[np.bool_]:
        """Whether a row must keep the option that it has now, shape (rows,)."""
        return self.instance.pinned

    @property
    def gpus(self) -> Floats:
        """GPUs that a row holds under each option, shape (rows, options)."""
        return self.instance.gpus

    @property
    def tier(self) -> NDArray[np.intp]:
        """Tier of each option, its place in `apportion.cluster.TIERS`, shape (options,)."""
        if self.instance.option_tier is None:
            raise InputError("This policy needs options (accelerator, tier).")
        return self.instance.option_tier

    @property
    def speed(self) -> Floats:
        """Steps/s of each job by itself under each option; 0 = cannot run; (jobs, options)."""
        return self.instance.solo_speeds.speed

    @cached_property
    def throughput(self) -> cp.Expression:
        """Effective throughput of each job, steps/s."""
        instance = self.instance
        if instance.solo:
            return cp.multiply(instance.throughput, self.X).sum(axis=1)
        members, options = instance.throughput.shape
        cell = instance.member_row[:, None] * options + np.arange(options)
        job = np.broadcast_to(instance.member_job[:, None], (members, options))
        amount = (instance.throughput * instance.member_share[:, None]).ravel()
        shape = (instance.jobs, instance.rows * options)
        matrix = sparse.csr_array((amount, (job.ravel(), cell.ravel())), shape=shape)
        return matrix @ cp.vec(self.X, order="C")

    @cached_property
    def time(self) -> cp.Expression:
        """Share of time in which each job runs at all."""
        instance, by_row = self.instance, self.X.sum(axis=1)
        if instance.solo:
            return by_row
        rows_of_job = sparse.csr_array(
            (instance.member_share, (instance.member_job, instance.member_row)),
            shape=(instance.jobs, instance.rows),
        )
        return rows_of_job @ by_row

    @property
    def hourly_cost(self) -> Floats:
        """US dollars for an hour of the jobs behind each cell of X, shape (rows, options)."""
        price = self.instance.hourly_price * self.instance.row_count[:, None]
        if not np.all(price > 0):
            raise InputError(
                "A policy that weighs cost needs a price above 0 for an hour of every accelerator; "
                "give prices_per_gpu_hour for each type of the cluster."
            )
        return price

    @cached_property
    def cost_per_hour(self) -> cp.Expression:
        """US dollars per hour for everything that runs."""
        return cp.multiply(self.hourly_cost, self.X).sum()

    def total(self, expression: cp.Expression | int) -> cp.Expression:
        """Sum an expression over all jobs, the ones behind each class counted."""
        return self.count @ expression

    def column(self, name: str) -> Floats:
        """Return a column of the jobs table; the policy must list it in its ``columns``."""
        policy = self._read_by
        if policy is not None and name not in (*_ALWAYS, *policy.columns):
            columns = ", ".join(f'"{each}"' for each in (*policy.columns, name))
            raise InputError(
                f"{policy!r} reads the column {name!r} of the jobs table, which its class does not "
                f"list: write columns = ({columns}{',' * (not policy.columns)}) there, or jobs "
                f"that differ in it would be solved as one."
            )
        if name not in self.instance.columns:
            who = "This policy" if policy is None else repr(policy)
            raise InputError(f"{who} needs the column {name!r} in the jobs table.")
        return self.instance.columns[name]

    def texts(self, column: str) -> tuple[str, ...]:
        """Return what a column of texts says, each once; `column` gives the place of each job's.

        There are as many as distinct texts, not as many as jobs.

        Raises
        ------
        InputError
            If the column holds numbers, or is not there.

        Examples
        --------
        The GPUs that each user holds, as in ``held <= 8``::

            user = np.arange(len(p.texts("user")))[:, None] == p.column("user")
            held = user @ cp.multiply(p.count * p.scale_factor, p.time)

        The user of each job is ``[p.texts("user")[int(k)] for k in p.column("user")]``.
        """
        self.column(column)
        if column not in self.instance.texts:
            raise InputError(f"The column {column!r} of the jobs table holds numbers, not texts.")
        return self.instance.texts[column]

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Names of the accelerator types, in the order of the capacities.

        `accelerator` has the place of each option's, so that
        ``[p.accelerators[k] for k in p.accelerator]`` names the columns of `X`.
        """
        return self.instance.resource_names[: self.instance.accelerators]

    @property
    def accelerator(self) -> Ints:
        """Place of each option's accelerator type, shape (options,)."""
        return self.instance.option_accelerator

    @property
    def count(self) -> Floats:
        """Identical jobs behind each entry."""
        return self.instance.count

    @property
    def weight(self) -> Floats:
        """Priority weight of each job."""
        return self.column("weight")

    @property
    def scale_factor(self) -> Floats:
        """GPUs that each job holds while it runs."""
        return self.column("scale_factor")

    @property
    def steps_remaining(self) -> Floats:
        """Training steps that each job has still to do."""
        return self.column("steps_remaining")

    @property
    def elapsed_s(self) -> Floats:
        """Seconds since each job arrived."""
        return self.column("elapsed_s")

    @property
    def now_s(self) -> float:
        """The time, seconds; 0 under `solve` unless its jobs table tells (column ``now_s``)."""
        return float(self.column("now_s").max(initial=0.0))

    @property
    def equal_share_throughput(self) -> Floats:
        """Steps/s of each job if it ran all the time, on every type in proportion to its GPUs."""
        return self.instance.equal_share_throughput

    @property
    def isolated_throughput(self) -> Floats:
        """Steps/s of each job in an isolated 1/n slice of the cluster."""
        return self.instance.isolated_throughput

    @property
    def fastest_throughput(self) -> Floats:
        """Steps/s of each job on the type that suits it best."""
        return self.instance.fastest_throughput
