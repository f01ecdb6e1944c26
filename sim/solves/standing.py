"""The classes of all jobs of a simulation, with a policy's problem over them that is kept warm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.policies.sessions.warm_classes import WarmClasses
from apportion.policies.solving.rows import group_rows
from apportion.resumable import array_of, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.job_table import JobTable
    from apportion.policies import Policy
    from apportion.sim.resolve import Pose

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["StandingClasses"]

_WORTH_IT = 16
"""Jobs from which on it pays to compile for all classes, which takes as long as some six solves."""


@dataclass(frozen=True, eq=False)
class StandingClasses:
    """Classes of identical jobs, present or not, and the policy's problem over their counts.

    Attributes
    ----------
    class_of
        Class of each job of the workload, shape (jobs,).
    """

    class_of: Ints
    _warm: WarmClasses
    _asked: list[Floats] = field(default_factory=list)

    @classmethod
    def of(cls, policy: Policy, jobs: JobTable, pose: Pose) -> StandingClasses | None:
        """Group all jobs of a workload; ``None`` where a policy must be solved anew each time.

        `pose` makes the problem of some jobs, see `apportion.sim.resolve.Resolver`.
        """
        if jobs.jobs < _WORTH_IT:
            return None
        keys = np.column_stack([jobs.speed, jobs.scale, jobs.weight])
        first, class_of = group_rows(keys)
        warm = WarmClasses.of(policy, pose(first, {"weight": jobs.weight[first]}))
        return None if warm is None else cls(class_of, warm)

    def shares(self, active: Ints) -> Floats | None:
        """Return the shares of active jobs, shape (active jobs, types).

        ``None`` where the warm problem leads to nothing that is certified: it is to be solved anew.
        """
        own = self.class_of[active]
        count = np.bincount(own, minlength=self._warm.classes.jobs).astype(float)
        self._asked.append(count)
        solution = self._warm.certified(count, least_prices=False)
        return None if solution is None else np.asarray(solution.X[own], dtype=float)

    def state(self) -> dict[str, Any]:
        """Return all counts that were solved for, for JSON."""
        asked = np.array(self._asked, dtype=np.int32).reshape(len(self._asked), -1)
        return {"asked": plain(asked)}

    def restore(self, state: dict[str, Any]) -> None:
        """Solve for all of them again: the last digits of a warm solve hang on those before it."""
        for count in array_of(state["asked"]).astype(float):
            self._asked.append(count)
            self._warm.certified(count, least_prices=False)
