"""HiGHS kept alive: load a linear program once, change numbers, solve again from the last basis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from apportion.policies.solving.highs import LoadedHighs

if TYPE_CHECKING:
    from apportion.policies.solving.cone import ConeProgram, Point
    from apportion.types import Bools, Floats, Ints


_HOLDS = 1e-9
"""Least dual value of a row that certainly holds."""
_INDEPENDENT = 1e-5
"""Least part of a column, of length 1, that is no combination of others."""


class PersistentHighs(LoadedHighs):
    """A linear program in HiGHS whose numbers change; see `LoadedHighs`.

    Attributes
    ----------
    program
        The program as it is now, every change included.
    loads
        How often a whole program was passed to HiGHS, changes of single numbers aside.
    """

    loads = 0

    def load(self, program: ConeProgram) -> None:
        """Pass a whole program; the next `solve` begins with the last basis if it still fits."""
        basis = self._solver.getBasis() if self.loads else None
        own = replace(
            program,
            A=program.A.copy(),
            b=program.b.copy(),
            c=program.c.copy(),
            equality=program.equality.copy(),
        )
        super().load(own)
        self._column_of = np.repeat(np.arange(program.c.size), np.diff(program.A.indptr))
        self._place = np.cumsum(self._kept) - 1
        self.loads += 1
        if basis is not None and basis.valid:
            same = (len(basis.col_status), len(basis.row_status)) == (
                program.c.size,
                self._row.size,
            )
            if same:
                self._solver.setBasis(basis)

    def update(self, program: ConeProgram) -> int:
        """Turn the program into another one by as few changes as there are differences.

        Returns
        -------
        int
            Numbers changed, or -1 if entries lie elsewhere and the whole program was passed.
        """
        A, now = program.A, self.program
        alike = (
            A.shape == now.A.shape
            and np.array_equal(A.indptr, now.A.indptr)
            and np.array_equal(A.indices, now.A.indices)
            and program.linear == now.linear
        )
        if not alike:
            self.load(program)
            return -1
        turned = np.flatnonzero(now.equality != program.equality)
        entries = np.flatnonzero(now.A.data != A.data)
        limits = np.flatnonzero(now.b != program.b)
        costs = np.flatnonzero(now.c != program.c)
        if not (self._kept[A.indices[entries]].all() and self._kept[limits].all()):
            self.load(program)  # what is a bound of a column here may be one no longer
            return -1
        if turned.size:
            self._turn(turned)
        self.change_entries(entries, A.data[entries])
        self.change_limits(limits, program.b[limits])
        self.change_costs(costs, program.c[costs])
        scale = program.offset, program.cost_scale
        if scale != (now.offset, now.cost_scale):
            self.program = replace(self.program, offset=scale[0], cost_scale=scale[1])
        return entries.size + limits.size + costs.size + turned.size

    def _turn(self, rows: Ints) -> None:
        """Turn inequalities into equalities and equalities into inequalities."""
        now = self.program
        now.equality[rows] = ~now.equality[rows]
        self._least = np.where(now.equality, -np.inf, 0.0)
        self.change_limits(rows, now.b[rows])
        mine = np.flatnonzero(np.isin(self._bound_row, rows) & ~self.aside[self._bound_column])
        columns = self._bound_column[mine]
        above = np.where(now.equality[self._bound_row[mine]], 0.0, np.inf)
        self._bound_columns(columns, self._lower[columns], above)

    def change_entries(self, entries: Ints, values: Floats) -> None:
        """Give entries of ``program.A``, by their places in its data, new values."""
        A = self.program.A
        A.data[entries] = values
        row = self._place[A.indices[entries]].tolist()
        column = self._column_of[entries].tolist()
        for at_row, at_column, value in zip(row, column, values.tolist(), strict=True):
            self._solver.changeCoeff(at_row, at_column, value)

    def change_column(self, column: int, rows: Ints, values: Floats) -> None:
        """Give a column new coefficients in some rows in which it has entries."""
        start, stop = self.program.A.indptr[column : column + 2]
        inside = self.program.A.indices[start:stop]
        order = np.argsort(inside, kind="stable")
        self.change_entries(start + order[np.searchsorted(inside[order], rows)], values)

    def change_limits(self, rows: Ints, values: Floats) -> None:
        """Give some rows new right-hand sides."""
        self.program.b[rows] = values
        below = np.where(self.program.equality[rows], values, -np.inf)
        self._bound_rows(rows, below, values)

    def change_costs(self, columns: Ints, values: Floats) -> None:
        """Give some columns new costs."""
        self.program.c[columns] = values
        self._solver.changeColsCost(columns.size, columns.astype(np.int32), values)

    def set_aside(self, columns: Ints, rows: Ints) -> None:
        """Solve as if some columns and rows were not there, until they are brought back."""
        self.aside[columns], self.freed[rows] = True, True
        zero = np.zeros(columns.size)
        self._bound_columns(columns, zero, zero)
        nothing = np.full(rows.size, np.inf)
        self._bound_rows(rows, -nothing, nothing)

    def bring_back(self, columns: Ints, rows: Ints) -> None:
        """Undo `set_aside`."""
        self.aside[columns], self.freed[rows] = False, False
        fixed = self._bound_column[self.program.equality[self._bound_row]]
        above = np.where(np.isin(columns, fixed), 0.0, np.inf)
        self._bound_columns(columns, self._lower[columns], above)
        self.change_limits(rows, self.program.b[rows])

    def set_all_aside(self, columns: Bools, rows: Bools) -> None:
        """Set aside those columns and rows and no others, shapes (columns,) and (rows,)."""
        now_columns, now_rows = self.aside, self.freed
        for change, to in ((self.set_aside, True), (self.bring_back, False)):
            moved = (columns == to) & (now_columns != to), (rows == to) & (now_rows != to)
            if moved[0].any() or moved[1].any():
                change(np.flatnonzero(moved[0]), np.flatnonzero(moved[1]))

    def _only_optimum(self, y: Floats) -> bool:
        """Tell as for programs of which nothing is fixed, and then whether all is held indeed.

        A column that is fixed holds nothing while it is in the basis. What is not fixed, and has
        no dual value, is then determined if its columns are independent in the rows that hold.
        """
        if not super()._only_optimum(y):
            return False
        if not (self.aside.any() or self.program.equality.any()):
            return True
        fixed, held = self.aside.copy(), (y > _HOLDS) | self.program.equality
        fixed[self._bound_column[held[self._bound_row]]] = True
        held[self._bound_row] = held[self.freed] = False
        A, free = self.program.A, np.flatnonzero(~fixed)
        if free.size > np.count_nonzero(held):
            return False
        inside = held[A.indices] & ~fixed[self._column_of]
        place, row = np.cumsum(~fixed) - 1, np.cumsum(held) - 1
        matrix = np.zeros((free.size, int(row[-1]) + 1))
        matrix[place[self._column_of[inside]], row[A.indices[inside]]] = A.data[inside]
        size = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
        if not size.all():
            return False
        matrix /= size[:, None]
        factor, failed = lapack.dpotrf(matrix @ matrix.T, lower=True)
        return not failed and bool(np.diagonal(factor).min(initial=1.0) > _INDEPENDENT)

    @property
    def _is_whole(self) -> bool:
        """Whether nothing is set aside; rows may be lifted though every column is there."""
        return not (self.aside.any() or self.freed.any())

    def there(self) -> ConeProgram:
        """Return the program without the columns and rows that are set aside."""
        if self._is_whole:
            return self.program
        program, row, column = self.program, ~self.freed, ~self.aside
        A, columns = program.A, int(np.count_nonzero(column))
        inside = row[A.indices] & column[self._column_of]
        place = (np.cumsum(row) - 1)[A.indices[inside]].astype(np.int32)
        starts = np.append(0, np.cumsum(inside))[A.indptr[np.append(column, True)]]
        entries = A.data[inside], place, starts.astype(np.int32)
        return replace(
            program,
            P=sparse.csc_array((columns, columns)),  # of linear programs there is nothing in it
            c=program.c[column],
            A=sparse.csc_array(entries, shape=(int(np.count_nonzero(row)), columns)),
            b=program.b[row],
            equality=program.equality[row],
        )

    def of_there(self, point: Point) -> Point:
        """Restrict a point to what is not set aside."""
        if self._is_whole:
            return point
        return point.at(point.x[~self.aside], point.y[~self.freed])

    def everywhere(self, point: Point) -> Point:
        """Extend a point of `there` to the whole program, by zeros."""
        if self._is_whole:
            return point
        x, y = np.zeros(self.aside.size), np.zeros(self.freed.size)
        x[~self.aside], y[~self.freed] = point.x, point.y
        return point.at(x, y)

    def _bound_rows(self, rows: Ints, lower: Floats, upper: Floats) -> None:
        kept = self._kept[rows]
        lower = np.where(self.freed[rows], -np.inf, lower)
        upper = np.where(self.freed[rows], np.inf, upper)
        places = self._place[rows[kept]].astype(np.int32)
        change = self._solver.changeRowsBounds  # pyright: ignore[reportAttributeAccessIssue]
        change(places.size, places, lower[kept], upper[kept])

    def _bound_columns(self, columns: Ints, lower: Floats, upper: Floats) -> None:
        places = columns.astype(np.int32)
        self._solver.changeColsBounds(columns.size, places, lower, upper)

    def forget(self) -> None:
        """Drop the basis: the next `solve` begins from nothing."""
        self._solver.clearSolver()

    def violation(self, point: Point) -> float:
        """Tell by how much a point misses a constraint, relative to limits above 1."""
        A, b = self.program.A, self.program.b
        terms = A.data * point.x[self._column_of]
        excess = np.bincount(A.indices, weights=terms, minlength=b.size) - b
        short = np.where(self.program.equality, np.abs(excess), excess)
        short /= np.maximum(1.0, np.abs(b))
        short[self.freed] = 0.0
        return float(short.max(initial=0.0))

    def optimality_error(self, point: Point) -> tuple[float, Floats]:
        """Tell by how much a point misses the optimality conditions, and its reduced costs.

        Returns
        -------
        error
            The largest of `violation`, what is missing in ``c + A'y = 0``, and the distance of the
            two objectives, relative to the cost if that is above 1.
        reduced
            ``c + A'y``, zero in columns that are set aside, shape (columns,).
        """
        program, x, y = self.program, point.x, point.y
        terms = program.A.data * y[program.A.indices]
        reduced = np.bincount(self._column_of, weights=terms, minlength=x.size) + program.c
        reduced[self.aside] = 0.0
        cost = float(program.c @ x)
        between = abs(cost + float(program.b @ y)) / max(1.0, abs(cost))
        error = max(self.violation(point), float(np.abs(reduced).max(initial=0.0)), between)
        return (error if np.isfinite(error) else np.inf), reduced
