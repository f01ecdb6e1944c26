"""Steps of water filling in floats: linear programs that HiGHS solves from its last basis.

Nothing here depends on the size of a level: demands are counted in units of what each job has
(`apportion.policies.solving.worst_off.demand_scaling`), anew when that has changed a hundredfold.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.solving.certificate import make_feasible
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.highs import PRIMAL, optimise
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.iterative_refinement import refine
from apportion.policies.solving.worst_off.demand_scaling import demand_scales, power_of_two
from apportion.policies.solving.worst_off.exact_filling import ExactFill
from apportion.policies.solving.worst_off.fixed_point import fixed, floats
from apportion.policies.solving.worst_off.own_limits import OwnLimits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem
    from apportion.policies.solving.cone import ConeProgram, Point
    from apportion.policies.solving.worst_off.fixed_point import Fixed
    from apportion.types import Bools, Floats

    Ints = NDArray[np.integer[Any]]


def backward_error(program: ConeProgram, point: Point) -> float:
    """Return the largest relative error of a point in the optimality conditions.

    They are: every constraint is met, the dual vector has the right signs and ``c + A'y = 0``, and
    no constraint that has slack has a dual value. Infinite if a number is not finite.

    Parameters
    ----------
    program
        A linear program.
    point
        What a solver made of it.
    """
    A, b, c, x, y = program.A, program.b, program.c, point.x, point.y
    if x.size != c.size or y.size != b.size:  # the solver has no point at all
        return np.inf
    column_of = np.repeat(np.arange(c.size), np.diff(A.indptr))
    made = A.data * x[column_of]
    paid = A.data * y[A.indices]
    rows, columns = b.size, c.size
    slack = b - np.bincount(A.indices, weights=made, minlength=rows)
    size = np.abs(b) + np.bincount(A.indices, weights=np.abs(made), minlength=rows)
    missing = c + np.bincount(column_of, weights=paid, minlength=columns)
    worth = np.abs(c) + np.bincount(column_of, weights=np.abs(paid), minlength=columns)
    short = np.where(program.equality, np.abs(slack), np.maximum(-slack, 0.0))
    free = np.where(program.equality, 0.0, np.maximum(-y, 0.0))
    gap = abs(float(np.where(program.equality, 0.0, slack) @ y))
    total = float(np.abs(c) @ np.abs(x) + np.abs(b) @ np.abs(y))
    errors = (
        _largest(short, np.maximum(size, 1.0)),
        _largest(missing, np.maximum(worth, np.abs(c).max(initial=0.0))),
        _largest(free, np.maximum(np.abs(y).max(initial=0.0), 1e-300)),
        gap / total if total > 0 else 0.0,
    )
    worst = max(errors)
    return worst if np.isfinite(worst) else np.inf


def _largest(error: Floats, size: Floats | float) -> float:
    """Largest of some errors relative to sizes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.abs(error) / size
    return float(np.where(error == 0, 0.0, relative).max(initial=0.0))


_LOG = logging.getLogger(__name__)

_BOTTLENECK = {"highs": 1e-7, "clarabel": 1e-6}
"""Part of the largest dual value from which on one counts. One that is wrongly left out does so
after the next step, which is none: the others are frozen by then, and it is the largest."""
_EPSILON = float(np.finfo(float).eps)
_WITHIN = 100.0
"""How far a level may be from the unit that it is counted in."""
_NOTHING = 1e-9
"""Part of a unit that is a solver's rounding error, no level to take for a unit."""
_RISEN = 1e-11
"""Part of a unit below which a step is a rounding error."""
_ACCURATE = 1e-8
"""Largest error in the optimality conditions of a step that is built upon."""
_EXACT = 1e-13
"""Error that is a rounding error."""
_HAIRS = (0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7)
"""By how much, relatively, frozen levels give way, one after the other, where rounding errors have
left no allocation that meets them all: what a large job gives way by may be much to a small one."""
_MOST_UNITS = 30
_MOST_EXACT = 100
"""Most jobs, or classes of them, that are filled without rounding errors otherwise."""
_FIRST_ORDER = 10.0
"""Errors are worked out to first order, and some that hang on each other were twice as large and
more."""


