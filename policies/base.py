"""The base of every policy: state the objective, and leave the rest to `solve`.

What few policies offer beside them are methods that `Policy` names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from apportion.annotations import check_fields
from apportion.errors import InputError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from dataclasses import Field

    import cvxpy as cp

    from apportion.policies.core.forms import Form
    from apportion.policies.problem import Problem


Trait = Literal[
    "depends_on_step_size",
    "leaves_gpus_idle",
    "meets_deadlines",
    "runs_jobs_alone",
    "tells_identical_jobs_apart",
]
"""What may be true of a policy beside its problem; `check_policy` verifies what is declared.

depends_on_step_size
    The shares change when one job's steps (and steps/s) are counted otherwise.
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
    objective must be linear, or become so with `cp.pos`, `cp.abs`, `cp.max` and the like.

    Few policies need more. A policy that has one of these methods is asked:

    ``form(p)``
        The objective in numbers, which is quicker than to read its expression.
    ``earlier_objectives(p)``
        A list of objectives that count before `objective`, the most important first: X is among
        the optima of the first, among those it is an optimum of the second, and so on. Where the
        objective is a ratio they must be affine in `X` and in variables of `p.variable`.
    ``check_jobs(jobs)``
        Refuses jobs that the policy cannot serve, by name.
    ``order(p)``
        A number for each job, shape (jobs,): the smaller, the earlier it is served.
    ``serves_in_order(p)``
        Of whole decisions: all jobs, the one that is served first in front, shape (jobs,). The
        objective is a sum of a value for each job and option. What the first job gets is as good
        as can be, what the second gets is as good as the first one's leaves possible, and so on.
    ``utility(p)``, ``rates(p)``
        What rises in water filling, and how fast: `rates` returns a function of which jobs can
        still rise, shape (jobs,), that returns rates >= 0, 0 for the others.
    ``pairs_to_consider(instance)``
        Pairs of jobs that may share GPUs, shape (pairs, 2). Without it all do that run faster so.
    ``next_change_s(now_s)``
        The next time at which the problem is another one though no job comes or goes, as where a
        cap is one of the hour: later than now, infinite for none, seconds. The policy reads the
        time as `Problem.now_s` and lists the column ``now_s``. Simulations solve it at those times.

    Simulations also look at these attributes:

    ``works_by``, ``works_how``
        Mechanisms that ask the policy, the usual one first, and why by these, for messages.
    ``places_gangs``
        Whether its options are machines, racks and types that are free in one instant: it is then
        asked whenever GPUs are offered under leases.
    ``whole_nodes``, ``base_workers_first``
        Of elastic jobs: whether gangs fill machines, and whether the policy divides what the base
        workers of jobs leave.
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
    is the only one and it says when its problem changes (``next_change_s``), then.
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
    announced = {"now_s"} if hasattr(policy, "next_change_s") else set[str]()
    return not (_BY_THE_CLOCK - announced).isdisjoint(policy.columns)


def form_of(policy: Policy, p: Problem) -> Form | None:
    """Return the objective of a policy in numbers, ``None`` where its expression has to be read.

    A form is of the objective of its class or of a class above. One that a subclass states anew has
    a form only if the subclass says it.
    """
    own = (each for each in type(policy).__mro__ if {"form", "objective"} & vars(each).keys())
    return policy.form(p) if "form" in vars(next(own)) else None


def earlier_objectives(policy: Policy, p: Problem) -> Sequence[cp.Maximize | cp.Minimize]:
    """Return the objectives of a policy that count before its own; most have none."""
    return policy.earlier_objectives(p) if hasattr(policy, "earlier_objectives") else ()
