"""Water filling: raise all levels together, freeze what cannot rise, go on with the rest.

Every level is one linear program: the largest step by which all jobs that are not frozen rise at
their rates. Jobs whose demand has a positive dual value are bottlenecks: they are as high in
every solution of that step, so they are frozen where they are. No job is tested one by one and no
integer variable is needed. At least one job freezes at each level, so there are at most as many
levels as jobs (classes of identical jobs).

Levels that are no straight lines in what rises, as demands in a completion time, are replaced by
their tangents until these no longer matter (Newton's method: a tangent of a convex demand asks for
less, so each step ends at the level or beyond it).

Nothing here depends on the size of a level: demands are counted in units of what each job has
(`apportion.policies.solving.worst_off.demand_scaling`), anew whenever that has changed tenfold.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.solving.certificate import make_feasible
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.solvers.backward_error import backward_error
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.iterative_refinement import refine
from apportion.policies.solving.solvers.optimise import optimise
from apportion.policies.solving.worst_off.bottlenecks import pays_for_time
from apportion.policies.solving.worst_off.demand_scaling import demand_scales

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from apportion.policies.extensions import Rates
    from apportion.policies.problem import Problem
    from apportion.policies.solving.solvers.point import Point

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

__all__ = ["Filled", "Rising", "Steady", "even_share", "water_fill"]

_LOG = logging.getLogger(__name__)

_BOTTLENECK = {"highs": 1e-9, "clarabel": 1e-6}
"""Part of the largest dual value from which on one counts; an interior point has no exact zeros."""
_WITHIN = 10.0
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
_STRAIGHT = 1e-11
"""By how much, relatively, a tangent may miss the level."""
_STILL = 1e-14
"""Relative step at which a height no longer moves."""
_MOST_TANGENTS, _MOST_UNITS = 200, 30


class Rising(Protocol):
    """Levels as functions of one height, which is raised as far as it goes."""

    @property
    def straight(self) -> bool:
        """Whether a tangent is the level itself."""
        ...

    @property
    def start(self) -> float:
        """Height to begin with: one that all jobs can have."""
        ...

    def tangent(self, active: Bools, level: Floats, height: float) -> tuple[Floats, Floats]:
        """Return the levels of jobs at a height, and how fast they rise there, shape (jobs,) each.

        Parameters
        ----------
        active
            Which jobs are not frozen; the others' numbers are not used.
        level
            Where all jobs are now.
        height
            The height.
        """
        ...

    def highest(self, active: Bools) -> float:
        """Return a height beyond which there is no level for an active job."""
        ...


class Steady:
    """Levels that rise from nothing, at rates which change only when a job freezes."""

    straight, start = True, 0.0

    def __init__(self, rates: Rates) -> None:
        self._rates = rates

    def tangent(self, active: Bools, level: Floats, height: float) -> tuple[Floats, Floats]:
        """Go on from where the jobs are."""
        return level, self._rates(active)

    def highest(self, active: Bools) -> float:
        """Return no limit."""
        return np.inf


class Filled(NamedTuple):
    """Levels of all jobs, an allocation that has them, and how many steps were taken."""

    level: Floats
    X: Floats
    steps: int


def even_share(p: Problem) -> Floats:
    """Return an allocation in which every row has the same time, on all its options alike."""
    runs = p.instance.can_run
    return make_feasible(runs / np.maximum(runs.sum(axis=1, keepdims=True), 1), p.instance)


def water_fill(
    p: Problem,
    utility: cp.Expression,
    rising: Rising,
    constraints: Sequence[cp.Constraint] = (),
) -> Filled:
    """Find the lexicographically largest levels of a utility.

    Parameters
    ----------
    p
        The problem; its X takes the allocation that was found.
    utility
        What is to rise: an affine expression of shape (jobs,).
    rising
        Its levels. `Steady` at equal rates that never change gives lexicographic max-min fairness;
        rates that pass a frozen job's share on within its entity give hierarchical fairness.
    constraints
        What the policy asks beyond the problem's own constraints.

    Raises
    ------
    SolveError
        If no solver found one of the levels to within a relative error of 1e-6.
    """
    fill = _Fill(p, utility, constraints)
    level, active = np.zeros(p.count.size), np.ones(p.count.size, dtype=bool)
    height = rising.start
    while active.any():
        level, height = _to_the_next_bottleneck(fill, rising, active, level, height)
        active = active & ~fill.binding
    return Filled(level, fill.allocation(), fill.steps)


def _to_the_next_bottleneck(
    fill: _Fill, rising: Rising, active: Bools, level: Floats, height: float
) -> tuple[Floats, float]:
    """Raise the active jobs until one can rise no further: their levels, and the height."""
    for _ in range(_MOST_TANGENTS):
        at, rate = rising.tangent(active, level, height)
        step = fill.rise(np.where(active, at, level), np.where(active, rate, 0.0), active)
        if rising.straight:
            step = max(step, 0.0)
        reached = np.where(active, at + rate * step, level)
        higher, top = height + step, rising.highest(active)
        if rising.straight:
            return reached, higher
        if higher < top:
            there = rising.tangent(active, level, higher)[0][active]
            off = np.abs(there - reached[active]) / there
            # Next to a height that nobody can pass, rounding errors of the height decide.
            if off.max(initial=0.0) <= _STRAIGHT or abs(step) <= _STILL * height:
                return reached, higher
        height = higher if 0 < higher < top else 0.5 * (height + (top if higher > 0 else 0.0))
    raise SolveError(f"Water filling found no level in {_MOST_TANGENTS} tangents.")


class _Fill:
    """One linear program, whose demands change from step to step."""

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

    def rise(self, base: Floats, rate: Floats, active: Bools) -> float:
        """Raise all levels from `base` at their rates as far as they go, and say how far.

        Sets `binding`: which active jobs can rise no further in any allocation.
        """
        self.steps += 1
        moving = rate > 0
        if self._highs is None:
            able = moving & (self._unit > 0)
            first = (self._unit[able] / rate[able]).min(initial=np.inf)
            first = first if np.isfinite(first) else 1.0
            self._count_in(np.where(moving, np.maximum(first * rate, base), self._unit))
        for _ in range(_MOST_UNITS):
            step = self._solve(base, rate, active)
            reached = base + rate * step
            far = (reached > _WITHIN * self._unit) | (reached < self._unit / _WITHIN)
            far &= moving & (reached > _NOTHING * self._unit)
            if not far.any():
                break
            self._count_in(np.where(far, reached, self._unit))
        dual = self._point.y[self._rows] * self._compiled.row[self._rows] * rate
        within = _BOTTLENECK[self._point.solver]
        self.binding = active & (dual > within * dual.max())
        unsure = active & ~self.binding & (dual > 0)
        if unsure.any():
            self.binding |= unsure & pays_for_time(
                self._compiled.program, self._compiled.column, self._point.y, self._rows, within
            )
        risen = float((rate * abs(step) / self._unit).max())
        return step if risen > _RISEN else 0.0

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
            self._highs = PersistentHighs(self._scaled.program, presolve=False)
        else:
            self._highs.load(self._scaled.program)
        self._rising = np.full(unit.size, np.nan)

    def _solve(self, base: Floats, rate: Floats, active: Bools) -> float:
        """Solve for one step, first as it is, then with frozen levels that give way by a hair."""
        compiled, highs = self._compiled, cast("PersistentHighs", self._highs)
        row = compiled.row[self._rows]
        fastest = float((rate * row).max())
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
                    return float(point.x[self._step]) / fastest
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
