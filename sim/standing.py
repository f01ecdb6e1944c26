"""The classes of all jobs of a simulation, with a policy's problem over them that is kept warm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies import Instance
from apportion.policies.sessions.warm_classes import WarmClasses
from apportion.policies.solving.rows.classes import group_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.job_table import JobTable
    from apportion.policies import Policy

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

    @classmethod
    def of(cls, policy: Policy, jobs: JobTable) -> StandingClasses | None:
        """Group all jobs of a workload; ``None`` where a policy must be solved anew each time."""
        if jobs.jobs < _WORTH_IT:
            return None
        keys = np.column_stack([jobs.speed, jobs.scale, jobs.weight])
        first, class_of = group_rows(keys)
        classes = Instance.of_jobs(
            jobs.speed[first],
            jobs.scale[first],
            jobs.capacity,
            columns={"weight": jobs.weight[first]},
            prices=jobs.prices,
        )
        warm = WarmClasses.of(policy, classes)
        return None if warm is None else cls(class_of, warm)

    def shares(self, active: Ints) -> Floats:
        """Return the shares of active jobs, shape (active jobs, types).

        Raises
        ------
        SolveError
            If no solver found an optimum.
        """
        own = self.class_of[active]
        count = np.bincount(own, minlength=self._warm.classes.jobs).astype(float)
        return np.asarray(self._warm.solve(count).X[own], dtype=float)
