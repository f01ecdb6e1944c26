"""A policy over classes of identical jobs, kept warm: solved again when a count changes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.sessions.counted_problem import declare
from apportion.policies.solving.certificate import SharedLimits, relative_gap
from apportion.policies.solving.driver import Solution
from apportion.policies.solving.rows.reduction import believed
from apportion.policies.solving.second_stage import (
    choose_among_optima,
    evenness,
    most_even,
    optimal_face,
    relative_throughput,
)
from apportion.policies.solving.solvers.cone_program import Scales, cone_program
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.kinks import Bounds, Priced, least_duals
from apportion.policies.solving.solvers.parametric_program import ParametricProgram
from apportion.policies.solving.solvers.warm_highs import WarmSolver

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.sessions.counted_problem import CountedProblem
    from apportion.policies.solving.solvers.cone_program import ConeProgram
    from apportion.policies.solving.solvers.parametric_program import Moves
    from apportion.policies.solving.solvers.point import Point

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["Route", "WarmClasses"]

Route = Literal["direct deltas", "parametrised"]
"""How new counts reach HiGHS: as the numbers that they move, or through cvxpy's parameters."""


class WarmClasses:
    """The problem of a policy over classes of identical jobs, for counts that change.

    Compiled once with the counts as a parameter and kept in HiGHS. A class without jobs is set
    aside exactly: its shares are held at zero and its own constraints (those in which no other
    class has a share) are lifted, as if it were not there.

    Use `of` to make one where that is valid.
    """

    def __init__(
        self, policy: Policy, classes: Instance, p: CountedProblem, declared: cp.Problem
    ) -> None:
        self.policy, self.classes = policy, classes
        self._p, self._declared = p, declared
        plain = ParametricProgram.of(declared, p.count)
        self._scales = Scales.of(plain.base)
        self._program = plain.scaled(self._scales)
        self._solver = WarmSolver(self._program.base)
        self._count = p.instance.count
        self._spending: PersistentHighs | None = None
        self._last: Floats | None = None
        self._moves: dict[int, Moves] = {}
        self._there = np.ones(classes.jobs, dtype=bool)
        start = plain.base.columns[p.X.id]
        self._cells = slice(start, start + p.X.size)
        self._capacity = plain.base.rows[p.capacity.id]
        self._bounds = Bounds.of(self._program.base)
        self._priced = Priced.of(self._capacity, classes.capacity, self._scales.row)
        self._own_rows = _own_rows(plain.base, self._cells, classes.jobs)
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
        changed = self._change(count, route)
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
            "classes": int(self._there.sum()),
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

    def _change(self, count: Floats, route: Route) -> int:
        """Bring new counts into HiGHS; return how many numbers of the problem they moved."""
        moved = np.flatnonzero(count != self._count)
        if route == "parametrised":
            changed = self._through_cvxpy(count)
        elif moved.size > _FEW * count.size:
            changed = self._solver.highs.update(self._program.at(count))
        else:
            changed = sum(self._move(place, count) for place in moved.tolist())
        self._count = count.copy()
        self._there = count > 0
        self._set_aside(self._solver.highs)
        return changed

    def _set_aside(self, highs: PersistentHighs) -> None:
        """Set the classes without jobs aside in a solver, and bring those back that have some."""
        start, classes = self._cells.start, self._there.size
        as_it_was = self._there == highs.aside[start : start + classes]
        for place in np.flatnonzero(as_it_was).tolist():
            columns = np.arange(start + place, self._cells.stop, classes)
            change = highs.bring_back if self._there[place] else highs.set_aside
            change(columns, self._own_rows[place])

    def _through_cvxpy(self, count: Floats) -> int:
        """Set cvxpy's parameter, have it apply the values, and pass on what differs."""
        self._p.count.value = count
        data, _, inverse = self._declared.get_problem_data(cp.CLARABEL, solver_opts={})
        program = cone_program(data, float(inverse[-1]["offset"]))
        return self._solver.highs.update(self._scales.scale(program))

    def _move(self, place: int, count: Floats) -> int:
        """Change the numbers that the count of one class moves."""
        if place not in self._moves:
            self._moves[place] = self._program.moves(place)
        moves, highs = self._moves[place], self._solver.highs
        entries, limits, costs = moves.at(np.append(count, 1.0))
        highs.change_entries(moves.entries, entries)
        if limits.size:
            highs.change_limits(moves.limits, limits)
        inside = moves.costs < highs.program.c.size
        if inside.any():
            highs.change_costs(moves.costs[inside], costs[inside])
        if not inside.all():
            highs.program = replace(highs.program, offset=float(costs[-1]))
        return entries.size + limits.size + int(np.count_nonzero(inside))

    def _choose(self, first: Point) -> Point:
        """Choose among the optima as `solve_instance` does, on the classes that have jobs."""
        highs, count = self._solver.highs, self._count[:, None]
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
        self._set_aside(self._spending)
        return self._spending

    def _solution(
        self, first: Point, chosen: Point, duals: Floats, stats: dict[str, Any]
    ) -> Solution:
        """Read shares, prices and the certified gap off the points of both stages."""
        program, X_at = self._solver.highs.program, self._cells
        x = (self._scales.column[X_at] * chosen.x[X_at]).reshape(self._p.X.shape, order="F")
        X = self._limits.clip(x, self._count)
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
        [0, 1], other variables are taken to lie within ten times their value.
        """
        program, reduced = self._solver.highs.program, self._solver.reduced
        upper = 10 * np.maximum(np.abs(first.x), 1e-6)
        lower = -upper
        lower[self._cells], upper[self._cells] = 0.0, 1 / self._scales.column[self._cells]
        worst = np.minimum(reduced * lower, reduced * upper).sum()
        return float(worst - program.b @ first.y) * program.cost_scale + program.offset


_FEASIBLE = 1e-7
"""How far, in scaled numbers, the choice among the optima may miss a constraint of theirs."""
_FEW = 0.2
"""Share of the counts up to which their numbers are changed one by one."""
_MOST_CLASSES = 500
"""With more, an interior point from nothing is quicker than the simplex method."""
_ACCURATE = 1e-6
"""Largest gap of what is called optimal."""


def _own_rows(program: ConeProgram, cells: slice, classes: int) -> list[Ints]:
    """Rows in which only one class has a share, by class."""
    A = program.A.tocoo()
    row, column = A.coords
    inside = (column >= cells.start) & (column < cells.stop)
    row, owner = row[inside], (column[inside] - cells.start) % classes
    first, last = np.full(program.b.size, classes), np.full(program.b.size, -1)
    np.minimum.at(first, row, owner)
    np.maximum.at(last, row, owner)
    return [np.flatnonzero((first == last) & (first == place)) for place in range(classes)]
