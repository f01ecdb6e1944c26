"""Water filling in fractions: the lexicographic optimum without any rounding.

All jobs' levels rise together, each at its own rate, until some can rise no further whatever the
allocation; these keep what they have, and the others go on. With x[m, j] the share of time of job
m on type j, r[m] the rates of the jobs that still rise and has[m] the steps/s that each has, every
step is:

    maximise z   subject to   sum_j S[m, j] x[m, j] >= has[m] + r[m] z,
                              sum_j x[m, j] <= 1,   sum_m g[m] x[m, j] <= W[j],   x >= 0.

A job can rise no further if its row has a dual value. Fractions make no error, so no tolerance is
needed; a float counts as the fraction that it is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Row = dict[int, Fraction]
NOTHING = Fraction(0)
STILL = 20
"""Steps without progress after which the first column is taken, so that no step comes twice."""


class _Tableau:
    """Rows ``A x + s = b`` by their entries that are not zero, one basic column each."""

    def __init__(self, rows: list[Row], right: list[Fraction], columns: int) -> None:
        self.slack, self.z = columns, columns + len(rows)
        self.rows = [row | {columns + at: Fraction(1)} for at, row in enumerate(rows)]
        self.right, self.basis = right, [columns + at for at in range(len(rows))]
        self.cost: Row = {}

    def _through(self, column: Row) -> list[Fraction]:
        """Multiply a column by the inverse of the basis, which the slacks hold."""
        return [
            sum((row.get(self.slack + at, NOTHING) * x for at, x in column.items()), NOTHING)
            for row in self.rows
        ]

    def rise(self, column: Row) -> tuple[Fraction, set[int]]:
        """Return the largest z for a column of it, and the rows that have a dual value."""
        entries = self._through(column)
        for row, entry in zip(self.rows, entries, strict=True):
            row.pop(self.z, None)
            if entry:
                row[self.z] = entry
        self.cost, still = {self.z: Fraction(-1)}, 0
        while (entering := self._entering(still > STILL)) is not None:
            ratios = [
                (self.right[at] / row[entering], self.basis[at], at)
                for at, row in enumerate(self.rows)
                if row.get(entering, NOTHING) > 0
            ]
            least, _, leaving = min(ratios)
            still = 0 if least else still + 1
            self._pivot(leaving, entering)
        dual = {at for at in range(len(self.rows)) if self.cost.get(self.slack + at, NOTHING) > 0}
        height = NOTHING
        if self.z in self.basis:
            at = self.basis.index(self.z)
            height = self.right[at]
            # z begins at zero again: what it has risen by is part of the limits from now on.
            entries = self._through(column)
            self.right = [b - height * e for b, e in zip(self.right, entries, strict=True)]
            others = [each for each, entry in self.rows[at].items() if entry and each != self.z]
            self._pivot(at, min(others))
        return height, dual

    def _entering(self, first: bool) -> int | None:
        below = [column for column, entry in self.cost.items() if entry < 0]
        if not below:
            return None
        return min(below) if first else min(below, key=lambda each: (self.cost[each], each))

    def _pivot(self, at: int, column: int) -> None:
        by = self.rows[at][column]
        pivot = {each: entry / by for each, entry in self.rows[at].items()}
        self.rows[at], self.right[at] = pivot, self.right[at] / by
        self.basis[at] = column
        for other, row in enumerate(self.rows):
            if other != at and (times := row.get(column)):
                self.right[other] -= times * self.right[at]
                _subtract(row, times, pivot)
        if times := self.cost.get(column):
            _subtract(self.cost, times, pivot)


def _subtract(row: Row, times: Fraction, pivot: Row) -> None:
    """Take a multiple of one row from another, and leave no zeros."""
    for each, entry in pivot.items():
        left = row.get(each, NOTHING) - times * entry
        if left:
            row[each] = left
        else:
            row.pop(each, None)


def _tableau(
    speed: Sequence[Sequence[float]],
    gpus: Sequence[float],
    capacity: Sequence[float],
    longest: Sequence[float] | None = None,
) -> _Tableau:
    """Write the limits: first the demand of each job, then its time, then the GPUs of each type.

    A last row limits what a column may rise by, for columns that have an entry in it.
    """
    jobs, types = len(speed), len(capacity)
    cells = [(job, kind) for job in range(jobs) for kind in range(types)]
    place = {cell: at for at, cell in enumerate(cells)}
    rows: list[Row] = [
        {place[job, kind]: -Fraction(speed[job][kind]) for kind in range(types) if speed[job][kind]}
        for job in range(jobs)
    ]
    rows += [{place[job, kind]: Fraction(1) for kind in range(types)} for job in range(jobs)]
    rows += [
        {place[job, kind]: Fraction(gpus[job]) for job in range(jobs)} for kind in range(types)
    ]
    time = [Fraction(1)] * jobs if longest is None else [Fraction(each) for each in longest]
    right = [NOTHING] * jobs + time + [Fraction(each) for each in capacity] + [Fraction(1)]
    return _Tableau([*rows, {}], right, len(cells))


def fill(
    speed: Sequence[Sequence[float]],
    gpus: Sequence[float],
    capacity: Sequence[float],
    rates: Callable[[list[bool]], Sequence[float | Fraction]],
    longest: Sequence[float] | None = None,
) -> list[Fraction]:
    """Return the steps/s of each job at the lexicographic optimum.

    Parameters
    ----------
    speed
        Steps/s of each job on each type.
    gpus
        GPUs that each job holds while it runs.
    capacity
        GPUs of each type.
    rates
        How fast the steps/s of each job rise, given which can still rise.
    longest
        Part of the time that each job may run at most, all of it by default.
    """
    jobs = len(speed)
    tableau = _tableau(speed, gpus, capacity, longest)
    rising, has = [True] * jobs, [NOTHING] * jobs
    while any(rising):
        rate = [Fraction(each) for each in rates(rising)]
        height, dual = tableau.rise({job: each for job, each in enumerate(rate) if each})
        has = [had + height * each for had, each in zip(has, rate, strict=True)]
        if not any(rising[job] for job in dual if job < jobs):
            raise ArithmeticError("no job is at its end")
        rising = [each and job not in dual for job, each in enumerate(rising)]
    return has


def fill_late(
    speed: Sequence[Sequence[float]],
    gpus: Sequence[float],
    capacity: Sequence[float],
    factor: Sequence[Fraction],
    offset: Sequence[Fraction],
) -> list[Fraction]:
    """Return the steps/s at which ``offset + factor / steps`` are lexicographically least.

    These are 1 / h at ``factor h / (1 - offset h)`` steps/s, which is convex in h: where a tangent
    of it reaches is at the height that is looked for or above, so tangents are taken from there
    until they no longer move (Newton's method), with few bits first and with many then.
    """
    jobs = len(speed)
    rising, has = [True] * jobs, [NOTHING] * jobs
    late = max(offset)
    h = Fraction(9, 10) / late if late else Fraction(1)
    while any(rising):
        waited = [1 / each for each, one in zip(offset, rising, strict=True) if one and each]
        dual: set[int] = set()
        for bits in (60, 250):
            before = NOTHING
            while abs(h - before) * 2 ** (bits // 2) > h:
                # Only of those that still rise: others may have no steps at this height.
                left = {job: 1 - offset[job] * h for job in range(jobs) if rising[job]}
                rate = {job: _cut(factor[job] / x**2, bits) for job, x in left.items()}
                tableau = _tableau(speed, gpus, capacity)
                for job, x in left.items():
                    # The tangent is below zero at the height 0: nothing of it is needed there.
                    below = factor[job] * h * h * offset[job] / x**2
                    tableau.right[job] = _cut(below, bits)
                held = {job: had for job, had in enumerate(has) if not rising[job]}
                tableau.rise(held | {len(tableau.rows) - 1: Fraction(1)})
                height, dual = tableau.rise(rate)
                top = min(waited, default=height + 1)
                # Next to a height that nobody can pass, what is left to it is cut.
                before, h = h, top - _cut(top - (height if height < top else (h + top) / 2), bits)
        has = [
            _cut(factor[job] * h / (1 - offset[job] * h), 2 * bits) if rising[job] else has[job]
            for job in range(jobs)
        ]
        rising = [each and job not in dual for job, each in enumerate(rising)]
    return has


def _cut(number: Fraction, bits: int) -> Fraction:
    """Round a number >= 0 down to so many bits or a few more."""
    places = bits + number.denominator.bit_length() - number.numerator.bit_length()
    scale = Fraction(2) ** places
    return Fraction(int(number * scale)) / scale
