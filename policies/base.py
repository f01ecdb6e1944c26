"""The base of every policy: state the objective, and leave the rest to `solve`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cvxpy as cp
    import numpy as np
    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

__all__ = ["Policy"]


class Policy(ABC):
    """What share of time each job should get, as a convex problem over an allocation matrix.

    A subclass is a frozen dataclass that states `objective` over the expressions of a `Problem`,
    and `constraints` if it has any of its own. Capacities, time limits, labels, the grouping of
    identical jobs, solving, the choice among equal optima and the certificate belong to `solve`.

    Every policy that has a field ``heterogeneity_aware`` can be made agnostic: it then believes
    that a job runs at its average speed on every type.
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
    fractional: ClassVar[bool] = False
    """Whether the objective is a ratio, posed over `Problem.scale`."""
    leaves_ties: ClassVar[bool] = True
    """Whether several allocations can be optimal, so that a second stage has to choose."""
    work_conserving: ClassVar[bool] = True
    """Whether GPUs that the allocation leaves idle may be lent to any job for a round."""
    scale_invariant: ClassVar[bool] = True
    """Whether the shares stay the same when one job's steps (and steps/s) are counted otherwise."""
    groups_identical_jobs: ClassVar[bool] = True
    """Whether jobs that agree in everything the policy reads may be solved as one."""

    heterogeneity_aware: bool = True

    @abstractmethod
    def objective(self, p: Problem) -> cp.Maximize | cp.Minimize:
        """State what is maximised or minimised."""

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """State what must hold beside capacity and time."""
        return ()

    def throughput_floors(self, p: Problem, value: float) -> NDArray[np.float64] | None:
        """Return the throughput of each job below which the objective would be worse than `value`.

        Only asked of policies whose problem is not a linear program; with floors, the choice among
        their optima is one. ``None`` where the objective cannot be put like that.
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
        """Name in the registry, with ``_agnostic`` where it holds."""
        return self.name if self.heterogeneity_aware else f"{self.name}_agnostic"
