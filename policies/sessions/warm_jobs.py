"""A policy over single jobs, kept warm: each has a place in a program that stays in HiGHS.

Under an affine objective jobs are served in an order, or at prices, and mostly need no program.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.errors import SolveError
from apportion.policies.sessions.at_best import RoomForAll, all_at_their_best, best_with_room
from apportion.policies.sessions.demanded import LastDemands, met_by_jobs
from apportion.policies.sessions.job_places import JobPlaces, Stated
from apportion.policies.sessions.served import LastWalk, is_plain, served
from apportion.policies.sessions.warm_share import WarmShare
from apportion.policies.solution import ACCURATE, Attempted, Solution
from apportion.policies.solving.certificate import make_feasible, relative_gap
from apportion.policies.solving.demand_intervals import ROWS_TO_MERGE
from apportion.policies.solving.demands import fills_further, read_off, reported
from apportion.policies.solving.driver import TIME_LIMIT_S
from apportion.policies.solving.ratio import at_best_bargains, best_of
from apportion.policies.solving.rows import believed
from apportion.policies.solving.second_stage import evenness, relative_throughput
from apportion.policies.solving.whole.decide import at_prices
from apportion.policies.solving.worst_off.levels import by_levels

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.cone import Point
    from apportion.policies.solving.demands import ReadOff
    from apportion.policies.solving.ratio import Bargains
    from apportion.types import Floats, Ints


_LOG = logging.getLogger(__name__)


class _Chosen(NamedTuple):
    """Where jobs are in the program, its optimum, the one of all optima that is chosen, stats."""

    places: JobPlaces
    place: Ints
    first: Point
    chosen: Point
    stats: dict[str, Any]

    def shares(self, told: Instance) -> Floats:
        """Return feasible shares, shape (jobs, options)."""
        return make_feasible(self.places.shares(self.place, self.chosen.x), told)


class WarmJobs:
    """The problem of a policy over jobs that come and go, of which anything may change.

    For policies without constraints of their own whose objective is affine in the throughputs,
    about the worst off job, or a ratio of sums; which it is, and its numbers, are read off its
    expression at every solve (`apportion.policies.solving.demands`). The program is::

        max over X, t of  sum of gain * throughput * X                       (affine)
                          t,  such that  throughput * X >= rate * t          (the worst off)
        such that  GPUs held of each type <= capacity,  time of a job <= 1,  X >= 0

    Where demands are no multiple of the level it is solved at several (`by_levels`), and t is the
    share of them that can be met. Each job has a place in the program for as long as it is there.
    HiGHS is told of the numbers that are no longer what they were, and goes on from its last basis.
    An affine objective serves jobs in an order on one type of GPU, and at the prices of several,
    without a program where its optimum is the only one (`served`). Under a ratio jobs run under the
    best bargains only, and most is spent on these. The result is that of `solve_instance`.

    Attributes
    ----------
    places
        The program, once there is one.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._may = not (policy.space_sharing or policy.integral)
        self.places: JobPlaces | None = None
        self._room: RoomForAll | None = None
        self._last, self._demands = LastWalk(), LastDemands()

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
            Whether optima, and prices, are those that `solve_instance` chooses of several.

        Returns
        -------
        Solution
            ``None`` where it is to be solved anew: of another kind, or no certified optimum.
        """
        if self.policy.integral:
            deadline = time.perf_counter() + TIME_LIMIT_S
            return at_prices(self.policy, instance, deadline=deadline)
        if not self._may or not is_plain(instance):
            return None
        told = believed(self.policy, instance)
        if fills_further(self.policy):
            return None
        try:
            read = read_off(self.policy, told)
        except ValueError:  # the policy's own text: solved anew, it is told where it is wrong
            return None
        levels, bargains = read.levels, read.bargains
        known = not (levels is None or levels.constrained) or (read.gains or bargains) is not None
        self._may = known and read.exact
        if not self._may:
            return None
        alone = self._alone(jobs, told, read, least_prices)
        try:
            if alone is not None:
                solution = _solution(told, alone)
            elif bargains is not None:
                solution = self._of_bargains(jobs, told, bargains)
            elif levels is None or levels.proportional:
                solution = self._solve(jobs, told, second_stage, least_prices)
            else:
                solution = self._by_levels(jobs, told, second_stage, least_prices)
        except SolveError as error:
            _LOG.info("%r is solved anew: %s", self.policy, error)
            return None
        return solution if solution.status == "optimal" else None

    def _alone(
        self, jobs: Ints, told: Instance, read: ReadOff, least_prices: bool
    ) -> Attempted | None:
        """Solve without a program; ``None`` where one is needed."""
        if read.bargains is not None:
            return at_best_bargains(told, read.bargains)
        if (found := all_at_their_best(self.policy, told)) is not None:
            self._last.freed()
            self._demands.freed()
            return found
        if read.gains is not None:
            return served(told, read.gains, jobs, self._last, least=least_prices)
        if read.levels is None or told.jobs >= ROWS_TO_MERGE:
            return None
        return met_by_jobs(told, read.levels, self._demands, least=least_prices)

    def with_room_for_all(self, instance: Instance) -> Solution | None:
        """Solve a problem of whatever limits if each job can run all the time where it is fastest.

        `None` if not all can, or that is not known to be the optimum; see `all_at_their_best`.
        """
        if self.policy.space_sharing or self.policy.integral:
            return None
        told = believed(self.policy, instance)
        try:
            if self._room is None or not self._room.is_of(told):
                self._room = RoomForAll(told, best_with_room(told))
            best = self._room.best
            found = None if best is None else best._replace(told=told).optimum(self.policy)
        except ValueError:  # as for `certified`
            return None
        return None if found is None else _solution(told, found)

    def _placed(self, jobs: Ints, told: Instance, *, level: bool) -> tuple[JobPlaces, Ints]:
        """Return the program, a new one if jobs do not fit into it, and their places.

        Raises
        ------
        SolveError
            If there are too many.
        """
        if jobs.size > _MOST_JOBS:
            raise SolveError(f"a program of {jobs.size:,} jobs is no quicker warm")
        if self.places is None or not self.places.fits(jobs.size, told, level=level):
            self.places = JobPlaces(jobs.size, told, level=level)
        return self.places, self.places.of(jobs)

    def _by_levels(
        self, jobs: Ints, told: Instance, second_stage: bool, least_prices: bool
    ) -> Solution:
        """Solve level by level, each of them by the same program."""
        if told.jobs >= ROWS_TO_MERGE:
            raise SolveError("there may be jobs to merge")
        places, place = self._placed(jobs, told, level=True)
        share = WarmShare(places, place, told, least_prices=least_prices)
        best = by_levels(self.policy, told, "auto", second_stage, False, share)
        return _solution(told, best)

    def _of_bargains(self, jobs: Ints, told: Instance, found: Bargains) -> Solution:
        """Spend most on the best bargains, then most evenly: no other cell is in any optimum."""
        known = best_of(told, found)
        if known is None:
            raise SolveError("two ratios are nearly the same")
        best, ratio = known
        only = replace(told, throughput=np.where(best, told.throughput, 0.0))
        spent = np.where(best, found.costs, 0.0)
        most = Stated(spent / spent.max(), None, told.throughput, 1.0)
        at = self._chosen(jobs, only, most, second_stage=True, gain=spent)
        return _solution(told, found.attempted(told, at.shares(told), ratio, at.stats))

    def _solve(
        self, jobs: Ints, told: Instance, second_stage: bool, least_prices: bool
    ) -> Solution:
        """Solve one program, and read prices and the proof off it."""
        stated = Stated.of(self.policy, told)
        if stated is None:
            raise SolveError("its numbers lie too far apart for one scale")
        second = second_stage and "has_one_optimum" not in self.policy.traits
        at = self._chosen(jobs, told, stated, second_stage=second)
        places, first, stages = at.places, at.first, at.places.stages
        value = places.solver.highs.program.value(at.chosen.x)
        objective, slope = reported(self.policy, told, value if stated.minimised else -value)
        least = stages.least_prices(first, places.scales, told.capacity) if least_prices else None
        prices = stages.prices(first.y, places.scales) if least is None else least
        gap = relative_gap(value, stages.bound(first, 1.0))
        return _solution(told, Attempted(at.shares(told), objective, gap, slope * prices, at.stats))

    def _chosen(
        self,
        jobs: Ints,
        told: Instance,
        stated: Stated,
        *,
        second_stage: bool,
        gain: Floats | None = None,
    ) -> _Chosen:
        """Bring the numbers into HiGHS, solve, and choose the optimum of most gain, or throughput.

        `gain` is of all the time of a job under an option, shape (jobs, options).
        """
        clock = [time.perf_counter()]
        places, place = self._placed(jobs, told, level=stated.demand is not None)
        changed = places.hold(place, told, stated)
        clock.append(time.perf_counter())
        first = chosen = places.solver.solve()
        if first.status != "optimal":
            raise SolveError(f"the problem is {first.status}")
        clock.append(time.perf_counter())
        if second_stage and not first.unique:
            gain = relative_throughput(told) if gain is None else gain
            costs = (places.over_columns(place, each) for each in (gain, evenness(told)))
            chosen = places.stages.choose(first, *costs)
        clock.append(time.perf_counter())
        stats = {
            "solver": first.solver,
            "changed": changed,
            "change_s": clock[1] - clock[0],
            "solve_s": clock[2] - clock[1],
            "second_stage_s": clock[3] - clock[2],
        }
        return _Chosen(places, place, first, chosen, stats)


def _solution(told: Instance, found: Attempted) -> Solution:
    """Return what was found of jobs by themselves."""
    return Solution(
        X=found.X,
        throughput=(told.throughput * found.X).sum(axis=1),
        objective=found.objective,
        prices=found.prices,
        gap=found.gap,
        status="optimal" if found.gap <= ACCURATE else "optimal_inaccurate",
        stats={"jobs": told.jobs, "classes": told.jobs, "options": told.options, **found.stats},
    )


_MOST_JOBS = 500
"""With more, a program is solved quicker by an interior point from nothing."""
