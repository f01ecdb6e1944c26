"""A problem with counts as its parameters, in HiGHS: new counts change a few of its numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import cvxpy as cp
import numpy as np

from apportion.policies.solving.canonical import cone_program
from apportion.policies.solving.cone import Scales
from apportion.policies.solving.solvers.parametric_program import ParametricProgram
from apportion.policies.solving.solvers.warm_highs import WarmSolver

if TYPE_CHECKING:
    from apportion.policies.sessions.counted_problem import CountedProblem
    from apportion.policies.solving.cone import ConeProgram
    from apportion.policies.solving.solvers.highs import PersistentHighs
    from apportion.policies.solving.solvers.parametric_program import Moves
    from apportion.types import Floats, Ints


Route = Literal["direct deltas", "parametrised"]
"""How new counts reach HiGHS: as the numbers that they move, or through cvxpy's parameters."""

_FEW = 0.2
"""Share of the counts up to which their numbers are changed one by one."""


class CountedSolver:
    """A problem over classes of identical jobs in HiGHS, for counts that change.

    A class without jobs is set aside exactly: its shares are held at zero and its own constraints
    (those in which no other class has a share) are lifted, as if it were not there.

    Parameters
    ----------
    p, declared
        What the policy reads, and its problem, with the counts as a parameter.

    Attributes
    ----------
    solver
        Has the problem, in scaled numbers.
    scales
        Of its rows and columns.
    cells
        Columns of the shares, class by class for each option.
    count
        Jobs of each class, shape (classes,).
    there
        Whether a class has any, shape (classes,).
    """

    def __init__(self, p: CountedProblem, declared: cp.Problem) -> None:
        self._p, self._declared = p, declared
        plain = ParametricProgram.of(declared, p.count)
        self._rows = plain.base.rows
        self.scales = Scales.of(plain.base)
        self._program = plain.scaled(self.scales)
        self.solver = WarmSolver(self._program.base)
        self.count = p.instance.count
        self.there = np.ones(p.instance.jobs, dtype=bool)
        start = plain.base.columns[p.X.id]
        self.cells = slice(start, start + p.X.size)
        self._moves: dict[int, Moves] = {}
        self._own_rows = _own_rows(plain.base, self.cells, p.instance.jobs)

    def rows_of(self, constraint: cp.Constraint) -> slice:
        """Return the rows of a constraint."""
        return self._rows[constraint.id]

    def change(self, count: Floats, route: Route) -> int:
        """Bring new counts into HiGHS; return how many numbers of the problem they moved."""
        moved = np.flatnonzero(count != self.count)
        if route == "parametrised":
            changed = self._through_cvxpy(count)
        elif moved.size > _FEW * count.size:
            changed = self.solver.highs.update(self._program.at(count))
        else:
            changed = sum(self._move(place, count) for place in moved.tolist())
        self.count = count.copy()
        self.there = count > 0
        self.set_aside(self.solver.highs)
        return changed

    def set_aside(self, highs: PersistentHighs) -> None:
        """Set the classes without jobs aside in a solver, and bring those back that have some."""
        start, classes = self.cells.start, self.there.size
        as_it_was = self.there == highs.aside[start : start + classes]
        for place in np.flatnonzero(as_it_was).tolist():
            columns = np.arange(start + place, self.cells.stop, classes)
            change = highs.bring_back if self.there[place] else highs.set_aside
            change(columns, self._own_rows[place])

    def _through_cvxpy(self, count: Floats) -> int:
        """Set cvxpy's parameter, have it apply the values, and pass on what differs."""
        self._p.count.value = count
        data, _, inverse = self._declared.get_problem_data(cp.CLARABEL, solver_opts={})
        program = cone_program(data, float(inverse[-1]["offset"]))
        return self.solver.highs.update(self.scales.scale(program))

    def _move(self, place: int, count: Floats) -> int:
        """Change the numbers that the count of one class moves."""
        if place not in self._moves:
            self._moves[place] = self._program.moves(place)
        moves, highs = self._moves[place], self.solver.highs
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
