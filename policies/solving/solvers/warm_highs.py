"""A bridge from parametrised cvxpy problems to a warm HiGHS: compile once, then only changes.

cvxpy hands its solvers a new problem on every solve and keeps no basis. Here the solver stays: new
parameter values become changes of single numbers, the simplex method goes on from the last basis,
and values and dual values return through cvxpy. Nothing is taken on the solver's word: a point
counts as an optimum if it meets the optimality conditions, recomputed here.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from apportion.errors import InputError
from apportion.policies.solving.canonical import cone_program
from apportion.policies.solving.cone import Scales
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


class WarmProblem:
    """A cvxpy problem that is solved again and again with new values of its parameters.

    Any linear program; with parameters that obey cvxpy's rules (DPP) it is compiled only once.
    ``problem.value``, the values of its variables and the dual values of its constraints are filled
    in as by ``problem.solve()``.

    Parameters
    ----------
    problem
        The problem.

    Attributes
    ----------
    changed
        Numbers that differed from the solve before, or -1 if the whole program was passed on.

    Raises
    ------
    InputError
        If the problem is no linear program.
    """

    def __init__(self, problem: cp.Problem) -> None:
        self.problem = problem
        self.changed = -1
        self._solver: WarmSolver | None = None
        self._scales: Scales | None = None

    def solve(self, budget_s: float | None = None) -> float:
        """Solve at the parameters' present values and return the optimal value.

        Infinite, with the sign that cvxpy gives it, if the problem is infeasible or unbounded.

        Parameters
        ----------
        budget_s
            Seconds that HiGHS may take for each attempt; any number by default.

        Raises
        ------
        SolveError
            If no solver came to a result.
        """
        if self.problem.is_mixed_integer():
            raise InputError("A warm problem is a linear program; this one has integer variables.")
        compiled: Any = self.problem.get_problem_data(cp.CLARABEL, solver_opts={})
        data, chain, inverse = compiled
        program = cone_program(data, float(inverse[-1]["offset"]))
        if not program.is_linear_program:
            raise InputError("A warm problem is a linear program; this one is curved.")
        scales, solver = self._loaded(program)
        point = solver.solve(budget_s)
        x, y = scales.column * point.x, scales.cost * scales.row * point.y
        result = SimpleNamespace(
            status=_CVXPY_WORDS[point.status],
            x=x,
            z=y,
            obj_val=float(program.c @ x),
            solve_time=0.0,
            iterations=0,
        )
        self.problem.unpack_results(result, chain, inverse)
        return float(np.asarray(self.problem.value).item())

    def _loaded(self, program: ConeProgram) -> tuple[Scales, WarmSolver]:
        """Bring the program into the solver, at the scales of the first one of its shape."""
        fits = self._scales is not None and program.A.shape == (
            self._scales.row.size,
            self._scales.column.size,
        )
        if self._scales is None or not fits:
            self._scales = Scales.of(program)
        scaled = self._scales.scale(program)
        if self._solver is None:
            self._solver = WarmSolver(scaled)
        else:
            self.changed = self._solver.highs.update(scaled)
        return self._scales, self._solver


_CVXPY_WORDS = {
    "optimal": "Solved",
    "infeasible": "PrimalInfeasible",
    "unbounded": "DualInfeasible",
}
"""Statuses as Clarabel, whose form of the problem this is, would tell them to cvxpy."""
