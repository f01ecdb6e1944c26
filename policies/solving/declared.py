"""A policy's own problem as it stands: compiled by cvxpy, solved by one solver or another."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from apportion.policies.solving.attempts import Attempted
from apportion.policies.solving.choice import choose
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.posed import pose
from apportion.policies.solving.solvable import solvable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.policies.base import Policy
    from apportion.policies.solving.rows.reduction import Reduction
    from apportion.policies.solving.solvers.optimise import Point, SolverName

    Floats = NDArray[np.float64]

__all__ = ["DeclaredProblem"]


_MET = 1e-7
"""By how much own constraints may be missed, in numbers around 1."""


class DeclaredProblem:
    """The policy's own problem as it stands, compiled on first use.

    Parameters
    ----------
    policy
        Whose problem it is.
    reduction
        Rows over which it is posed.
    second_stage
        Whether what the objective leaves open is chosen as well.
    """

    def __init__(self, policy: Policy, reduction: Reduction, second_stage: bool) -> None:
        self.policy, self.second_stage = policy, second_stage
        self._believed, self._floors = reduction.believed, reduction.floors
        self._compiled: Compiled | None = None
        self._compile_s = 0.0
        self.last = ""
        """The solver that was used last."""

    @property
    def compiled(self) -> Compiled:
        """The compiled problem."""
        if self._compiled is None:
            started = time.perf_counter()
            with solvable(self.policy):
                posed = pose(self.policy, self._believed, self._floors)
                self._compiled = Compiled.of(posed.p, posed.objective, posed.constraints)
            self._compile_s = time.perf_counter() - started
        return self._compiled

    def solve(self, solver: SolverName, *, rescaled: bool = False) -> Attempted:
        """Solve by one solver, or by the one that suits the size; or at scales of all numbers."""
        compiled = self.compiled.rescaled() if rescaled else self.compiled
        attempt = _attempt(self.policy, compiled, solver, self.second_stage)
        self.last = attempt.first.solver
        stats = {
            "solver": attempt.first.solver,
            "rows": self._believed.rows,
            "compile_s": self._compile_s,
            "solve_s": attempt.solve_s,
            "second_stage_s": attempt.second_stage_s,
        }
        prices = compiled.least_prices(attempt.first)
        if prices is None:
            prices = compiled.prices(attempt.first)
        return Attempted(attempt.X, attempt.objective, attempt.gap, prices, stats)


class _Attempt(NamedTuple):
    """What one solver makes of a problem: first optimum, chosen X, objective there and its gap."""

    first: Point
    X: Floats
    objective: float
    gap: float
    solve_s: float
    second_stage_s: float


def _attempt(
    policy: Policy, compiled: Compiled, solver: SolverName, second_stage: bool
) -> _Attempt:
    """Solve a compiled problem and choose among its optima."""
    started = time.perf_counter()
    first = compiled.optimum(solver, repr(policy))
    bound = compiled.bound(first, own=bool(compiled.p.variables))
    solved = time.perf_counter()
    compiled.X_at(first)
    off = compiled.missed(first)
    X, missed = choose(policy, compiled, first, solver, second_stage=second_stage)
    objective = compiled.objective()
    value = -objective if compiled.maximises else objective
    gap = max(compiled.distance(value, bound), missed or 0.0, compiled.p.inexact)
    gap = gap if off <= _MET else max(gap, off)
    return _Attempt(first, X, objective, gap, solved - started, time.perf_counter() - solved)
