"""Both stages of a linear program that stays in HiGHS: its optimum, the choice, the bound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solving.certificate import Bounds
from apportion.policies.solving.cone import Scales, alone_in_cost
from apportion.policies.solving.rescaling import scales_of_all_numbers
from apportion.policies.solving.second_stage import (
    choose_among_optima,
    most_even,
    optimal_face,
    told_apart,
)
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.kinks import Priced, least_duals

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.solving.cone import ConeProgram, Point
    from apportion.policies.solving.solvers.warm_highs import WarmSolver
    from apportion.types import Floats


class WarmStages:
    """What is done with the optima of a program of which columns and rows may be set aside.

    Parameters
    ----------
    solver
        Has the program, in scaled numbers.
    cells
        Columns of the shares of time.
    capacity
        Rows of the capacities.
    set_aside
        Sets aside in another solver of the program what is set aside in the first.
    """

    def __init__(
        self,
        solver: WarmSolver,
        cells: slice,
        capacity: slice,
        set_aside: Callable[[PersistentHighs], None],
    ) -> None:
        self._solver, self._cells, self._capacity = solver, cells, capacity
        self._set_aside = set_aside
        self._bounds = Bounds.of(solver.highs.program)
        self._spending: PersistentHighs | None = None

    def choose(self, first: Point, gain: Floats, squares: Floats) -> Point:
        """Choose among the optima as `solve_instance` does.

        Parameters
        ----------
        first
            An optimum.
        gain, squares
            Cost vectors over the scaled columns.
        """
        highs = self._solver.highs
        first = highs.everywhere(told_apart(highs.there, highs.of_there(first)))
        spending = self._spending_from(first, gain)
        second = spending.solve()
        there = ~highs.aside
        if second.status == "optimal" and spending.optimality_error(second)[0] <= _SECOND:
            inside = spending.of_there(second)
            if not inside.unique:  # rarely: to cut the program out costs as much as to solve it
                inside = told_apart(spending.there, inside)
                near, known = second.x[there], alone_in_cost(highs.program.c[there])
                inside = most_even(spending.there(), inside, squares[there], near, known)
            chosen = spending.everywhere(inside)
        else:
            inside = highs.of_there(first)
            given = gain[there], squares[there]
            chosen = choose_among_optima(highs.there(), inside, *given, "auto")
            chosen = highs.everywhere(chosen)
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

    def prices(self, y: Floats, scales: Scales) -> Floats:
        """Return the dual values of the capacities in a dual vector."""
        rows = self._capacity
        return np.maximum(scales.row[rows] * y[rows] * scales.cost, 0.0)

    def least_prices(
        self,
        first: Point,
        scales: Scales,
        capacity: Floats,
        slopes: Callable[[], ConeProgram] | None = None,
    ) -> Floats | None:
        """Return the prices that `solve_instance` chooses; ``None`` where there are no others.

        See `apportion.policies.solving.solvers.kinks.least_duals`.
        """
        highs, bounds = self._solver.highs, self._bounds
        if highs.aside.any():
            bounds = replace(bounds, held=bounds.held | highs.aside)
        priced = Priced.of(self._capacity, capacity, scales.row)
        y = least_duals(highs.program, first, bounds, priced, slopes, highs.freed)
        return None if y is None else self.prices(y, scales)

    def bound(self, first: Point, most: Floats | float, *, own: bool = False) -> float:
        """Bound the minimised objective from below by the dual vector of the first stage.

        What is missing in its reduced costs is charged at the worse end of a box: shares lie
        between 0 and `most`, other variables are taken to lie within ten times their value, or,
        where they are a policy's `own`, their unit.
        """
        program, reduced = self._solver.highs.program, self._solver.reduced
        # A variable about 0 has room as well.
        unit = scales_of_all_numbers(program).column if own else 1e-6
        upper = 10 * np.maximum(np.abs(first.x), unit)
        lower = -upper
        lower[self._cells], upper[self._cells] = 0.0, most
        worst = np.minimum(reduced * lower, reduced * upper).sum()
        return float(worst - program.b @ first.y) * program.cost_scale + program.offset


_FEASIBLE = 1e-7
"""How far, in scaled numbers, the choice among the optima may miss a constraint of theirs."""
_SECOND = 1e-8
"""Largest error in the optimality conditions of the choice among the optima."""
