"""Water filling without rounding errors, where those of floats would show in the levels.

Its programs build upon each other, and a simplex method in exact numbers solves them. What a float
leaves of a level may be all that the next one consists of. Here all numbers have hundreds of bits
(`apportion.policies.solving.worst_off.fixed_point`): a value is zero or it is not, whether a job is
a bottleneck is no matter of tolerances, and a program goes on exactly where the last one ended. The
inverse of the basis is held as a matrix, so this is for hundreds of rows, not for thousands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import SolveError
from apportion.policies.solving.cone import rows_that_are_bounds
from apportion.policies.solving.worst_off.demand_scaling import power_of_two
from apportion.policies.solving.worst_off.fixed_point import ONE, fixed, floats, product, quotient

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.compiled import Compiled
    from apportion.policies.solving.cone import ConeProgram
    from apportion.policies.solving.worst_off.fixed_point import Fixed
    from apportion.types import Bools, Floats

    Ints = NDArray[np.integer[Any]]


_NOTHING = ONE >> 256
"""What is not above this comes of cutting off bits."""
_STALLED = 20
"""Steps without progress after which the first column is taken, so that no basis comes twice."""


class ExactSimplex:
    """Maximise one column of a linear program ``A x + s = b``, again and again.

    Some of the x, and the s of inequalities, are at least 0; the s of equalities are 0. Rows of
    the program that are bounds of columns are such bounds here, and no rows.

    Parameters
    ----------
    program
        The program; its costs are not used. Its numbers are to be around 1.
    column
        The column to maximise, which is free, and whose entries may change.

    Attributes
    ----------
    row
        Rows of the program that are rows here.
    """

    def __init__(self, program: ConeProgram, column: int) -> None:
        bound_row, bound_column, _ = rows_that_are_bounds(program)
        kept = np.ones(program.b.size, dtype=bool)
        kept[bound_row] = False
        self.row = np.flatnonzero(kept)
        rows, self._columns, self._column = self.row.size, program.c.size, column
        entries = program.A[self.row].tocoo()
        self._at, self._of = (place.astype(np.intp) for place in entries.coords)
        self._data = fixed(entries.data)
        self._free = np.ones(self._columns + rows, dtype=bool)
        self._free[bound_column] = False
        self._free[self._columns :] = False
        self._none = np.zeros(self._columns + rows, dtype=bool)
        self._none[self._columns :] = program.equality[self.row]
        self._basis = self._columns + np.arange(rows)
        self._inverse = np.zeros((rows, rows), dtype=object)
        self._inverse[np.arange(rows), np.arange(rows)] = ONE
        self._value, self._still = np.zeros(rows, dtype=object), 0

    @property
    def x(self) -> Fixed:
        """Values of the columns, shape (columns,)."""
        x = np.zeros(self._columns + self.row.size, dtype=object)
        x[self._basis] = self._value
        return x[: self._columns]

    def maximise(self, entries: Floats, right: Fixed) -> tuple[Fixed, Fixed]:
        """Maximise the column, from where the last program ended.

        Parameters
        ----------
        entries
            Of the column now, shape (rows here,).
        right
            Right-hand sides now, shape (rows here,).

        Returns
        -------
        most
            The largest value, shape (1,).
        dual
            What one more unit on the right of a row adds to it, shape (rows here,).

        Raises
        ------
        SolveError
            If no point meets the constraints, or there is no largest value.
        """
        self._leave_column()
        others, at = self._of != self._column, np.flatnonzero(entries)
        self._at = np.concatenate([self._at[others], at])
        self._data = np.concatenate([self._data[others], fixed(entries[at])])
        self._of = np.concatenate([self._of[others], np.full(at.size, self._column)])
        self._value = _cut(product(self._inverse, right).sum(axis=1))
        self._still = 0
        nothing = np.zeros(self._free.size, dtype=object)
        while (worth := self._lacking()).any():
            if not self._step(worth, self._gains(worth, nothing)):
                raise SolveError("No point meets the constraints.")
        own = nothing.copy()
        own[self._column] = ONE
        while self._step(nothing[: right.size], self._gains(own[self._basis], own)):
            pass
        dual = product(own[self._basis][:, None], self._inverse).sum(axis=0)
        return self.x[[self._column]], dual

    def _lacking(self) -> Fixed:
        """Return what one unit more of each basic value is worth: 1 below its limit, else 0."""
        value, none = self._value, self._none[self._basis]
        below = (value < 0) & ~self._free[self._basis]
        above = none & (value > 0)
        return np.asarray((below.astype(object) - above.astype(object)) * ONE)

    def _gains(self, worth: Fixed, own: Fixed) -> Fixed:
        """Return what one unit of each x and s is worth, given what the basic values are."""
        price = product(worth[:, None], self._inverse).sum(axis=0)
        return _cut(own - self._priced(price))

    def _priced(self, price: Fixed) -> Fixed:
        """Multiply prices of the rows by the columns of all x and s."""
        of_x = np.zeros(self._columns, dtype=object)
        np.add.at(of_x, self._of, product(self._data, price[self._at]))
        return np.concatenate([of_x, price])

    def _step(self, worth: Fixed, gain: Fixed) -> bool:
        """Take what gains most into the basis; False if nothing gains any more."""
        able = np.where(self._free, gain != 0, gain > 0) & ~self._none
        able[self._basis] = False
        may = np.flatnonzero(able)
        if not may.size:
            return False
        stalled = self._still > _STALLED
        enters = int(may[0] if stalled else may[np.argmax(np.abs(gain[may]))])
        column = self._through(enters)
        falls = column if gain[enters] > 0 else -column
        places = np.flatnonzero(self._stops(falls, worth))
        if not places.size:
            raise SolveError("There is no largest value.")
        far = np.abs(quotient(self._value[places], falls[places]))
        first = places[far == far.min()]
        by = self._basis[first] if stalled else -np.abs(column[first])
        self._still = 0 if far.min() else self._still + 1
        self._pivot(int(first[np.argmin(by)]), enters, column)
        return True

    def _stops(self, falls: Fixed, worth: Fixed) -> Bools:
        """Tell which basic values stop a step, by how fast each falls: those that reach zero."""
        value, free = self._value, self._free[self._basis]
        none = self._none[self._basis] & (value == 0)
        to_zero = (falls > 0) & (worth <= 0) | (falls < 0) & (worth > 0)
        return np.asarray(~free & (to_zero | (none & (falls != 0))), dtype=bool)

    def _through(self, column: int) -> Fixed:
        """Multiply a column by the inverse of the basis."""
        if column >= self._columns:
            return np.asarray(self._inverse[:, column - self._columns].copy())
        inside = self._of == column
        at, data = self._at[inside], self._data[inside]
        return _cut(product(self._inverse[:, at], data).sum(axis=1))

    def _pivot(self, place: int, enters: int, column: Fixed) -> None:
        """Let a column take the place of a basic one."""
        row = self._inverse[place]
        inside = np.flatnonzero(row)
        row[inside] = quotient(row[inside], column[place])
        self._value[place] = quotient(self._value[place], column[place])
        others = np.flatnonzero(column)
        others = others[others != place]
        by = column[others]
        block = np.ix_(others, inside)
        self._inverse[block] = _cut(self._inverse[block] - product(by[:, None], row[inside]))
        self._value[others] = _cut(self._value[others] - product(by, self._value[place]))
        self._basis[place] = enters

    def _leave_column(self) -> None:
        """Take the column out of the basis, for whatever its row has the largest entry of."""
        for place in np.flatnonzero(self._basis == self._column):
            row = np.abs(self._priced(self._inverse[place]))
            row[self._basis] = row[self._none] = 0
            enters = int(np.argmax(row))
            self._pivot(int(place), enters, self._through(enters))


def _cut(numbers: Any) -> Fixed:
    """Return zeros for what comes of cutting off bits."""
    return np.where(np.abs(numbers) <= _NOTHING, 0, numbers)


class ExactFill:
    """Steps of water filling, each an exact linear program that begins where the last one ended.

    Parameters
    ----------
    compiled
        The program of a step, scaled by powers of two.
    rows
        Its demands, shape (jobs,).
    step
        Its column that all demands rise by.
    """

    def __init__(self, compiled: Compiled, rows: Ints, step: int) -> None:
        self._compiled, self._rows, self._step = compiled, rows, step
        self._simplex = ExactSimplex(compiled.program, step)
        self._unit = compiled.row[rows]
        self.binding, self.steps = np.zeros(rows.size, dtype=bool), 0

    def rise(self, base: Fixed, rate: Floats, active: Bools) -> tuple[Fixed, float]:
        """Raise all levels from `base` at their rates as far as they go."""
        self.steps += 1
        program, simplex, unit = self._compiled.program, self._simplex, self._unit
        fastest = power_of_two(float((rate * unit).max()))
        entries = np.zeros(program.b.size)
        entries[self._rows] = rate * unit / fastest
        right = fixed(program.b)
        right[self._rows] = -product(base, fixed(unit))
        most, dual = simplex.maximise(entries[simplex.row], right[simplex.row])
        of_row = np.zeros(program.b.size, dtype=object)
        of_row[simplex.row] = dual
        self.binding = active & (rate > 0) & (of_row[self._rows] > 0)
        return product(fixed(rate / fastest), most), float(floats(most)[0]) / fastest

    def keep(self) -> None:
        """Build upon the last step: there is nothing to remember."""

    def doubt(self, level: Floats) -> float:
        """Return zero: what bits are cut off is beyond any float."""
        return 0.0

    def allocation(self) -> Floats:
        """Return the allocation of the last step, which the problem's X takes."""
        return self._compiled.X_of(floats(self._simplex.x))
