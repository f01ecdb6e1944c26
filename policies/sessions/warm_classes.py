"""A policy over classes of identical jobs, kept warm: solved again when a count changes."""

from __future__ import annotations

import logging
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.instance import Instance
from apportion.policies.sessions.at_best import AtBest, favours_speed
from apportion.policies.sessions.counted_solver import CountedSolver, declare, read_at_all_counts
from apportion.policies.sessions.demanded import LastDemands, meet
from apportion.policies.sessions.fastest_options import FastestOptions
from apportion.policies.sessions.served import LastWalk, is_plain, served
from apportion.policies.sessions.warm_stages import WarmStages
from apportion.policies.solution import ACCURATE, Attempted, Solution
from apportion.policies.solving.certificate import SharedLimits, relative_gap
from apportion.policies.solving.demands import declared
from apportion.policies.solving.rows import believed
from apportion.policies.solving.second_stage import evenness, relative_throughput
from apportion.policies.solving.worst_off.buyers import Buyers

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.sessions.counted_solver import Route
    from apportion.policies.solving.cone import Point
    from apportion.types import Floats, Ints


_LOG = logging.getLogger(__name__)


class _CountedProgram(NamedTuple):
    """A compiled problem, its stages, and what the second one goes by at one job of each class."""

    counted: CountedSolver
    stages: WarmStages
    gain: Floats
    squares: Floats


