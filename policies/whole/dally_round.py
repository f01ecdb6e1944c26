"""One round of Dally as a program: jobs in order of priority, each at the best tier left to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies.base import Policy
from apportion.policies.placements.preferences import satisfaction
from apportion.ties import ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

__all__ = ["DallyRound"]


@dataclass(frozen=True)
class DallyRound(Policy):
    """Serve waiting jobs in the order of their network priority, each as well as can be.

    The problem, s being how many of its eligible (type, tier) a job likes no better than this one::

        lex max over whole X of (sum over options of s[j, :] X[j, :], for j in order of priority)

    The order is that of Dally: the jobs that lost most time to the network first, of equals who
    waits longest, then who came first. A job prefers the machine to the rack to the network; where
    there are several accelerator types, the faster option. Options that its delay timers do not
    allow yet have a speed of 0 (`apportion.eligible`). Algorithm 1 of Dally takes the first job's
    best fit, then the second's, and never looks back; so it is this decision, but where a best fit
    stands in the way of a job that comes later.
    """

    name = "dally_round"
    source = "Dally (arXiv 2401.16492, 2024), Algorithm 1"
    integral = True
    places_gangs = True
    columns = ("network_priority", "waited_s", "order")
    traits = frozenset({"tells_identical_jobs_apart"})

    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def objective(self, p: Problem) -> cp.Maximize:
        """State how well jobs are served; `serves_in_order` makes the earlier ones count first."""
        return cp.Maximize(p.total(cp.sum(cp.multiply(satisfaction(p), p.X), axis=1)))

    def serves_in_order(self, p: Problem) -> NDArray[np.intp]:
        """Return the jobs in the order in which they are served."""
        keys = (p.column("network_priority"), -p.column("waited_s"))
        urgency, wait = (ranks(key, absolute=1e-9) for key in keys)
        return np.lexsort((p.column("order"), wait, urgency))
