"""Water filling: raise all levels together, freeze what cannot rise, go on with the rest.

Every level is one linear program: the largest step by which all jobs that are not frozen rise at
their rates. Jobs whose demand has a positive dual value are bottlenecks: they are as high in
every solution of that step, so they are frozen where they are. No job is tested one by one and no
integer variable is needed. At least one job freezes at each level, so there are at most as many
levels as jobs (classes of identical jobs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import cvxpy as cp
import numpy as np

from apportion.errors import SolveError
from apportion.policies.compiled import Compiled
from apportion.policies.highs import PersistentHighs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

    Floats = NDArray[np.float64]

__all__ = ["Rates", "drain", "water_fill"]

_BOTTLENECK = 1e-9
_HAIR = 1e-8
"""How far, relatively, a ratio may rise again once it is stuck, for the solver's rounding."""


class Rates(Protocol):
    """How fast each job's level rises, given which jobs still can."""

    def __call__(self, active: NDArray[np.bool_], /) -> Floats:
        """Return a rate >= 0 for each job, 0 for those that are not active, not all of them 0."""
        ...


def water_fill(p: Problem, utility: cp.Expression, rates: Rates) -> tuple[Floats, int]:
    """Return the lexicographically largest levels of a utility, and how many steps it took.

    Parameters
    ----------
    p
        The problem.
    utility
        What is to rise: an affine expression of shape (jobs,).
    rates
        Their speeds. Equal ones that never change give lexicographic max-min fairness; ones that
        pass a frozen job's share on within its entity give hierarchical fairness.
    """
    jobs = p.count.size
    step = cp.Variable(name="step")
    demand = (utility - cp.multiply(np.ones(jobs), step) >= np.zeros(jobs)).set_label("demand")
    compiled = Compiled.of(p, cp.Maximize(step), [demand])
    program = compiled.program
    rows = np.arange(jobs) + program.rows[demand.id].start
    column = program.columns[step.id]
    scale = compiled.row[rows]
    solver = PersistentHighs(program, presolve=False)
    level, active, steps = np.zeros(jobs), np.ones(jobs, dtype=bool), 0
    speed = np.full(jobs, np.nan)
    while active.any():
        wanted = rates(active)
        changed = np.flatnonzero(wanted != speed)
        solver.change_column(
            column, rows[changed], (wanted * scale)[changed] * compiled.column[column]
        )
        solver.change_limits(rows, -level * scale)
        speed, steps = wanted, steps + 1
        point = solver.solve()
        if point.status != "optimal":
            raise SolveError(f"Water filling stopped at level {steps}: {point.status}.")
        level = level + speed * max(compiled.column[column] * point.x[column], 0.0)
        dual = point.y[rows] * speed * scale
        bottleneck = active & (dual > _BOTTLENECK * dual.max())
        active = active & ~bottleneck
    return level, steps


def drain(p: Problem, ratio: cp.Expression) -> Floats:
    """Return the lexicographically smallest ratios, the largest first.

    The mirror image of `water_fill` for convex expressions: each step is a cone program, the ratios
    with a positive dual value are stuck where they are.

    Parameters
    ----------
    p
        The problem.
    ratio
        What is to fall: a convex expression of shape (jobs,).
    """
    jobs = p.count.size
    stuck = np.full(jobs, np.nan)
    while np.isnan(stuck).any():
        active, fixed = np.flatnonzero(np.isnan(stuck)), np.flatnonzero(~np.isnan(stuck))
        height = cp.Variable(name="height")
        falling = (ratio[active] <= height).set_label("falling")
        kept = [ratio[fixed] <= stuck[fixed] * (1 + _HAIR)] if fixed.size else []
        compiled = Compiled.of(p, cp.Minimize(height), [falling, *kept])
        point = compiled.optimum("auto", "water filling")
        dual = np.abs(compiled.duals(falling, point))
        bottleneck = active[dual > 1e-6 * dual.max()]
        x = compiled.column * point.x
        stuck[bottleneck] = x[compiled.program.columns[height.id]]
    return stuck
