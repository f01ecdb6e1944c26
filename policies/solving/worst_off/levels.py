"""Policies about the worst off job, level by level: what each level demands, and who can have it.

Its objective says what steps/s every job must make at a level of it (`Levels.demand`). At the best
level for a job all by itself, the best for all can only be worse. There the largest common share of
the demands is found; its dual values say how much worse the level must be at least, and that is
where the next share is taken. Levels approach the optimum from beyond it and stop where all demands
can be met in full: a few linear programs, whatever the shape of the objective. The problem of a
level sees demands only, so jobs that differ in nothing else are merged
(`apportion.policies.solving.demand_intervals`), anew at each level.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import SolveError
from apportion.policies.chunks import chunks
from apportion.policies.solution import Attempted
from apportion.policies.solving.certificate import relative_gap
from apportion.policies.solving.demand_intervals import Bins, DemandIntervals, worth_merging
from apportion.policies.solving.demands import levels_of
from apportion.policies.solving.worst_off.arrow_share import ArrowShare
from apportion.policies.solving.worst_off.common_share import (
    CommonShare,
    DeclaredShare,
    SharePoint,
)

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.solving.highs import SolverName
    from apportion.types import Floats


ROWS_FOR_ARROW, _MERGED_ROWS_FOR_ARROW = 400, 64
"""Above so many rows, or merged ones, the interior point of arrow form is ahead (measured).

