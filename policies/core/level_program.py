"""One linear program after the other in HiGHS, to as many digits as are asked for.

The program is ``max t`` such that ``u(x) >= t * wanted`` and whatever else holds of x; only
``wanted`` changes. HiGHS stops at errors of 1e-10, more than some jobs are to have. Refined, the
errors of its point become the limits and costs of a program of the same matrix, scaled up to 1,
whose point corrects the first; and so on. Sums are kept in whole numbers of 2**-400 meanwhile
(Gleixner, Steffy, Wolter, "Iterative refinement for linear programming", 2016).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
from scipy import sparse

from apportion.errors import SolveError
from apportion.policies.core.canonical import Point

if TYPE_CHECKING:
    from apportion.policies.core.canonical import Program
    from apportion.types import Bools, Floats, Ints

_LOG = logging.getLogger(__name__)
_ONE = 1 << 400
"""The number 1 in units of whole numbers."""
EXACT, TIE = 2.0**-110, 2.0**-70
"""Error of a refined point, and dual value of one that may be zero, in numbers around 1."""
_ROUNDING = 2.0**-40
"""Error of a point of HiGHS that is no rounding error, in numbers around 1."""
_STEP, _FAR, _APART, _MOST_ROUNDS = 2.0**40, 1e9, 1e6, 40
"""Digits that one round adds at most, what is as good as infinite to it, by how much more the two
objectives may differ than either side is off, and rounds."""
_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "simplex_strategy": 4,  # primal: what is reached is feasible in the next program
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
    "small_matrix_value": 1e-12,
}
_whole: Any = np.frompyfunc(lambda number: int(Fraction(number) * _ONE), 1, 1)


def fractions(numbers: Any) -> Any:
    """Return floats as the fractions that they are; shape as given."""
    return np.array([Fraction(each) for each in np.ravel(numbers).tolist()], dtype=object).reshape(
        np.shape(numbers)
    )


def _times(one: Any, other: Any) -> Any:
    """Multiply whole numbers of units."""
    return (one * other) // _ONE


def _floats(numbers: Any) -> Floats:
    """Return whole numbers of units as floats."""
    return np.asarray(numbers / _ONE, dtype=float)


class LevelProgram:
    """A linear program whose demands on the jobs change.

    Parameters
    ----------
    program
        Capacities, the time of each job, what is demanded of each job (at least t) and whatever
        else is stated, all of it linear. Bounds are 0 or infinite.
    column
        Place of t.
    capacities, jobs
        Rows of the first kind, and of the second.

    Attributes
    ----------
    program
        The same in numbers around 1, without t.
    rows
        The demands, shape (jobs,).
    x, y, reduced
        Columns, dual values of rows and reduced costs of columns in the last point, scaled.
    every, solved
        Nothing known of columns and rows yet; programs that were solved.
    error
        By what part of itself t may be larger.
    """

    error: float

    def __init__(self, program: Program, column: int, capacities: int, jobs: int) -> None:
        A = program.A.copy()
        entries = slice(A.indptr[column], A.indptr[column + 1])
        self.rows, self.column = np.sort(A.indices[entries]), column
        A.data[entries] = 0.0
        A.eliminate_zeros()
        scaled = replace(program, A=A, c=np.zeros(A.shape[1])).scaled()
        scaled.column[column] = 1.0
        self._capacity, self._time = slice(capacities), slice(capacities, capacities + jobs)
        limits, self._size = scaled.b.size, scaled.c.size
        self._costs = np.zeros(self._size + limits)
        self._costs[column] = -1.0
        self.program = replace(scaled, c=self._costs[: self._size])
        self._entries, self._b = np.zeros(jobs), scaled.b
        low = np.where(np.isfinite(scaled.lower), 0.0, -np.inf)
        self._lower = np.append(low, np.zeros(limits))
        up = np.append(np.isfinite(scaled.upper), scaled.equality)
        self._upper = np.where(up, 0.0, np.inf)
        both = sparse.hstack([scaled.A, sparse.eye_array(limits)], format="csc")
        self._A = both.tocoo()
        self._exact: tuple[Any, Any] | None = None
        self.every = ~up[: self._size], scaled.equality.copy()
        self.solved = 0
        self._load(both)

    @property
    def unit(self) -> Floats:
        """By what what is demanded of each job is multiplied, shape (jobs,)."""
        return self.program.row[self.rows]

    @cached_property
    def _makes(self) -> tuple[Ints, Ints, Floats, Floats, Bools]:
        """What jobs make: job, column, how much of what rises for how much time, and all of whom.

        The last are the jobs of whom that is known: more of a column takes time, and it is no less
        than 0.
        """
        A, entries = self.program.A.tocsr(), self.program.A.tocsr()[self.rows].tocoo()
        (job, cell), made = entries.coords, -entries.data
        needed = np.asarray(A[self._time][job, cell]).ravel() if job.size else made
        strange = (needed <= 0) | (made < 0) | (self._lower[cell] < 0)
        return (
            np.asarray(job, dtype=np.intp),
            np.asarray(cell, dtype=np.intp),
            made,
            needed,
            ~np.isin(np.arange(self.rows.size), job[strange]),
        )

    def most(self, open_: Bools, *, exact: bool) -> Any:
        """Return what each job makes with all of its time on some columns, infinite if not known.

        In floats or in fractions, shape (jobs,).
        """
        job, cell, made, needed, known = self._makes
        told = fractions if exact else np.asarray
        own, b = open_[cell] & known[job], self.program.b
        most = told(np.zeros(known.size))
        np.maximum.at(most, job[own], told(made[own]) / told(needed[own]))
        most = (most * told(b[self._time]) + told(b[self.rows])) / told(self.unit)
        return np.where(known, most, np.inf)

    @cached_property
    def worth(self) -> tuple[Floats, float]:
        """What all GPUs bound: ``sum of worth * u <= bound``, as all of each type are worth one.

        What one makes costs the part of a type that it needs for it at least. Zeros where that
        cannot be told.
        """
        job, cell, made, _, known = self._makes
        b, capacity = self.program.b, self._capacity
        there = b[capacity] > 0
        part = np.divide(1.0, b[capacity], out=np.zeros(there.size), where=there)
        cost = np.maximum(part @ self.program.A.tocsr()[capacity], 0.0)
        cost /= np.maximum(np.bincount(cell, minlength=cost.size), 1)  # each pays its part
        worth = np.full(self.rows.size, np.inf)
        np.minimum.at(worth, job[known[job]], (cost[cell] / made)[known[job]])
        worth[np.isinf(worth)] = 0.0
        return worth * self.unit, float(np.count_nonzero(there) + worth @ b[self.rows])

    def _load(self, A: sparse.csc_array) -> None:
        """Pass the program to HiGHS, which begins with what limits leave as the basis."""
        self._highs, program = highspy.Highs(), highspy.HighsLp()
        for option, value in _OPTIONS.items():
            self._highs.setOptionValue(option, value)
        program.num_row_, program.num_col_ = A.shape
        program.col_cost_, program.col_lower_, program.col_upper_ = (
            self._costs,
            self._lower,
            self._upper,
        )
        program.row_lower_ = program.row_upper_ = self._b
        matrix = program.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kColwise
        matrix.start_, matrix.index_, matrix.value_ = A.indptr, A.indices, A.data
        self._highs.passModel(program)
        status = highspy.HighsBasisStatus
        finite = np.isfinite(self._lower[: self._size]).tolist()
        of_column = [status.kLower if each else status.kZero for each in finite]
        basis = highspy.HighsBasis()
        basis.col_status = [*of_column, *[status.kBasic] * A.shape[0]]
        basis.row_status = [status.kLower] * A.shape[0]
        basis.valid = True
        self._highs.setBasis(basis)

    def maximise(self, wanted: Any, *, exact: bool) -> tuple[Any, Any]:
        """Return the largest t, and the dual values of the demands, whose sum times wanted is 1.

        Parameters
        ----------
        wanted
            Floats, or fractions for a refined point; shape (jobs,).

        Raises
        ------
        SolveError
            If HiGHS finds no optimum.
        """
        unit = self.unit
        size = float(_power_of_two(np.asarray(wanted, dtype=float) @ unit / wanted.size))
        entries = np.asarray(wanted, dtype=float) * unit / size
        for job in np.flatnonzero(entries != self._entries).tolist():
            self._highs.changeCoeff(int(self.rows[job]), self.column, entries[job])
        self._entries, self.solved = entries, self.solved + 1
        x, y = self._run()
        if not exact:
            missed = self._misses(x)
            if missed > _ROUNDING:  # by a little, which others may have a lot of
                try:
                    start = _whole(x), _whole(y), _whole(entries)
                    x, y = map(_floats, self._refined(*start, _ROUNDING * _ROUNDING)[:2])
                    missed = 0.0
                except SolveError as error:
                    _LOG.info("kept a point that misses limits by %.1e: %s", missed, error)
            self._keep(x, y)
            if missed > _ROUNDING:
                self.error += missed * float(np.abs(y).sum()) / max(abs(x[self.column]), 1e-300)
            return x[self.column] / size, y[self.rows] * unit / size
        entries = _times(_whole(wanted), _whole(unit / size))
        x, y, paid = self._refined(_whole(x), _whole(y), entries, EXACT)
        self._keep(_floats(x), _floats(y))
        self.reduced, self.error = _floats(paid[: self._size]), EXACT
        scale = Fraction(size) * _ONE
        dual = np.array([Fraction(each) for each in y[self.rows].tolist()], dtype=object)
        return Fraction(x[self.column]) / scale, dual * fractions(unit) / scale

    def _run(self) -> tuple[Floats, Floats]:
        """Solve from the last basis, or from nothing, or by the dual method."""
        for strategy in (4, 4, 1):
            self._highs.setOptionValue("simplex_strategy", strategy)
            self._highs.run()
            status, found = self._highs.getModelStatus(), self._highs.getSolution()
            if status == highspy.HighsModelStatus.kOptimal:
                break
            self._highs.clearSolver()
        good = highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kUnknown
        if status not in good or not (found.value_valid and found.dual_valid):
            word = self._highs.modelStatusToString(status)
            raise SolveError(f"Water filling found no level: HiGHS says {word}.")
        # What HiGHS calls it does not matter: all that it misses is counted.
        return np.array(found.col_value), -np.array(found.row_dual)

    def _misses(self, x: Floats) -> float:
        """Return by how much a point misses a limit, at most, in numbers around 1."""
        left = self._b.copy()
        np.subtract.at(left, self._A.coords[0], self._A.data * x[self._A.coords[1]])
        left[self.rows] -= self._entries * x[self.column]
        return max(
            float(np.abs(left).max()),
            float((self._lower - x).max()),
            float((x - self._upper).max()),
        )

    def _keep(self, x: Floats, y: Floats) -> None:
        """Keep a point, and what its dual values prove: no allocation has a larger t than that.

        Shares of time are up to 1; variables of a policy's own are taken to be within ten times
        their value.
        """
        row, column, data = self._A.coords[0], self._A.coords[1], self._A.data
        free = np.isfinite(self._upper[self._size :])
        y = np.where(free, y, np.maximum(y, 0.0))
        paid = self._costs.copy()
        np.add.at(paid, column, data * y[row])
        paid[self.column] += self._entries @ y[self.rows]
        self.x, self.reduced = x[: self._size], paid[: self._size]
        most = np.maximum(1 / self.program.column, 10 * np.abs(self.x))
        low, up = self._lower[: self._size], self._upper[: self._size]
        short = np.where(up > 0, np.where(low < 0, np.abs(self.reduced), -self.reduced), 0.0)
        t, rounding = abs(float(self.x[self.column])), 2.0**-52 * float(np.abs(self._b) @ np.abs(y))
        bound = float(self._b @ y) + float(np.maximum(short, 0.0) @ most)
        self.error = (abs(bound - t) + rounding) / max(t, 1e-300)
        self.y = y

    def posed(self, wanted: Floats) -> Program:
        """Return the program that demands something."""
        entries = (wanted * self.unit, (self.rows, np.full(self.rows.size, self.column)))
        A = self.program.A + sparse.csc_array(entries, shape=self.program.A.shape)
        return replace(self.program, A=sparse.csc_array(A))

    def point(self) -> Point:
        """Return the last point."""
        return Point(self.x, self.y, "optimal", "highs", exact=True)

    def _refined(self, x: Any, y: Any, entries: Any, until: float) -> tuple[Any, Any, Any]:
        """Correct a point, round by round, in whole numbers of units; with its reduced costs."""
        if self._exact is None:
            self._exact = _whole(self._A.data), _whole(self._b)
        data, b = self._exact
        row, column = self._A.coords
        primal = dual = 1.0
        held, slack = np.isfinite(self._lower), np.isfinite(self._upper)
        for turn in range(_MOST_ROUNDS):
            left, paid = b.copy(), _whole(self._costs)
            np.subtract.at(left, row, _times(data, x[column]))
            left[self.rows] -= _times(entries, x[self.column])
            np.add.at(paid, column, _times(data, y[row]))
            paid[self.column] += _times(entries, y[self.rows]).sum()
            out = _floats(left), np.where(held, _floats(x), 0.0), np.where(slack, _floats(x), 0.0)
            missed = max(np.abs(out[0]).max(), -out[1].min(), out[2].max())
            costs = np.where(slack, 0.0, _floats(paid))
            over = max(-costs[held].min(), np.abs(costs[~held]).max())
            apart = abs(_floats(-x[self.column] + _times(b, y).sum()))
            if max(missed, over, apart) <= until:
                break
            primal, dual = _scale(missed, primal), _scale(over, dual)
            if apart > _APART * max(missed, over):  # what is left is far on one side
                far = float(_power_of_two(1 / apart))
                primal, dual = (1.0, far) if turn % 2 else (far, 1.0)
            lower = np.where(held, np.maximum(-primal * _floats(x), -_FAR), -np.inf)
            upper = np.where(slack, -primal * _floats(x), np.inf)
            self._pose(np.minimum(dual * _floats(paid), _FAR), lower, upper, primal * _floats(left))
            try:
                by_x, by_y = self._run()
            finally:
                self._pose(self._costs, self._lower, self._upper, self._b)
            x, y = x + _whole(by_x) // int(primal), y + _whole(by_y) // int(dual)
        else:
            raise SolveError("Water filling found no level to enough digits.")
        return x, y, paid

    def _pose(self, costs: Floats, lower: Floats, upper: Floats, right: Floats) -> None:
        """Tell HiGHS of other costs and limits."""
        columns, rows = (np.arange(each, dtype=np.int32) for each in (costs.size, right.size))
        self._highs.changeColsCost(columns.size, columns, costs)
        self._highs.changeColsBounds(columns.size, columns, lower, upper)
        self._highs.changeRowsBounds(rows.size, rows, right, right)


def _scale(error: float, last: float) -> float:
    """Return by what an error is 1, at most so many times the last scale."""
    return float(_power_of_two(max(min(1 / max(error, EXACT * EXACT), last * _STEP), 1.0)))


def _power_of_two(sizes: Any) -> Any:
    """Return the nearest powers of two: what is scaled by them is the same to the last bit."""
    return 2.0 ** np.round(np.log2(sizes))
