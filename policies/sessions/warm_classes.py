"""A policy over classes of identical jobs, kept warm: solved again when a count changes."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.instance import Instance
from apportion.policies.sessions.counted_solver import CountedSolver, declare
from apportion.policies.sessions.demanded import LastDemands, meet
from apportion.policies.sessions.fastest_options import FastestOptions
from apportion.policies.sessions.served import LastWalk, is_plain, served
from apportion.policies.sessions.warm_stages import WarmStages
from apportion.policies.solution import ACCURATE, Attempted, Solution
from apportion.policies.solving.certificate import SharedLimits, relative_gap
from apportion.policies.solving.demands import read_off, reported
from apportion.policies.solving.rows import believed
from apportion.policies.solving.second_stage import evenness, relative_throughput
from apportion.policies.solving.worst_off.buyers import Buyers

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.sessions.counted_solver import CountedProblem, Route
    from apportion.policies.solving.cone import Point
    from apportion.types import Floats


_LOG = logging.getLogger(__name__)


class WarmClasses:
    """The problem of a policy over classes of identical jobs, for counts that change.

    Compiled once with the counts as a parameter and kept in HiGHS, where a class without jobs is
    as if it were not there (`CountedSolver`).

    Use `of` to make one where that is valid.
    """

    def __init__(
        self, policy: Policy, classes: Instance, p: CountedProblem, declared: cp.Problem
    ) -> None:
        self.policy, self.classes = policy, classes
        self._p, self._declared = p, declared
        self._counted = counted = CountedSolver(p, declared)
        self._solver, self._scales, self._cells = counted.solver, counted.scales, counted.cells
        capacity = counted.rows_of(p.capacity)
        self._stages = WarmStages(counted.solver, counted.cells, capacity, counted.set_aside)
        self._limits = SharedLimits.of(p.instance)
        one = p.instance.with_columns({**p.instance.columns, "count": np.ones(classes.jobs)})
        self._gain, self._squares = relative_throughput(one), evenness(one)
        # Without the parameter in the objective, levels are the same at all counts.
        read = read_off(policy, one)
        levels = None if declared.objective.parameters() else read.levels
        told = levels is not None and not levels.constrained and read.exact
        self._levels, self._last = levels, LastDemands()
        self._fastest = FastestOptions.of(one) if told else None
        self._buyers = None if self._fastest is None else Buyers.of(self._fastest.told)
        gains = read.gains if read.exact and is_plain(one) else None
        self._gains = gains if gains is None or gains.constant == 0 else None
        self._walk, self._in_vain = LastWalk(), 0

    @classmethod
    def of(cls, policy: Policy, classes: Instance, *, checked: bool = False) -> WarmClasses | None:
        """Declare and compile; ``None`` where the counts are no parameter of the policy's problem.

        Parameters
        ----------
        classes
            Classes of identical jobs; rows are classes, each with a count of at least 1.
        checked
            Whether that is known to be valid, from other classes.
        """
        if not 0 < classes.jobs <= _MOST_CLASSES:
            return None
        stated = declare(policy, believed(policy, classes), checked=checked)
        return None if stated is None else cls(policy, classes, *stated)

    def solve(
        self,
        count: Floats,
        *,
        second_stage: bool = True,
        least_prices: bool = True,
        route: Route = "direct deltas",
    ) -> Solution:
        """Solve for new counts.

        Parameters
        ----------
        count
            Jobs of each class, >= 0, shape (classes,).
        second_stage
            Whether the choice among equal optima is the one of `solve_instance`.
        least_prices
            Whether the prices are, where several are right; if not, they are any of those.
        route
            How the counts reach HiGHS; the result is the same.

        Returns
        -------
        Solution
            With one row per class; zeros for a class without jobs.

        Raises
        ------
        SolveError
            If no solver found an optimum.
        """
        if not count.any():
            shape = (count.size, self.classes.options)
            prices = np.zeros_like(self.classes.capacity)
            return Solution(np.zeros(shape), np.zeros(count.size), float("nan"), prices, 0.0)
        if route == "direct deltas" and (alone := self._alone(count, least_prices)) is not None:
            return alone
        clock = [time.perf_counter()]
        changed = self._counted.change(count, route)
        clock.append(time.perf_counter())
        first = self._solver.solve()
        if first.status != "optimal":
            raise SolveError(f"{self.policy!r} has no optimum: the problem is {first.status}.")
        clock.append(time.perf_counter())
        chosen = first
        if second_stage and "has_one_optimum" not in self.policy.traits and not first.unique:
            chosen = self._choose(first)
        clock.append(time.perf_counter())
        stats = {
            "jobs": int(count.sum()),
            "classes": int(self._counted.there.sum()),
            "options": self.classes.options,
            "solver": first.solver,
            "path": route,
            "changed": changed,
            "change_s": clock[1] - clock[0],
            "solve_s": clock[2] - clock[1],
            "second_stage_s": clock[3] - clock[2],
        }
        return self._solution(first, chosen, stats, least_prices)

    def certified(self, count: Floats, **options: Any) -> Solution | None:
        """Solve as `solve` does; ``None`` where that is not certified to be an optimum."""
        try:
            solution = self.solve(count, **options)
        except SolveError as error:
            _LOG.info("%r is solved anew: %s", self.policy, error)
            return None
        return solution if solution.status == "optimal" else None

    def _alone(self, count: Floats, least_prices: bool) -> Solution | None:
        """Solve without a program, if the objective is of a kind for which that can be."""
        by_gains = self._gains is not None
        return (self._served if by_gains else self._bought)(count, least_prices)

    def _bought(self, count: Floats, least_prices: bool) -> Solution | None:
        """Meet the demands of all classes at prices, see `apportion.policies.sessions.demanded`."""
        buyers, fastest, levels = self._buyers, self._fastest, self._levels
        there = np.flatnonzero(count)
        if buyers is None or fastest is None or levels is None:
            return None
        here = replace(levels, factor=levels.factor[there], offset=levels.offset[there])
        clock = time.perf_counter()
        found = meet(buyers.some(there, count[there]), here, self._last, least=least_prices)
        if found is None:
            return None
        shares = np.zeros(buyers.speed.shape)
        shares[there] = found.shares
        X = self._limits.clip(fastest.spread(shares, self.classes.options), count)
        level = here.level((self._p.instance.throughput * X).sum(axis=1)[there])
        objective, slope = reported(self.policy, self._p.instance, level)
        gap = relative_gap(level, found.bound)
        told = Attempted(X, objective, gap, slope * found.prices, {"solver": "demands"})
        return self._without_program(told, count, clock)

    def _served(self, count: Floats, least_prices: bool) -> Solution | None:
        """Serve classes as jobs that hold the GPUs of all of theirs, and add what all of them do.

        See `apportion.policies.sessions.served`.
        """
        gains, one, clock = self._gains, self._p.instance, time.perf_counter()
        there = np.flatnonzero(count)
        if gains is None or self._in_vain >= _PATIENCE:
            return None
        held = (one.columns["scale_factor"] * count)[there]
        told = Instance.of_jobs(one.throughput[there], held, one.capacity)
        all_of_it = gains._replace(slope=(gains.slope * count)[there])
        found = served(told, all_of_it, there, self._walk, least=least_prices)
        self._in_vain = self._in_vain + 1 if found is None else 0
        if found is None:
            return None
        X = np.zeros(one.throughput.shape)
        X[there] = found.X
        X = self._limits.clip(X, count)
        return self._without_program(found._replace(X=X), count, clock)

    def _without_program(self, told: Attempted, count: Floats, clock: float) -> Solution:
        """Say what was found without a program, begun at a time."""
        stats = {
            "jobs": int(count.sum()),
            "classes": np.count_nonzero(count),
            "options": self.classes.options,
            "solver": told.stats["solver"],
            "path": "direct deltas",
            "changed": 0,
            "change_s": 0.0,
            "solve_s": time.perf_counter() - clock,
            "second_stage_s": 0.0,
        }
        throughput = (self.classes.throughput * told.X).sum(axis=1)
        status = "optimal" if told.gap <= ACCURATE else "optimal_inaccurate"
        found = told.X, throughput, told.objective, told.prices, told.gap, status
        return Solution(*found, stats=stats)

    def _choose(self, first: Point) -> Point:
        """Choose among the optima as `solve_instance` does, on the classes that have jobs."""
        count = self._counted.count[:, None]
        gain, squares = np.zeros((2, self._solver.highs.program.c.size))
        column = self._scales.column[self._cells]
        gain[self._cells] = column * (count * self._gain).ravel(order="F")
        squares[self._cells] = column**2 * (count * self._squares).ravel(order="F")
        return self._stages.choose(first, gain, squares)

    def _solution(
        self, first: Point, chosen: Point, stats: dict[str, Any], least_prices: bool
    ) -> Solution:
        """Read shares, prices and the certified gap off the points of both stages."""
        program, X_at, scales = self._solver.highs.program, self._cells, self._scales
        x = (scales.column[X_at] * chosen.x[X_at]).reshape(self._p.X.shape, order="F")
        X = self._limits.clip(x, self._counted.count)
        most, own = 1 / scales.column[X_at], bool(self._p.variables)
        value, bound = program.value(chosen.x), self._stages.bound(first, most, own=own)
        capacity = self.classes.capacity
        prices = self._stages.least_prices(first, scales, capacity) if least_prices else None
        prices = self._stages.prices(first.y, scales) if prices is None else prices
        maximised = isinstance(self._declared.objective, cp.Maximize)
        gap = relative_gap(value, bound)
        return Solution(
            X=X,
            throughput=(self.classes.throughput * X).sum(axis=1),
            objective=-value if maximised else value,
            prices=prices,
            gap=gap,
            status="optimal" if gap <= ACCURATE else "optimal_inaccurate",
            stats=stats,
        )


_MOST_CLASSES = 500
"""With more, an interior point from nothing is quicker than the simplex method."""
_PATIENCE = 16
"""Walks over prices in a row after which, if all came to nothing, no other one is tried."""
