"""A linear program that stays in HiGHS, with what to do when HiGHS is wrong or gives up.

Nothing is taken on the solver's word: a point counts as an optimum if it meets the optimality
conditions, recomputed here.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solving.highs import optimise
from apportion.policies.solving.solvers.highs import PersistentHighs
from apportion.policies.solving.solvers.iterative_refinement import refine

if TYPE_CHECKING:
    from apportion.policies.solving.cone import ConeProgram, Point

_LOG = logging.getLogger(__name__)
_ROUNDING = 1e-13
"""Part of a limit by which rounding errors may miss it."""
_TRUSTED = 1e-8
"""Largest error in the optimality conditions of a point that is taken for an optimum."""


class WarmSolver:
    """The last linear program in HiGHS, with what to do when HiGHS is wrong or gives up.

    Parameters
    ----------
    program
        A linear program, scaled.

    Attributes
    ----------
    highs
        Where changes are made.
    error
        Error of the last point in its optimality conditions, see `PersistentHighs`.
    reduced
        Its reduced costs, shape (columns,).
    restarts
        How often the warm start did not lead to an optimum.
    """

    def __init__(self, program: ConeProgram) -> None:
        self.highs = PersistentHighs(program, presolve=False)
        self.error = np.inf
        self.reduced = np.zeros(program.c.size)
        self.restarts = 0

    def solve(self, budget_s: float | None = None) -> Point:
        """Solve from the last basis; without success from nothing, and then by another method.

        Parameters
        ----------
        budget_s
            Seconds that HiGHS may take for each attempt; any number by default.

        Raises
        ------
        SolveError
            If no solver found an optimum, an infeasibility or an unbounded ray.
        """
        point = self._attempt(budget_s)
        if self.error <= _TRUSTED:
            return point
        self.restarts += 1
        _LOG.info("warm start: %s, off by %.1e; solving from nothing", point.status, self.error)
        self.highs.forget()
        point = self._attempt(budget_s)
        if self.error <= _TRUSTED:
            return point
        other = self.highs.everywhere(optimise(self.highs.there(), "clarabel"))
        return self._checked(other)

    def sharpened(self, point: Point) -> Point:
        """Return an optimum to rounding errors, where it misses limits by more than these."""
        if self.highs.violation(point) <= _ROUNDING:
            return point
        sharp = refine(self.highs.there(), self.highs.of_there(point))
        return self._checked(self.highs.everywhere(replace(sharp, unique=False)))

    def _attempt(self, budget_s: float | None) -> Point:
        return self._checked(self.highs.solve(budget_s))

    def _checked(self, point: Point) -> Point:
        self.error = np.inf
        if point.status == "optimal":
            self.error, self.reduced = self.highs.optimality_error(point)
        return point
