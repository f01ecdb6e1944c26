"""Which of the optima of a policy's own problem is returned, and how it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.policies.compiled import Compiled
from apportion.policies.second_stage import (
    choose_among_optima,
    evenness,
    most_even,
    relative_throughput,
)
from apportion.policies.solvers import Point, SolverName, optimise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.policies.base import Policy

    Floats = NDArray[np.float64]

__all__ = ["choose"]


def choose(policy: Policy, compiled: Compiled, first: Point, solver: SolverName) -> Floats:
    """Choose among the optima (see `apportion.policies.second_stage`); the variables take it."""
    p = compiled.p
    gain, squares = relative_throughput(p.instance), evenness(p.instance)
    kept = policy.final_levels(p)
    if kept is None and not compiled.program.is_linear_program:
        value = compiled.objective()
        worse = value + (-1 if compiled.maximises else 1) * 1e-9 * abs(value)
        kept = policy.keeping(p, worse)
    if kept is not None:
        spending = Compiled.of(
            p, cp.Maximize(cp.sum(cp.multiply(gain, p.X))), [*policy.constraints(p), *kept]
        )
        best = optimise(spending.program, solver)
        if best.status != "optimal":
            return compiled.X_at(first)
        best = most_even(spending.program, best, spending.over_columns(squares, power=2))
        return spending.X_at(best)
    if isinstance(p.scale, cp.Variable):
        toward = compiled.toward_smaller_scale(p.scale)
    else:
        toward = compiled.over_columns(gain)
    weights = compiled.over_columns(squares, power=2)
    return compiled.X_at(choose_among_optima(compiled.program, first, toward, weights, solver))
