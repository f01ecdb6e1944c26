"""One linear program after the other in HiGHS, to as many digits as are asked for.

The program is ``max t`` such that ``u(x) >= held + t * wanted`` and whatever else holds of x; only
``held`` and ``wanted`` change. Every row is an equation, with its slack as one more column. HiGHS
stops at errors of 1e-10, more than some jobs are to have. Refined, the errors of its point become
the limits and costs of a program of the same matrix, scaled up to 1, whose point corrects the
first; and so on (Gleixner, Steffy, Wolter, "Iterative refinement for linear programming", 2016).
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
from scipy import sparse

from apportion.errors import SolveError
from apportion.policies.core.certificate import dual_bound, violation
from apportion.policies.core.conic import optimum
from apportion.policies.core.highs import linear_optimum

if TYPE_CHECKING:
    from apportion.policies.core.canonical import Point, Program
    from apportion.types import Bools, Floats

PRECISE = Context(prec=120, traps=[])
"""Arithmetic of decimals in which points are refined."""
EXACT, TIE = 1e-33, 1e-21
"""Error of a refined point, and dual value of one that may be zero, in numbers around 1."""
_STEP, _FAR, _APART, _MOST_ROUNDS = 2.0**40, 1e6, 1e6, 40
"""Digits that one round adds at most, what is as good as infinite to it, by how much more the two
objectives may differ than either side is off, and rounds."""
decimals: Any = np.frompyfunc(Decimal, 1, 1)
"""Turns floats into the decimals that they are."""


class LevelProgram:
    """A linear program whose demands on the jobs change.

    Parameters
    ----------
    program
        Capacities, the time of each job, what is demanded of each job (at least t) and whatever
        else is stated, all of it linear. Bounds are 0 or infinite.
    column
        Place of t.
    times
        Rows of the time of each job.

    Attributes
    ----------
    program
        The same in numbers around 1, without t.
    rows, unit
        The demands, and by what they are multiplied there, shape (jobs,) each.
    point, reduced
        The last point, and the reduced costs of its columns and slacks.
    every, solved
        Columns and slacks that need not be 0, nothing being known yet; programs that were solved.
    error
        By what part of itself t may be larger.
    """

    point: Point

    def __init__(self, program: Program, column: int, times: slice) -> None:
        A = program.A.copy()
        self._entries, self.column = slice(A.indptr[column], A.indptr[column + 1]), column
        A.data[self._entries] = 0.0
        scaled = replace(program, A=A, c=np.zeros(A.shape[1])).scaled()
        self.rows, self._size, limits = A.indices[self._entries], scaled.c.size, scaled.b.size
        scaled.column[column], scaled.c[column] = 1.0, -1.0
        self.program, self.unit, self._times = scaled, scaled.row[self.rows], times
        slack = np.where(scaled.equality, 0.0, np.inf)
        self._program = replace(
            scaled,
            P=sparse.csc_array((self._size + limits,) * 2),
            c=np.append(scaled.c, np.zeros(limits)),
            A=sparse.csc_array(sparse.hstack([scaled.A, sparse.eye_array(limits)])),
            equality=np.ones(limits, dtype=bool),
            lower=np.append(scaled.lower, np.zeros(limits)),
            upper=np.append(scaled.upper, slack),
        )
        self.every, self.solved = self._program.upper > 0, 0
        self._basis = self._slacks()

    def _slacks(self) -> highspy.HighsBasis:
        """Return the basis of what limits leave."""
        status, basis = highspy.HighsBasisStatus, highspy.HighsBasis()
        finite = np.isfinite(self._program.lower[: self._size]).tolist()
        at_limit = [status.kLower if each else status.kZero for each in finite]
        rows = self.program.b.size
        basis.col_status = [*at_limit, *[status.kBasic] * rows]
        basis.row_status = [status.kLower] * rows
        basis.valid = True
        return basis

    def most(self, open_: Bools, *, exact: bool) -> Any:
        """Return what each job makes with all of its time on some columns, infinite if not known.

        That is known if more of a column takes time, and it is no less than 0. In floats or in
        decimals, shape (jobs,).
        """
        A, b, known = self.program.A.tocsr(), self.program.b, np.ones(self.rows.size, dtype=bool)
        entries = A[self.rows].tocoo()
        (job, cell), made = entries.coords, -entries.data
        needed = np.asarray(A[self._times].tocsr()[job, cell]).ravel()
        here = cell != self.column
        strange = here & ((needed <= 0) | (made < 0) | (self.program.lower[cell] < 0))
        known[job[strange]] = False
        own, told = here & open_[cell] & known[job], decimals if exact else np.asarray
        most = told(np.zeros(known.size))
        np.maximum.at(most, job[own], told(made[own]) / told(needed[own]))
        most = (most * told(b[self._times]) + told(b[self.rows])) / told(self.unit)
        return np.where(known, most, np.inf)

    def posed(self, held: Floats, wanted: Floats, program: Program) -> Program:
        """Return a program, with or without slacks, that demands something of each job."""
        A, b = program.A.copy(), program.b.copy()
        A.data[self._entries] = wanted * self.unit
        b[self.rows] -= held * self.unit
        return replace(program, A=A, b=b)

    def maximise(self, held: Any, wanted: Any) -> tuple[Any, Any]:
        """Return the largest t, and the dual values of the demands, whose sum times wanted is 1.

        Parameters
        ----------
        held, wanted
            Floats, or decimals for a refined point; shape (jobs,).

        Raises
        ------
        SolveError
            If HiGHS finds no optimum.
        """
        rough = np.asarray(wanted, dtype=float)
        size = float(_power_of_two((rough @ self.unit) / np.count_nonzero(rough)))
        posed = self.posed(np.asarray(held, dtype=float), rough / size, self._program)
        point, self.solved = self._solve(posed), self.solved + 1
        self._basis = point.basis or self._slacks()
        if wanted.dtype == float:
            self._keep(posed, point)
            return point.x[self.column] / size, self.point.y[self.rows] * self.unit / size
        unit = decimals(self.unit)
        x, y, paid = self._refined(posed, point, held * unit, wanted * unit / Decimal(size))
        self.point = replace(point, x=np.asarray(x, dtype=float), y=np.asarray(y, dtype=float))
        self.reduced, self.error = np.asarray(paid, dtype=float), EXACT
        return x[self.column] / Decimal(size), y[self.rows] * unit / Decimal(size)

    def _solve(self, posed: Program) -> Point:
        """Solve from the last basis, or if that ends badly from what limits leave."""
        for basis in (self._basis, self._slacks()):
            point = linear_optimum(posed, basis)
            if point.status == "optimal":
                return point
        # What HiGHS calls it does not matter: all that it misses is counted.
        return point if point.status == "Unknown" else optimum(posed)

    def _keep(self, posed: Program, point: Point) -> None:
        """Keep a point, and what its dual values prove: no allocation has a larger t than that.

        Shares of time are up to 1; variables of a policy's own are taken to be within ten times
        their value.
        """
        x = point.x
        y = np.where(posed.upper[self._size :] > 0, np.maximum(point.y, 0.0), point.y)
        most = 10 * np.abs(x)
        most[: self._size] = np.maximum(most[: self._size], 1 / self.program.column)
        lower, upper = np.maximum(posed.lower, -most), np.minimum(posed.upper, most)
        t, sizes = float(x[self.column]), np.abs(posed.b) @ np.abs(y)
        apart = abs(dual_bound(replace(posed, offset=0.0), 0 * x, y, lower, upper) + t)
        missed = violation(posed, x) * float(np.abs(y).sum()) if not point.exact else 0.0
        self.error = (apart + missed + 2.0**-52 * float(sizes)) / max(t, 1e-300)
        self.point, self.reduced = replace(point, y=y), posed.reduced(0 * x, y)

    def _refined(
        self, posed: Program, point: Point, held: Any, wanted: Any
    ) -> tuple[Any, Any, Any]:
        """Correct a point, round by round, in decimals; with its reduced costs."""
        row, column = posed.A.indices, np.repeat(np.arange(posed.c.size), np.diff(posed.A.indptr))
        data, b = decimals(posed.A.data), decimals(self.program.b)
        data[self._entries] = wanted
        b[self.rows] -= held
        x, y = decimals(point.x), decimals(point.y)
        low, up = np.isfinite(posed.lower), np.isfinite(posed.upper)
        primal = dual = 1.0
        for turn in range(_MOST_ROUNDS):
            left, paid = b.copy(), decimals(posed.c)
            np.subtract.at(left, row, data * x[column])
            np.add.at(paid, column, data * y[row])
            near, costs, short = (np.asarray(each, dtype=float) for each in (x, paid, left))
            missed = max(np.abs(short).max(), -near[low].min(), near[up].max(initial=0.0))
            over = max(-costs[~up].min(), np.abs(costs[~(up | low)]).max())
            apart = abs(float(b @ y - x[self.column]))
            if max(missed, over, apart) <= EXACT:
                return x, y, paid
            primal, dual = _scale(missed, primal), _scale(over, dual)
            if apart > _APART * max(missed, over):  # what is left is far on one side
                far = float(_power_of_two(1 / apart))
                primal, dual = (1.0, far) if turn % 2 else (far, 1.0)
            now = replace(
                posed,
                c=np.minimum(dual * costs, _FAR),
                b=primal * short,
                lower=np.where(low, np.maximum(-primal * near, -_FAR), -np.inf),
                upper=np.where(up, -primal * near, np.inf),
            )
            by = self._solve(now)
            x, y = x + decimals(by.x) / Decimal(primal), y + decimals(by.y) / Decimal(dual)
        raise SolveError("Water filling found no level to enough digits.")


def _scale(error: float, last: float) -> float:
    """Return by what an error is 1, at most so many times the last scale."""
    return float(_power_of_two(max(min(1 / max(error, EXACT), last * _STEP), 1.0)))


def _power_of_two(sizes: Any) -> Any:
    """Return the nearest powers of two: what is scaled by them is the same to the last bit."""
    return 2.0 ** np.round(np.log2(sizes))