Merged rows change with the level, so that the simplex would have to be set up anew for each.
"""
_MET = 1e-10
"""A level is reached where less than this part is missing: far below what is certified."""
_ROUNDING = 1e-10
"""Worth of a resource, relative to the objective, that an interior point leaves for none."""
_STILL = 1e-14
"""A level that moves by less moves by rounding only, and the next step would repeat this one."""
_MOST_LEVELS = 60


def by_levels(
    policy: Policy,
    instance: Instance,
    solver: SolverName,
    second_stage: bool,
    merge: bool,
    share: CommonShare | None = None,
) -> Attempted:
    """Find the best level of a policy about the worst off job, and an allocation for it.

    Parameters
    ----------
    merge
        Whether jobs that differ in their demands only may be merged, if there are enough of them.
    share
        Finds common shares, if that is not to be made anew; jobs are then not merged.

    Raises
    ------
    SolveError
        If no level can be reached.
    """
    clock = [time.perf_counter()]
    merge = merge and instance.solo and share is None
    search = _Search(policy, instance, solver, worth_merging(instance) if merge else None, share)
    point = search.run()
    prices, bound = search.prices(point), search.bound(point)
    clock.append(time.perf_counter())
    X = search.expand(search.problem.chosen() if second_stage else point.X)
    objective = search.objective(X)
    if second_stage and relative_gap(objective, bound) > 1e-7:
        plain = search.expand(point.X)
        if relative_gap(search.objective(plain), bound) < relative_gap(objective, bound):
            X, objective = plain, search.objective(plain)
    gap = relative_gap(objective, bound)
    clock.append(time.perf_counter())
    stats = {
        "solver": point.solver,
        "rows": point.X.shape[0],
        "levels": search.levels,
        "compile_s": 0.0,
        "solve_s": clock[1] - clock[0],
        "second_stage_s": clock[2] - clock[1],
    }
    if search.bins is not None:
        stats["reduction"] = "demand intervals"
    return Attempted(X, objective, gap, _beyond_rounding(prices, instance, objective), stats)


def _beyond_rounding(prices: Floats, instance: Instance, objective: float) -> Floats:
    """Return prices, zero where all units of a resource are worth a rounding error only."""
    units = np.where(np.isinf(instance.capacity), 1.0, np.maximum(instance.capacity, 1.0))
    worth = prices * units
    return np.where(worth > _ROUNDING * abs(objective), prices, 0.0)


class _Search:
    """Level after level, from what each job could have by itself to what all can have."""

    def __init__(
        self,
        policy: Policy,
        instance: Instance,
        solver: SolverName,
        intervals: DemandIntervals | None,
        share: CommonShare | None = None,
    ) -> None:
        self.policy, self.instance = policy, instance
        self.solver: SolverName = solver
        self.intervals = intervals
        demands = levels_of(policy, instance)
        if demands is None:
            raise SolveError(f"The objective of {policy!r} has no levels of jobs.")
        self.demands = demands
        self.maximises = demands.maximised
        self.proportional = self.demands.proportional and intervals is None
        self.bins: Bins | None = None
        self.levels = 0
        self.problem: CommonShare = share or self._backend(instance)

    def run(self) -> SharePoint:
        """Take levels until all demands are met, or the level no longer moves.

        Each level is a bound whatever comes after it, so one that came of too few steps, or of
        demands so steep that rounding errors of the level make up for the rest, shows in the gap.
        """
        self.level = self._alone()
        if not (np.isfinite(self.level) and self.level > 0):
            raise SolveError(f"No level of {self.policy!r} gives every job any throughput.")
        point = self._share()
        while not (self.proportional or max(point.share, point.bound) >= 1 - _MET):
            worse = self._next_level(point)
            if abs(worse - self.level) <= _STILL * self.level or self.levels > _MOST_LEVELS:
                break
            self.level = worse
            point = self._share()
        return point

    def expand(self, X: Floats) -> Floats:
        """Turn shares of the rows of the last level into shares of the instance's."""
        return X if self.bins is None else self.bins.expand(X)

    def objective(self, X: Floats) -> float:
        """Evaluate the objective: the level of the worst off job."""
        instance = self.instance
        if instance.solo:
            speed = np.empty(instance.jobs)
            for jobs in chunks(instance.jobs):
                speed[jobs] = (instance.throughput[jobs] * X[jobs]).sum(axis=1)
            return self.demands.level(speed)
        made = (instance.throughput * X[instance.member_row]).sum(axis=1)
        each = made * instance.member_share
        of_jobs = np.bincount(instance.member_job, weights=each, minlength=instance.jobs)
        return self.demands.level(of_jobs.astype(float))

    def bound(self, point: SharePoint) -> float:
        """Bound the objective by the levels tried and the dual values of the last one."""
        if not self.proportional:  # the level is a bound itself
            return self.level
        return self.level * min(point.bound, 1.0)

    def prices(self, point: SharePoint) -> Floats:
        """Return how much better the level may be per unit that a resource is larger."""
        if not point.prices.any():
            return point.prices  # a job is as fast as it can be, whatever the capacities
        at_kink = self.problem.prices_at_kink(self._rise)
        return point.prices * self._slope(point) if at_kink is None else at_kink

    def _rise(self) -> Floats:
        """Return how fast the demands of the rows rise as the level gets better."""
        rise = self.demands.rise(self.level)
        if self.bins is None:
            return rise
        rows = np.bincount(self.bins.bin_of, weights=self.instance.count * rise)
        return np.asarray(rows / self.bins.instance.count)

    def _slope(self, point: SharePoint) -> float:
        """Return how much better the level may be per unit that the share is larger."""
        dual, rise = self._each(point.dual), self.demands.rise(self.level)
        cost = float(dual[dual > 0] @ rise[dual > 0])
        return 1 / cost if 0 < cost < np.inf else 0.0

    def _alone(self) -> float:
        """Level if every job ran on its fastest option all the time."""
        instance, fastest = self.instance, np.zeros(self.instance.jobs)
        each = instance.throughput.max(axis=1) * instance.member_share
        np.maximum.at(fastest, instance.member_job, each)
        return self.demands.level(fastest)

    def _backend(self, instance: Instance) -> CommonShare:
        """Choose how the share of a problem is found."""
        few = ROWS_FOR_ARROW if self.intervals is None else _MERGED_ROWS_FOR_ARROW
        if self.solver == "auto" and (instance.jobs <= few or not ArrowShare.fits(instance)):
            return DeclaredShare(instance, "auto")
        if self.solver in {"auto", "arrow"}:
            return ArrowShare(instance)
        return DeclaredShare(instance, self.solver)

    def _share(self) -> SharePoint:
        """Find the largest common share of the demands of a level."""
        self.levels += 1
        demand = self.demands.demand(self.level)
        if self.intervals is not None:
            self.bins = self.intervals.bins(demand)
            demand = self.bins.demand
            self.problem = self._backend(self.bins.instance)
        return self.problem.optimum(demand, alone=self.levels == 1)

    def _each(self, dual: Floats) -> Floats:
        """Divide dual values of bins over their jobs."""
        if self.bins is None:
            return dual
        in_bin = self.bins.instance.count
        return (dual / in_bin)[self.bins.bin_of] * self.instance.count

    def _next_level(self, point: SharePoint) -> float:
        """Find the level whose demands cost no more than there is, at the dual values."""
        from scipy.optimize import brentq  # few solves need it, and all would wait for it

        dual, share = self._each(point.dual), point.bound
        counts = np.flatnonzero(dual > 0)
        dual = dual[counts]

        def beyond(level: float) -> float:
            return float(dual @ self.demands.demand(level)[counts]) - share

        worse = 0.5 if self.maximises else 2.0
        far = self.level * worse
        while beyond(far) > 0:
            far *= worse
        root, _ = brentq(
            beyond,
            self.level,
            far,
            # Levels may be tiny: the relative tolerance, rounding, decides alone.
            xtol=1e-300,
            full_output=True,
        )
        return float(root)