class FloatFill:
    """One linear program, whose demands change from step to step, in floats."""

    def __init__(
        self, p: Problem, utility: cp.Expression, constraints: Sequence[cp.Constraint]
    ) -> None:
        jobs = p.count.size
        step = cp.Variable(name="step")
        demand = (utility - cp.multiply(np.ones(jobs), step) >= np.zeros(jobs)).set_label("demand")
        self._plain = Compiled.of(p, cp.Maximize(step), [demand, *constraints], scaled=False)
        self._rows = np.arange(jobs) + self._plain.program.rows[demand.id].start
        self._step = self._plain.program.columns[step.id]
        p.X.value = even_share(p)
        self._unit = np.asarray(utility.value, dtype=float)
        self._rising = np.full(jobs, np.nan)
        self._scaled: Compiled | None = None
        self._highs: PersistentHighs | None = None
        self.binding = np.zeros(jobs, dtype=bool)
        self.steps = 0
        self._signed = jobs <= _MOST_EXACT
        self._off = self._now_off = np.zeros((jobs, 1))
        self._kept = self._now_kept = np.zeros(jobs)
        entries = self._plain.program.A[self._rows].tocoo()
        of_time = entries.coords[1] != self._step
        self._fastest = np.zeros(jobs)
        np.maximum.at(self._fastest, entries.coords[0][of_time], np.abs(entries.data[of_time]))

    @cached_property
    def exact(self) -> ExactFill | None:
        """The same without rounding errors, if it is not too large for that."""
        if self._rows.size > _MOST_EXACT:
            return None
        return ExactFill(self._compiled, self._rows, self._step)

    def rise(self, base: Fixed, rate: Floats, active: Bools) -> tuple[Fixed, float]:
        """Raise all levels from `base` at their rates as far as they go."""
        self.steps += 1
        moving, at = rate > 0, floats(base)
        if self._highs is None:
            able = moving & (self._unit > 0)
            first = (self._unit[able] / rate[able]).min(initial=np.inf)
            first = first if np.isfinite(first) else 1.0
            self._count_in(np.where(moving, np.maximum(first * rate, at), self._unit))
        for _ in range(_MOST_UNITS):
            step, hair = self._solve(at, rate, active)
            reached = at + rate * step
            far = (reached > _WITHIN * self._unit) | (reached < self._unit / _WITHIN)
            far &= moving & (reached > _NOTHING * self._unit)
            if not far.any():
                break
            self._count_in(np.where(far, reached, self._unit))
        part = self._point.y[self._rows] * self._rising  # of the step, in all 1
        self.binding = active & (part > _BOTTLENECK[self._point.solver] * part.max())
        self._now_off = self._errors(hair * at, active, at == self._kept)
        risen = float((rate * abs(step) / self._unit).max())
        step = step if risen > _RISEN else 0.0
        by = fixed(rate * step)
        self._now_kept = floats(base + by)
        return by, step

    def keep(self) -> None:
        """Build upon the last step."""
        self._off, self._kept = self._now_off, self._now_kept

    def begin_at(self, level: Floats) -> None:
        """Build upon levels that were found otherwise, to rounding errors."""
        self._kept, rounding = level, np.diag(_EPSILON * level)
        if self._signed:
            self._off = np.hstack([self._off, rounding])
        else:
            self._off = np.maximum(self._off, rounding.sum(axis=1, keepdims=True))

    @cached_property
    def limits(self) -> OwnLimits:
        """What jobs have at most, whatever the others have."""
        return OwnLimits.of(self._plain.program, self._rows, self._step)

    @property
    def worth(self) -> Floats:
        """Dual values of the demands in the last step, shape (jobs,)."""
        worth: Floats = self._point.y[self._rows] * self._compiled.row[self._rows]
        return worth

    def doubt(self, level: Floats) -> float:
        """Tell by what part of itself a level may be off, at most."""
        off = _FIRST_ORDER * np.abs(self._off).sum(axis=1)
        return float(np.divide(off, level, out=np.zeros_like(level), where=level > 0).max())

    def _errors(self, given_way: Floats, active: Bools, built_upon: Bools) -> Floats:
        """Tell by how much levels are off after the last step, shape (jobs, sources of errors).

        An active level is off by what the point misses of the conditions of optimality, at their
        prices, and by what the levels that it is built upon are off, at their dual values: where
        little of a level hangs on a job of which much is left to others, that is a large multiple.
        A part of the time that the point misses may also be all that a small job has, whatever it
        costs.

        Each source has a column of its own, with signs. An error that lifts one level and lowers
        the next is not counted twice, as it would be if sizes were added up: over forty steps these
        grow a millionfold. For many jobs there is one column, of sizes.
        """
        program, x, y = cast("PersistentHighs", self._highs).program, self._point.x, self._point.y
        row = self._compiled.row[self._rows]
        short = np.maximum(program.A @ x - program.b, 0.0)
        free = np.maximum(-(program.c + program.A.T @ y), 0.0)
        own = abs(float(program.c @ x + program.b @ y)) + float(y @ short)
        own += float(free @ np.maximum(np.abs(x), 1.0)) + _EPSILON * float(np.abs(program.b) @ y)
        frozen = np.where(active, 0.0, row * given_way)
        time = _EPSILON + max(float(short.max(initial=0.0)), float(frozen.max()))
        own += float(y[self._rows] @ frozen)
        rises = np.where(active, self._rising / row, 0.0)[:, None]
        base, dual = np.where(built_upon[:, None], self._off, 0.0), row * y[self._rows]
        late = time * np.diag(self._fastest)[:, self.binding]
        if self._signed:
            return np.hstack([base - rises * (dual @ base), rises * own, late])
        moved = np.where(active, 0.0, dual) @ base
        return np.asarray(self._off + rises * (moved + own) + late.sum(axis=1, keepdims=True))

    def allocation(self) -> Floats:
        """Return the allocation of the last step, which the problem's X takes."""
        return self._compiled.X_at(self._point)

    @property
    def _compiled(self) -> Compiled:
        if self._scaled is None:
            raise RuntimeError("There is no step yet.")
        return self._scaled

    def _count_in(self, unit: Floats) -> None:
        """Take new units for the demands; the solver goes on from its last basis."""
        self._unit = np.where(unit > 0, unit, unit.max(initial=0.0) or 1.0)
        scales = demand_scales(self._plain.program, self._rows, self._unit, self._step)
        self._scaled = self._plain.scaled_by(scales)
        A = self._scaled.program.A
        A.data[A.indptr[self._step] : A.indptr[self._step + 1]] = 1.0  # any, until `_solve`
        if self._highs is None:
            # What is reached is feasible in the next step: the primal method goes on from there.
            self._highs = PersistentHighs(self._scaled.program, options=PRIMAL)
        else:
            self._highs.load(self._scaled.program)
        self._rising = np.full(unit.size, np.nan)

    def _solve(self, base: Floats, rate: Floats, active: Bools) -> tuple[float, float]:
        """Solve for one step, first as it is, then with frozen levels that give way by a hair.

        Returns the step and the hair.
        """
        compiled, highs = self._compiled, cast("PersistentHighs", self._highs)
        row = compiled.row[self._rows]
        fastest = power_of_two(float((rate * row).max()))
        values = rate * row / fastest
        changed = np.flatnonzero(values != self._rising)
        highs.change_column(self._step, self._rows[changed], values[changed])
        self._rising = values
        for hair in _HAIRS:
            highs.change_limits(self._rows, -np.where(active, base, base * (1 - hair)) * row)
            for point in _attempts(highs):
                # An optimum is what meets the conditions, whatever the solver calls it.
                error = backward_error(highs.program, point)
                if error <= _ACCURATE:
                    exact = error <= _EXACT
                    point = self._point = point if exact else refine(highs.program, point)
                    return float(point.x[self._step]) / fastest, hair
                _LOG.info("water filling, step %d: %s, %.1e", self.steps, point.status, error)
        raise SolveError(f"Water filling stopped at step {self.steps}: no solver found its level.")


def _attempts(highs: PersistentHighs) -> Iterator[Point]:
    """Solve from the last basis, from nothing, and by an interior point."""
    yield highs.solve()
    highs.forget()
    yield highs.solve()
    try:
        yield optimise(highs.program, "clarabel")
    except SolveError as error:
        _LOG.info("water filling: %s", error)


def even_share(p: Problem) -> Floats:
    """Return an allocation in which every row has the same time, on all its options alike."""
    runs = p.instance.can_run
    return make_feasible(runs / np.maximum(runs.sum(axis=1, keepdims=True), 1), p.instance)
