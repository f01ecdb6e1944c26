"""The base of every policy: state the objective, and leave the rest to `solve`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from apportion.kinds import check_fields

if TYPE_CHECKING:
    from collections.abc import Sequence
    from dataclasses import Field

    import cvxpy as cp
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from apportion.policies.instance import Instance
    from apportion.policies.problem import Problem

__all__ = ["Policy"]


class Policy(ABC):
    """What share of time each job should get, as a convex problem over an allocation matrix.

    A subclass is a frozen dataclass that states `objective` over the expressions of a `Problem`,
    and `constraints` if it has any of its own. Capacities, time limits, labels, the grouping of
    identical jobs, solving, the choice among equal optima and the certificate belong to `solve`.

    Every policy that has a field ``heterogeneity_aware`` can be made agnostic: it then believes
    that a job runs at its average speed on every type. With ``space_sharing=True`` pairs of jobs
    that run faster together than by taking turns may share devices.
    """

    name: ClassVar[str]
    """Name in the registry."""
    problem: ClassVar[str]
    """The problem in one line."""
    source: ClassVar[str]
    """Paper and section."""
    unit: ClassVar[str] = ""
    """Unit of the objective."""
    columns: ClassVar[tuple[str, ...]] = ()
    """Columns of the jobs table that the objective or the constraints read."""
    logarithmic: ClassVar[bool] = False
    """Whether the objective is a sum of logarithms, whose difference is relative already."""
    fractional: ClassVar[bool] = False
    """Whether the objective is a ratio, posed over `Problem.scale`."""
    leaves_ties: ClassVar[bool] = True
    """Whether several allocations can be optimal, so that a second stage has to choose."""
    work_conserving: ClassVar[bool] = True
    """Whether GPUs that the allocation leaves idle may be lent to any job for a round."""
    scale_invariant: ClassVar[bool] = True
    """Whether the shares stay the same when one job's steps (and steps/s) are counted otherwise."""
    runs_jobs_alone: ClassVar[bool] = False
    """Whether it gives time to jobs by themselves only, so that each must run by itself."""
    groups_identical_jobs: ClassVar[bool] = True
    """Whether jobs that agree in everything the policy reads may be solved as one."""

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def __init_subclass__(cls) -> None:
        if "__repr__" not in vars(cls):  # or the one of dataclasses would show every default
            cls.__repr__ = Policy.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        """Refuse options that are not of their kind; called by dataclasses."""
        if is_dataclass(self):
            check_fields(self)

    def __repr__(self) -> str:
        own: tuple[Field[Any], ...] = fields(self) if is_dataclass(self) else ()
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in own
            if getattr(self, field.name) != _default(field)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    @property
    def columns_of_class(self) -> tuple[str, ...]:
        """Columns in which jobs must agree to be solved as one."""
        return self.columns

    @abstractmethod
    def objective(self, p: Problem) -> cp.Maximize | cp.Minimize:
        """State what is maximised or minimised."""

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """State what must hold beside capacity and time."""
        return ()

    def demand(self, p: Problem, level: float) -> NDArray[np.float64] | None:
        """Return the steps/s that each job must make for the objective to be no worse than `level`.

        For policies that are about the worst off job; ``None`` for all others. The demands shrink
        as the level gets worse, to nothing, and t times the demands improve it at most t-fold.
        Such policies are solved level by level (`apportion.policies.solving.worst_off.levels`),
        where jobs that differ in their demands only become few rows.
        """
        return None

    def floors(self, instance: Instance) -> NDArray[np.float64] | None:
        """Return the steps/s that each job must make whatever the objective, shape (jobs,).

        For policies whose objective is linear in X, its coefficients the same for all jobs of equal
        throughputs and usage; ``None`` for all others. See `with_floors`.
        """
        return None

    def with_floors(self, instance: Instance, floors: NDArray[np.float64]) -> Instance:
        """Return an instance with columns that make the jobs' floors the given ones."""
        return instance

    def keeping(self, p: Problem, value: float) -> Sequence[cp.Constraint] | None:
        """State linear constraints under which the objective is no worse than `value`.

        Only asked of policies whose problem is not a linear program; with them the choice among
        their optima is one. The variables hold the values of an optimum. ``None`` where the
        objective cannot be put like that.
        """
        return None

    def believed(self, instance: Instance) -> Instance:
        """Return an instance at the speeds that the policy believes in."""
        return instance if self.heterogeneity_aware else instance.blind_to_types()

    def pairs_to_consider(self, instance: Instance) -> NDArray[np.intp] | None:
        """Name the pairs of jobs that may share GPUs, shape (pairs, 2).

        Those stand under every option. ``None`` for all, each where it is faster than taking turns.
        """
        return None

    def check_jobs(self, jobs: pd.DataFrame) -> None:  # noqa: B027
        """Refuse jobs that the policy cannot serve, by name; called by `solve` only."""

    def final_levels(self, p: Problem) -> Sequence[cp.Constraint] | None:
        """State linear constraints that the final allocation must meet beyond the optimum.

        For policies with more than one objective, such as lexicographic fairness; they may solve
        problems of their own to find them, and give ``p.X`` the value of an allocation that meets
        them: it is returned where no solver finds a better one that does. No optimum of the
        first objective alone is. ``None`` if the optimum is all that counts.

        Equalities of what each job has, one a job, settle that: there is nothing left to spend, and
        the most even allocation that meets them is chosen.
        """
        return None

    def reported(self, value: float) -> tuple[float, float]:
        """Turn the optimal value into the reported one, and give the size of the slope there.

        For policies that are posed over one quantity and read in another, as the makespan is
        posed over its inverse.
        """
        return value, 1.0

    @property
    def label(self) -> str:
        """Name in the registry, with what differs from the plain policy."""
        agnostic = "" if self.heterogeneity_aware else "_agnostic"
        always = type(self).space_sharing
        return f"{self.name}{agnostic}{'_space_sharing' * (self.space_sharing and not always)}"


def _default(field: Field[Any]) -> object:
    """Value that a field has unless another is given."""
    return field.default if field.default_factory is MISSING else field.default_factory()