class WarmClasses:
    """The problem of a policy over classes of identical jobs, for counts that change.

    An objective that is the same at all counts is decided without a program where that can be.
    Else the problem is compiled once, when first needed, with the counts as a parameter, and kept
    in HiGHS, where a class without jobs is as if it were not there (`CountedSolver`).

    Use `of` to make one where that is valid.
    """

    def __init__(self, policy: Policy, classes: Instance) -> None:
        self.policy, self.classes = policy, classes
        self._told = believed(policy, classes)
        self._limits = SharedLimits.of(self._told)
        one = self._told.with_columns({**self._told.columns, "count": np.ones(classes.jobs)})
        self._one, self._gpus = one, one.columns["scale_factor"]
        read = read_at_all_counts(policy, one)
        self._levels, self._last = None if read is None else read.levels, LastDemands()
        self._fastest = None if self._levels is None else FastestOptions.of(one)
        self._buyers = None if self._fastest is None else Buyers.of(self._fastest.told)
        self._read = read if read is not None and is_plain(one) and favours_speed(read) else None
        self._best = None if self._read is None else AtBest.of(one)
        self._gains = read.gains if read is not None and is_plain(one) else None
        self._walk, self._in_vain = LastWalk(), 0

    @classmethod
    def of(cls, policy: Policy, classes: Instance) -> WarmClasses | None:
        """Read the objective or compile; ``None`` where the counts are no parameter of the problem.

        What holds of some classes need not hold of more: a geometric mean of one is linear.

        Parameters
        ----------
        classes
            Classes of identical jobs; rows are classes, each with a count of at least 1.
        """
        if not 0 < classes.jobs <= _MOST_CLASSES:
            return None
        made = cls(policy, classes)
        alone = made._buyers is not None or made._gains is not None
        return made if alone or made._program is not None else None

    @property
    def compiled(self) -> bool:
        """Whether there is a program, whose counts are a parameter."""
        return vars(self).get("_program") is not None

    @cached_property
    def _program(self) -> _CountedProgram | None:
        """The compiled problem; ``None`` where the counts are no parameter of it."""
        stated = declare(self.policy, self._told)
        if stated is None:
            return None
        counted, (p, _) = CountedSolver(*stated), stated
        capacity = counted.rows_of(p.capacity)
        stages = WarmStages(counted.solver, counted.cells, capacity, counted.set_aside)
        return _CountedProgram(counted, stages, relative_throughput(self._one), evenness(self._one))

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
        second_stage, least_prices
            Whether the choice among equal optima, and among prices, is that of `solve_instance`.
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
        if route == "direct deltas" and (alone := self.alone(count, least_prices)) is not None:
            return alone
        if (program := self._program) is None:
            raise SolveError(f"{self.policy!r} has no program whose counts are a parameter.")
        counted, clock = program.counted, [time.perf_counter()]
        changed = counted.change(count, route)
        clock.append(time.perf_counter())
        first = counted.solver.solve()
        if first.status != "optimal":
            raise SolveError(f"{self.policy!r} has no optimum: the problem is {first.status}.")
        clock.append(time.perf_counter())
        chosen = first
        if second_stage and "has_one_optimum" not in self.policy.traits and not first.unique:
            chosen = self._choose(program, first)
        clock.append(time.perf_counter())
        stats = {
            "jobs": int(count.sum()),
            "classes": int(counted.there.sum()),
            "options": self.classes.options,
            "solver": first.solver,
            "path": route,
            "changed": changed,
            "change_s": clock[1] - clock[0],
            "solve_s": clock[2] - clock[1],
            "second_stage_s": clock[3] - clock[2],
        }
        return self._solution(program, first, chosen, stats, least_prices)

    def certified(self, count: Floats, **options: Any) -> Solution | None:
        """Solve as `solve` does; ``None`` where that is not certified to be an optimum."""
        try:
            solution = self.solve(count, **options)
        except SolveError as error:
            _LOG.info("%r is solved anew: %s", self.policy, error)
            return None
        return solution if solution.status == "optimal" else None

    def alone(self, count: Floats, least_prices: bool) -> Solution | None:
        """Solve for some jobs without a program, see `solve`; ``None`` where one is needed.

        All run at their best, if there is room, or as many as there is room for, at prices.
        """
        clock, there = time.perf_counter(), count.nonzero()[0]
        best, read = self._best, self._read
        if best is not None and read is not None and best.fit(self._gpus * count):
            self._walk.freed()
            self._last.freed()
            return self._without_program(best.attempted(read, there, count), count, there, clock)
        by_gains = self._gains is not None
        told = (self._served if by_gains else self._bought)(count, there, least_prices)
        if told is None or told.gap > ACCURATE:
            return None
        return self._without_program(told, count, there, clock)

    def _bought(self, count: Floats, there: Ints, least_prices: bool) -> Attempted | None:
        """Meet the demands of all classes at prices, see `apportion.policies.sessions.demanded`."""
        buyers, fastest, levels = self._buyers, self._fastest, self._levels
        if buyers is None or fastest is None or levels is None:
            return None
        here = levels.some(there)
        found = meet(buyers.some(there, count[there]), here, self._last, least=least_prices)
        if found is None:
            return None
        shares = np.zeros(buyers.speed.shape)
        shares[there] = found.shares
        X = self._limits.clip(fastest.spread(shares, self.classes.options), count)
        level = here.level((self._told.throughput * X).sum(axis=1)[there])
        objective, slope = declared(here, level)
        gap = relative_gap(level, found.bound)
        return Attempted(X, objective, gap, slope * found.prices, {"solver": "demands"})

    def _served(self, count: Floats, there: Ints, least_prices: bool) -> Attempted | None:
        """Serve classes as jobs that hold the GPUs of all of theirs, and add what all of them do.

        See `apportion.policies.sessions.served`.
        """
        gains, one = self._gains, self._told
        if gains is None or self._in_vain >= _PATIENCE:
            return None
        told = Instance.of_jobs(one.throughput[there], (self._gpus * count)[there], one.capacity)
        all_of_it = gains._replace(slope=(gains.slope * count)[there])
        found = served(told, all_of_it, there, self._walk, least=least_prices)
        self._in_vain = self._in_vain + 1 if found is None else 0
        if found is None:
            return None
        X = np.zeros(one.throughput.shape)
        X[there] = found.X
        return found._replace(X=self._limits.clip(X, count))

    def _without_program(
        self, told: Attempted, count: Floats, there: Ints, clock: float
    ) -> Solution:
        """Say what was found without a program, begun at a time."""
        stats = {
            "jobs": int(count.sum()),
            "classes": there.size,
            "options": self.classes.options,
            "solver": told.stats["solver"],
            "path": "direct deltas",
            "changed": 0,
            "change_s": 0.0,
            "solve_s": time.perf_counter() - clock,
            "second_stage_s": 0.0,
        }
        throughput = (self.classes.throughput * told.X).sum(axis=1)
        found = told.X, throughput, told.objective, told.prices, told.gap
        return Solution(*found, stats=stats)

    def _choose(self, program: _CountedProgram, first: Point) -> Point:
        """Choose among the optima as `solve_instance` does, on the classes that have jobs."""
        counted, count = program.counted, program.counted.count[:, None]
        gain, squares = np.zeros((2, counted.solver.highs.program.c.size))
        column = counted.scales.column[counted.cells]
        gain[counted.cells] = column * (count * program.gain).ravel(order="F")
        squares[counted.cells] = column**2 * (count * program.squares).ravel(order="F")
        return program.stages.choose(first, gain, squares)

    def _solution(
        self,
        program: _CountedProgram,
        first: Point,
        chosen: Point,
        stats: dict[str, Any],
        least_prices: bool,
    ) -> Solution:
        """Read shares, prices and the certified gap off the points of both stages."""
        counted, stages = program.counted, program.stages
        p, scales = counted.p, counted.scales
        column = scales.column[counted.cells]
        x = (column * chosen.x[counted.cells]).reshape(p.X.shape, order="F")
        X = self._limits.clip(x, counted.count)
        value = counted.solver.highs.program.value(chosen.x)
        bound = stages.bound(first, 1 / column, own=bool(p.variables))
        capacity = self.classes.capacity
        prices = stages.least_prices(first, scales, capacity) if least_prices else None
        prices = stages.prices(first.y, scales) if prices is None else prices
        maximised = isinstance(counted.declared.objective, cp.Maximize)
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
