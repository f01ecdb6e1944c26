"""The base of every policy: state the objective, and leave the rest to `solve`.

What a policy may offer beside them is a protocol each: a policy that has the methods is asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

from apportion.annotations import check_fields
from apportion.errors import InputError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from dataclasses import Field

    import cvxpy as cp
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from apportion.allocation import Allocation
    from apportion.policies.core.forms import Form
    from apportion.policies.instance import Instance
    from apportion.policies.problem import Problem
    from apportion.types import Floats


@runtime_checkable
class ChangesAtTimes(Protocol):
    """A policy whose problem becomes another one at times, as where a cap is one of the hour.

    It reads the time as `Problem.now_s`, and lists the column ``now_s``. Simulations solve it at
    those times, and decide nothing that would last beyond one without regard to what it states
    from then on.
    """

    def next_change_s(self, now_s: float) -> float:
        """Return the next of the times, later than now; infinite for none. Seconds."""
        ...


@runtime_checkable
class ChecksJobs(Protocol):
    """A policy that cannot serve all jobs."""

    def check_jobs(self, jobs: pd.DataFrame) -> None:
        """Refuse jobs that the policy cannot serve, by name; called by `solve` only."""
        ...


@runtime_checkable
class DrawsPairs(Protocol):
    """A policy that says which jobs may share GPUs; the others let all, where it is faster."""

    def pairs_to_consider(self, instance: Instance) -> NDArray[np.intp]:
        """Name the pairs of jobs that may share GPUs, shape (pairs, 2), under every option."""
        ...


@runtime_checkable
class HasEarlierObjectives(Protocol):
    """A policy of shares whose objective is the last of several (lexicographic objectives)."""

    def earlier_objectives(self, p: Problem) -> Sequence[cp.Maximize | cp.Minimize]:
        """State what counts before the objective, the most important first.

        ``X`` is among the optima of the first, among those it is an optimum of the second, and so
        on. Where the objective is a ratio the earlier ones must be affine in `X` and in variables
        of `p.variable`.
        """
        ...


@runtime_checkable
class HasOrder(Protocol):
    """A policy that serves jobs in an order, which others may read of it."""

    def order(self, p: Problem) -> NDArray[np.float64]:
        """Return a number for each job, shape (jobs,): the smaller, the earlier it is served."""
        ...


class Rates(Protocol):
    """How fast each job's level rises, given which jobs still can."""

    def __call__(self, active: NDArray[np.bool_], /) -> Floats:
        """Return a rate >= 0 for each job, 0 for those that are not active, not all of them 0."""
        ...


@runtime_checkable
class PassesRatesOn(Protocol):
    """A policy that is water filling, at rates which a job that can rise no further passes on."""

    def utility(self, p: Problem) -> cp.Expression:
        """State what rises, an affine expression of shape (jobs,)."""
        ...

    def rates(self, p: Problem) -> Rates:
        """Return how fast the utilities rise."""
        ...


class SimulatedOtherwise(Protocol):
    """A policy that simulations do not ask as they ask others; what is left out is as for those."""

    works_by: ClassVar[tuple[str, ...]]
    """Mechanisms that ask it, the usual one first."""
    works_how: ClassVar[str]
    """Why by these, as messages say it behind its name."""
    places_gangs: ClassVar[bool]
    """Whether its options are the machines, racks and types of what is free in one instant; then it
    is asked whenever GPUs are offered under leases; see `apportion.policies.placements`."""
    whole_nodes: ClassVar[bool]
    """Whether its gangs of elastic jobs fill machines, unless the mechanism says otherwise."""
    base_workers_first: ClassVar[bool]
    """Whether it divides what the base workers of elastic jobs leave, which are served before."""


@runtime_checkable
class PosedByItself(Protocol):
    """What stands in `solve` in place of throughputs, and knows what a policy makes of it."""

    def solved_by(self, policy: Policy, **how: Any) -> Allocation:
        """Return what a policy decides; `how` are options of `apportion.policies.solve_instance`.

        Raises
        ------
        InputError
            If the policy is for others.
        """
        ...


@runtime_checkable
class ServesInOrder(Protocol):
    """A policy of whole decisions that serves one job after the other.

    Its objective is a sum of a value for each job and option. What the first job gets is as good as
    can be, what the second gets is as good as the first one's leaves possible, and so on.
    """

    def serves_in_order(self, p: Problem) -> NDArray[np.intp]:
        """Return all jobs, the one that is served first in front, shape (jobs,)."""
        ...


Trait = Literal[
    "depends_on_step_size",
    "has_one_optimum",
    "leaves_gpus_idle",
    "meets_deadlines",
    "runs_jobs_alone",
    "tells_identical_jobs_apart",
]
"""What may be true of a policy beside its problem; `check_policy` verifies what is declared.

depends_on_step_size
    The shares change when one job's steps (and steps/s) are counted otherwise.
has_one_optimum
    No two allocations are optimal, so that no second stage has to choose.
leaves_gpus_idle
    GPUs that the allocation leaves idle are not lent to any job for a round.
meets_deadlines
    Its shares are of the time that each job has until its deadline, and no sooner done is better.
    In rounds a job then has its types one after the other, the slow ones first, and deadlines are
    told short of what may be lost until the next solve.
runs_jobs_alone
    It gives time to jobs by themselves only, so that each must run by itself.
tells_identical_jobs_apart
    Jobs that agree in everything the policy reads must not be solved as one.
"""


