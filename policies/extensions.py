"""What a policy may offer beside objective and constraints; most have no need of it.

Each is a protocol: a policy that has the methods is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cvxpy as cp
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from apportion.allocation import Allocation
    from apportion.policies.base import Policy
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
