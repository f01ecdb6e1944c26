"""A policy over classes of identical jobs, kept warm: solved again when a count changes."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.sessions.counted_problem import declare
from apportion.policies.sessions.counted_solver import CountedSolver
from apportion.policies.solving.certificate import Bounds, SharedLimits, relative_gap
from apportion.policies.solving.cone import Scales
from apportion.policies.solving.driver import Solution
from apportion.policies.solving.rows import believed
from apportion.policies.solving.second_stage import (
    choose_among_optima,
    evenness,
    most_even,
    optimal_face,
    relative_throughput,
)
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.kinks import Priced, least_duals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.sessions.counted_problem import CountedProblem
    from apportion.policies.sessions.counted_solver import Route
    from apportion.policies.solving.cone import Point

    Floats = NDArray[np.float64]

__all__ = ["WarmClasses"]

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
        self._spending: PersistentHighs | None = None
        self._last: Floats | None = None
        self._capacity = counted.rows_of(p.capacity)
        self._bounds = Bounds.of(self._solver.highs.program)
        self._priced = Priced.of(self._capacity, classes.capacity, self._scales.row)
        self._limits = SharedLimits.of(p.instance)
        one = p.instance.with_columns({**p.instance.columns, "count": np.ones(classes.jobs)})
        self._gain, self._squares = relative_throughput(one), evenness(one)

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
        y = self._least_duals(first) if least_prices else first.y
        return self._solution(first, chosen, y, stats)

    def certified(self, count: Floats, **options: Any) -> Solution | None:
        """Solve as `solve` does; ``None`` where that is not certified to be an optimum."""
        try:
            solution = self.solve(count, **options)
        except SolveError as error:
            _LOG.info("%r is solved anew: %s", self.policy, error)
            return None
        return solution if solution.status == "optimal" else None

    def _choose(self, first: Point) -> Point:
        """Choose among the optima as `solve_instance` does, on the classes that have jobs."""
        highs, count = self._solver.highs, self._counted.count[:, None]
        gain, squares = np.zeros((2, highs.program.c.size))
        column = self._scales.column[self._cells]
        gain[self._cells] = column * (count * self._gain).ravel(order="F")
        squares[self._cells] = column**2 * (count * self._squares).ravel(order="F")
        squares = squares[~highs.aside]
        spending = self._spending_from(first, gain)
        second = spending.solve()
        if second.status == "optimal" and spending.optimality_error(second)[0] <= _ACCURATE / 100:
            near = (second.x if self._last is None else self._last)[~highs.aside]
            there = spending.of_there(second)
            if not there.unique:  # rarely: to cut the program out costs as much as to solve it
                there = most_even(spending.there(), there, squares, near)
            chosen = spending.everywhere(there)
        else:
            there = highs.of_there(first)
            gain = gain[~highs.aside]
            chosen = choose_among_optima(highs.there(), there, gain, squares, "auto")
            chosen = highs.everywhere(chosen)
        self._last = chosen.x
        return chosen if highs.violation(chosen) <= _FEASIBLE else first

    def _spending_from(self, first: Point, gain: Floats) -> PersistentHighs:
        """Bring the choice among the optima into a solver of its own, which stays warm as well."""
        costs = -gain / (np.abs(gain).max(initial=0.0) or 1.0)
        wanted = optimal_face(self._solver.highs.program, first, costs)
        if self._spending is None:
            self._spending = PersistentHighs(wanted, presolve=False)
        elif self._spending.update(wanted) < 0:
            self._spending.forget()
        self._counted.set_aside(self._spending)
        return self._spending

    def _solution(
        self, first: Point, chosen: Point, duals: Floats, stats: dict[str, Any]
    ) -> Solution:
        """Read shares, prices and the certified gap off the points of both stages."""
        program, X_at = self._solver.highs.program, self._cells
        x = (self._scales.column[X_at] * chosen.x[X_at]).reshape(self._p.X.shape, order="F")
        X = self._limits.clip(x, self._counted.count)
        value, bound = program.value(chosen.x), self._bound(first)
        y = self._scales.row[self._capacity] * duals[self._capacity] * self._scales.cost
        maximised = isinstance(self._declared.objective, cp.Maximize)
        gap = relative_gap(value, bound)
        return Solution(
            X=X,
            throughput=(self.classes.throughput * X).sum(axis=1),
            objective=-value if maximised else value,
            prices=np.maximum(y, 0.0),
            gap=gap,
            status="optimal" if gap <= _ACCURATE else "optimal_inaccurate",
            stats=stats,
        )

    def _least_duals(self, first: Point) -> Floats:
        """Choose among the dual vectors as `solve_instance` does."""
        highs, bounds = self._solver.highs, self._bounds
        if highs.aside.any():
            bounds = replace(bounds, held=bounds.held | highs.aside)
        y = least_duals(highs.program, first, bounds, self._priced, without=highs.freed)
        return first.y if y is None else y

    def _bound(self, first: Point) -> float:
        """Bound the minimised objective from below by the dual vector of the first stage.

        What is missing in its reduced costs is charged at the worse end of a box: shares lie in
        [0, 1], other variables are taken to lie within ten times their value, or their unit.
        """
        program, reduced = self._solver.highs.program, self._solver.reduced
        unit = Scales.of_all_numbers(program).column if self._p.variables else 1e-6
        upper = 10 * np.maximum(np.abs(first.x), unit)
        lower = -upper
        lower[self._cells], upper[self._cells] = 0.0, 1 / self._scales.column[self._cells]
        worst = np.minimum(reduced * lower, reduced * upper).sum()
        return float(worst - program.b @ first.y) * program.cost_scale + program.offset


_FEASIBLE = 1e-7
"""How far, in scaled numbers, the choice among the optima may miss a constraint of theirs."""
_MOST_CLASSES = 500
"""With more, an interior point from nothing is quicker than the simplex method."""
_ACCURATE = 1e-6
"""Largest gap of what is called optimal."""
