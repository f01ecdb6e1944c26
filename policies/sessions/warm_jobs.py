"""A policy over single jobs, kept warm: each has a place in a program that stays in HiGHS."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from apportion.errors import SolveError
from apportion.policies.sessions.job_places import JobPlaces, Stated
from apportion.policies.solution import ACCURATE, Solution
from apportion.policies.solving.certificate import make_feasible, relative_gap
from apportion.policies.solving.demands import fills_further, gains_of, levels_of, reported
from apportion.policies.solving.rows import believed
from apportion.policies.solving.second_stage import evenness, relative_throughput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance

    Ints = NDArray[np.intp]

__all__ = ["WarmJobs"]

_LOG = logging.getLogger(__name__)


class WarmJobs:
    """The problem of a policy over jobs that come and go, of which anything may change.

    For policies without constraints of their own whose objective is affine in the throughputs, or
    the least of multiples of them; which it is, and its numbers, are read off its expression at
    every solve (`apportion.policies.solving.demands`). The program is::

        max over X, t of  sum of gain * throughput * X                       (affine)
                          t,  such that  throughput * X >= rate * t          (the least)
        such that  GPUs held of each type <= capacity,  time of a job <= 1,  X >= 0

    Each job has a place in it for as long as it is there. HiGHS is told of the numbers that are no
    longer what they were, and goes on from its last basis. The result is that of `solve_instance`.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._may = not (policy.space_sharing or policy.integral or fills_further(policy))
        self._places: JobPlaces | None = None

    def certified(
        self,
        jobs: Ints,
        instance: Instance,
        *,
        second_stage: bool = True,
        least_prices: bool = True,
    ) -> Solution | None:
        """Solve for the jobs at hand.

        Parameters
        ----------
        jobs
            A number for each job of the instance, by which it is known again, shape (jobs,).
        instance
            The problem.
        second_stage, least_prices
            Whether optima, and prices, are chosen as `solve_instance` chooses them, where several
            are right.

        Returns
        -------
        Solution
            ``None`` where the problem is of another kind, or the result not certified to be an
            optimum: it is to be solved anew.
        """
        if not self._may or not _plain(instance):
            return None
        told = believed(self.policy, instance)
        stated = Stated.of(self.policy, told)
        if stated is None:
            levels, gains = levels_of(self.policy, told), gains_of(self.policy, told)
            self._may = levels is not None or gains is not None
            return None
        try:
            solution = self._solve(jobs, told, stated, second_stage, least_prices)
        except SolveError as error:
            _LOG.info("%r is solved anew: %s", self.policy, error)
            return None
        return solution if solution.status == "optimal" else None

    def _solve(
        self, jobs: Ints, told: Instance, stated: Stated, second_stage: bool, least_prices: bool
    ) -> Solution:
        """Bring the numbers into HiGHS, solve, choose, and read the result."""
        policy, level, clock = self.policy, stated.demand is not None, [time.perf_counter()]
        if self._places is None or not self._places.fits(jobs.size, told, level=level):
            self._places = JobPlaces(jobs.size, told, level=level)
        places = self._places
        place = places.of(jobs)
        changed = places.hold(place, told, stated)
        clock.append(time.perf_counter())
        first = chosen = places.solver.solve()
        if first.status != "optimal":
            raise SolveError(f"the problem is {first.status}")
        clock.append(time.perf_counter())
        if second_stage and "has_one_optimum" not in policy.traits and not first.unique:
            gain, squares = relative_throughput(told), evenness(told)
            costs = places.over_columns(place, gain), places.over_columns(place, squares)
            chosen = places.stages.choose(first, *costs)
        clock.append(time.perf_counter())
        value = places.solver.highs.program.value(chosen.x)
        gap = relative_gap(value, places.stages.bound(first, 1.0))
        objective, slope = reported(policy, told, value if stated.minimised else -value)
        prices = places.stages.prices(first, places.scales, told.capacity, least=least_prices)
        X = make_feasible(places.shares(place, chosen.x), told)
        return Solution(
            X=X,
            throughput=(told.throughput * X).sum(axis=1),
            objective=objective,
            prices=slope * prices,
            gap=gap,
            status="optimal" if gap <= ACCURATE else "optimal_inaccurate",
            stats={
                "jobs": jobs.size,
                "classes": jobs.size,
                "options": told.options,
                "solver": first.solver,
                "changed": changed,
                "change_s": clock[1] - clock[0],
                "solve_s": clock[2] - clock[1],
                "second_stage_s": clock[3] - clock[2],
            },
        )


def _plain(instance: Instance) -> bool:
    """Whether rows are single jobs, few enough, that hold GPUs of hard capacities only."""
    return (
        0 < instance.jobs <= _MOST_JOBS
        and instance.holds_gpus_only
        and instance.solo
        and instance.hard.size == instance.capacity.size
    )


_MOST_JOBS = 500
"""With more, an interior point from nothing is quicker than the simplex method."""
