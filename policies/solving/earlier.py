"""Objectives that count before a policy's own: lexicographic optima, one program after the other.

What the first of them can reach becomes a constraint under which the second is solved, and so on;
the policy's objective is the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import cvxpy as cp

from apportion.policies.problem import Problem
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.rescaling import smallest_cost

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance

    Objective: TypeAlias = cp.Maximize | cp.Minimize

_HAIR = 1e-10
"""By how much, relatively, an earlier objective gives way, so that rounding leaves a solution."""

_REACHED: WeakKeyDictionary[Instance, tuple[Policy, list[float]]] = WeakKeyDictionary()


def earlier_objectives(policy: Policy, p: Problem) -> Sequence[Objective]:
    """Return the objectives of a policy that count before its own; most have none."""
    return policy.earlier_objectives(p) if hasattr(policy, "earlier_objectives") else ()


def constraints_of(policy: Policy, p: Problem) -> list[cp.Constraint]:
    """State a policy's constraints, and that its earlier objectives are as good as can be.

    Raises
    ------
    InfeasibleError, SolveError
        If an earlier objective has no optimum.
    """
    stated = list(policy.constraints(p))
    if earlier := earlier_objectives(policy, p):
        stated += map(_no_worse, earlier, _reached(policy, p.instance))
    return stated


def _reached(policy: Policy, instance: Instance) -> list[float]:
    """Return what each earlier objective reaches, less a hair; found once for an instance."""
    known = _REACHED.get(instance)
    if known is not None and known[0] is policy:
        return known[1]
    p, values = Problem(instance), list[float]()
    held = list(policy.constraints(p))
    for objective in earlier_objectives(policy, p):
        compiled = Compiled.of(p, objective, held, stated_by=policy)
        compiled.X_at(compiled.optimum("auto", policy))
        value = compiled.objective()
        hair = _HAIR * max(abs(value), smallest_cost(compiled.program))
        values.append(value - hair if compiled.maximises else value + hair)
        held.append(_no_worse(objective, values[-1]))
    _REACHED[instance] = policy, values
    return values


def _no_worse(objective: Objective, value: float) -> cp.Constraint:
    expression = objective.args[0]
    better = expression >= value if isinstance(objective, cp.Maximize) else expression <= value
    return better.set_label("earlier objective")
