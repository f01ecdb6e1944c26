"""A round placed job after job, each as well as those before it leave possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.policies.base import Policy
from apportion.policies.placements.round_places import RoundPlaces
from apportion.policies.solving.driver import solve_instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem
    from apportion.types import Floats

    Ints = NDArray[np.int64]

_AT_ONCE_S = 1e-9
"""Without time to search jobs take the best of what is free."""


@dataclass(frozen=True)
class _MostValuable(Policy):
    """Serve the jobs of most value for a GPU first; values stand for throughputs.

    The problem::

        lex max over whole X of (value[j, :] X[j, :], for j by value for a GPU)
    """

    name, integral, places_gangs = "most_valuable", True, True
    source = "first fit, in order of value"

    def objective(self, p: Problem) -> cp.Maximize:
        """State the total value."""
        return cp.Maximize(p.total(cp.sum(cp.multiply(p.speed, p.X), axis=1)))

    def serves_in_order(self, p: Problem) -> NDArray[np.intp]:
        """Return the jobs in order."""
        return np.argsort(-p.speed.max(axis=1) / p.scale_factor, kind="stable")


def place_in_order(
    worth: Floats, gang: Ints, free: Sequence[Sequence[int]]
) -> tuple[NDArray[np.bool_], list[dict[tuple[int, int], int]]]:
    """Place a round without a search.

    Parameters
    ----------
    worth
        Value of each job at each tier, 0 where it may not run, shape (jobs, tiers).
    gang
        GPUs of each job, shape (jobs,).
    free
        Free GPUs of each machine, by rack.

    Returns
    -------
    at, held
        Tier of each job, shape (jobs, tiers), and its GPUs by (rack, machine).
    """
    places = RoundPlaces.of([free])
    solution = solve_instance(_MostValuable(), places.problem(worth, gang), time_limit_s=_AT_ONCE_S)
    option = np.where(solution.X.any(axis=1), solution.X.argmax(axis=1), -1)
    at = np.zeros(worth.shape, dtype=bool)
    runs = np.flatnonzero(option >= 0)
    at[runs, places.tier[option[runs]]] = True
    taken = places.devices(option, gang)
    return at, [{} if each is None else dict(each.gpus) for each in taken]
