"""Water filling in fractions: what decides where two answers in floating point differ.

A job may be left with a millionth of a GPU by what all others have; a linear program in floating
point, met to 1e-10, knows that to 1e-4 only. The simplex method in fractions makes no error. It
takes seconds, so it is asked only where the oracle in floating point and an answer disagree.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts

    Fractions = np.ndarray[Any, np.dtype[np.object_]]

NOTHING = Fraction(0)
DEGENERATE = 30  # pivots without progress after which the first column is taken (Bland's rule)


class Tableau:
    """Maximise z subject to ``A x + column z + s = b`` with x, z, s >= 0, by the simplex method.

    The columns are those of x, z and s, then the values of the basic ones.
    """

    def __init__(self, A: Floats, b: Floats) -> None:
        rows, self.z = A.shape
        parts = [A, np.zeros((rows, 1)), np.eye(rows), b[:, None]]
        self.table = _fractions(np.concatenate(parts, axis=1))
        self.cost = _fractions(np.zeros(self.table.shape[1]))
        self.basis = list(range(self.z + 1, self.z + 1 + rows))

    @property
    def _inverse(self) -> Fractions:
        return self.table[:, self.z + 1 : -1]

    def rise(self, column: Fractions) -> tuple[Fraction, Fractions]:
        """Return the largest z for a column of z, and the dual value of each row.

        The x stay where they are when the next column comes: z begins at zero again.
        """
        self._leave()
        self.table[:, self.z] = self._inverse @ column
        self.cost[:] = NOTHING
        self.cost[self.z] = Fraction(-1)
        still = 0
        while (entering := self._entering(still > DEGENERATE)) is not None:
            rows = np.flatnonzero(self.table[:, entering] > 0)
            ratio = self.table[rows, -1] / self.table[rows, entering]
            row = min(
                zip(ratio, (self.basis[r] for r in rows), rows, strict=True), key=lambda r: r[:2]
            )[2]
            still = still + 1 if self.table[row, -1] == 0 else 0
            self._pivot(int(row), entering)
        z = self.table[self.basis.index(self.z), -1] if self.z in self.basis else NOTHING
        self.table[:, -1] -= z * (self._inverse @ column)
        return z, self.cost[self.z + 1 : -1].copy()

    def _entering(self, first: bool) -> int | None:
        places = np.flatnonzero(self.cost[:-1] < 0)
        if not places.size:
            return None
        return int(places[0] if first else places[np.argmin(self.cost[places])])

    def _leave(self) -> None:
        """Bring z, which is zero, out of the basis."""
        if self.z in self.basis:
            row = self.basis.index(self.z)
            others = np.flatnonzero(self.table[row, :-1] != 0)
            self._pivot(row, int(others[others != self.z][0]))

    def _pivot(self, row: int, column: int) -> None:
        table = self.table
        table[row] = table[row] / table[row, column]
        filled = np.flatnonzero(table[row] != 0)
        for other in np.flatnonzero(table[:, column] != 0):
            if other != row:
                table[other, filled] -= table[other, column] * table[row, filled]
        self.cost[filled] = self.cost[filled] - self.cost[column] * table[row, filled]
        self.basis[row] = column


def exact_fill(facts: Facts, slope: Callable[[np.ndarray], Floats]) -> Floats:
    """Steps/s of every job after water filling, without any error but that of the data.

    Parameters
    ----------
    slope
        How fast the steps/s of each job rise, given which can still rise.
    """
    jobs = facts.case.jobs
    speeds = -facts.thr.toarray()
    A = np.concatenate([speeds, facts.time.toarray(), facts.gpus.toarray()])
    tableau = Tableau(A, np.concatenate([np.zeros(jobs), np.ones(jobs), facts.capacity]))
    active, steps = np.ones(jobs, dtype=bool), _fractions(np.zeros(jobs))
    while active.any():
        rising = _fractions(slope(active))
        column = np.concatenate([rising, _fractions(np.zeros(len(A) - jobs))])
        z, dual = tableau.rise(column)
        steps = steps + z * rising
        active &= ~(dual[:jobs] > 0).astype(bool)
    return steps.astype(float)


def _fractions(numbers: Floats) -> Fractions:
    made = np.empty(numbers.shape, dtype=object)
    made.ravel()[:] = [Fraction(number) for number in numbers.ravel().tolist()]
    return made