_BY_THE_CLOCK = frozenset({"elapsed_s", "waited_s", "entity_used_s", "now_s"})
"""Columns of the jobs table that are other ones a second later, whatever happens."""


class Policy(ABC):
    """What share of time each job should get, as a convex problem over an allocation matrix.

    A subclass is a frozen dataclass that states `objective` over the expressions of a `Problem`,
    and `constraints` if it has any of its own; its docstring displays the problem, after ``::``.
    Capacities, time limits, labels, the grouping of identical jobs, solving, the choice among equal
    optima and the certificate belong to `solve`.

    Every policy that has a field ``heterogeneity_aware`` can be made agnostic: it then believes
    that a job runs at its average speed on every type. With ``space_sharing=True`` pairs of jobs
    that run faster together than by taking turns may share devices. With ``lexicographic=True``
    (a field of policies about the worst off job) also the second worst off job is as well off as
    can be, and so on. With ``integral = True`` each job has one option at most, all of the time:
    ``count * X`` is whole, so that a class of identical jobs divides among options job by job. The
    objective must be linear, or become so with `cp.pos`, `cp.abs`, `cp.max` and the like. What few
    policies need beyond this is in `apportion.policies.base`.
    """

    name: ClassVar[str]
    """Name in the registry; that of the class if none is given."""
    source: ClassVar[str] = ""
    """Paper and section."""
    unit: ClassVar[str] = ""
    """Unit of the objective."""
    columns: ClassVar[tuple[str, ...]] = ()
    """Columns of the jobs table that the objective or the constraints read.

    Jobs must agree in them to be solved as one. A policy that lists ``elapsed_s``,
    ``waited_s`` or ``now_s`` depends on time, and simulations solve it periodically; if ``now_s``
    is the only one and it says when its problem changes
    (`apportion.policies.base.ChangesAtTimes`), then.
    """
    traits: ClassVar[frozenset[Trait]] = frozenset()
    """What is true of the policy beside its problem."""
    integral: bool = False
    """Whether decisions are whole: each job has one option, or none, instead of shares of time."""

    _built_in: ClassVar[bool]
    """Whether it comes with the package, whose tests look at what it states."""
    _bounds_resources: ClassVar[bool] = False
    """Of a policy of the package: whether its constraints bound what several jobs hold at once.

    Those of one's own are always looked at for that.
    """

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def __init_subclass__(cls) -> None:
        cls._built_in = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
        if isinstance(cls.columns, str):
            raise InputError(
                f"columns of policy {cls.__name__} is the text {cls.columns!r}; it must be a tuple "
                f'of names: columns = ("{cls.columns}",).'
            )
        for trait in cls.traits:
            if trait not in get_args(Trait):
                raise unknown_name(f"trait of policy {cls.__name__}", trait, get_args(Trait))
        if not hasattr(cls, "name"):
            cls.name = cls.__name__
        if "__repr__" not in vars(cls):  # or the one of dataclasses would show every default
            cls.__repr__ = Policy.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        """Refuse options that are not of their kind; called by dataclasses."""
        if is_dataclass(self):
            check_fields(self)

    def __repr__(self) -> str:
        own: tuple[Field[Any], ...] = fields(self) if is_dataclass(self) else ()
        changed = []
        for field in own:
            # Of a class pickled by value, as a notebook's, what says "none" is not MISSING.
            factory, value = field.default_factory, getattr(self, field.name)
            if value != (factory() if callable(factory) else field.default):
                changed.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"

    @abstractmethod
    def objective(self, p: Problem) -> cp.Maximize | cp.Minimize:
        """State what is maximised or minimised; it may be one affine expression over another."""

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """State what must hold beside capacity and time."""
        return ()

    def form(self, p: Problem) -> Form | None:
        """Return the objective in numbers, which is quicker than to read its expression.

        `objective` stays the definition, and `check_policy` compares the two. For ``None`` the
        expression is read, as for a subclass that states another objective.
        """
        return None

    @property
    def label(self) -> str:
        """Name in the registry, with what differs from the plain policy."""
        agnostic = "" if self.heterogeneity_aware else "_agnostic"
        always = type(self).space_sharing
        return f"{self.name}{agnostic}{'_space_sharing' * (self.space_sharing and not always)}"


def depends_on_time(policy: Policy) -> bool:
    """Whether a problem changes while no job comes or goes, and nobody says when.

    It reads a column off a clock.
    """
    told = {"now_s"} if isinstance(policy, ChangesAtTimes) else set[str]()
    return not (_BY_THE_CLOCK - told).isdisjoint(policy.columns)


def form_of(policy: Policy, p: Problem) -> Form | None:
    """Return the objective of a policy in numbers, ``None`` where its expression has to be read.

    A form is of the objective of its class or of a class above. One that a subclass states anew has
    a form only if the subclass says it.
    """
    own = (each for each in type(policy).__mro__ if {"form", "objective"} & vars(each).keys())
    return policy.form(p) if "form" in vars(next(own)) else None
