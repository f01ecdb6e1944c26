"""What a policy may state, a convex problem with an optimum; what else it states is told so."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from apportion.errors import InfeasibleError, InputError, SolveError
from apportion.own_code import answered_by
from apportion.policies.core.canonical import compile_statement
from apportion.policies.core.conic import optimum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apportion.policies.base import Policy
    from apportion.policies.core.canonical import Program
    from apportion.policies.problem import Problem

_LARGE = 1e6
"""What bounds a variable on trial, to see whether nothing else does."""


@contextmanager
def solvable(policy: Policy) -> Iterator[None]:
    """Name the policy in what cvxpy says of a problem that cannot be solved here.

    Raises
    ------
    InputError
        If the problem is not convex by cvxpy's rules, or has integer variables.
    """
    try:
        yield
    except (cp.error.DCPError, cp.error.SolverError) as error:
        raise unsolvable(policy, error) from error


def unsolvable(policy: Policy, error: Exception) -> InputError:
    """Name the policy in what cvxpy says of a problem that cannot be solved here."""
    reason = " ".join(str(error).split()).rstrip(".") + "." + answered_by(policy, "objective")
    if isinstance(error, cp.error.DCPError):
        return InputError(
            f"The problem of {policy!r} is not convex by cvxpy's rules: maximise something concave "
            f"or minimise something convex, under convex constraints. cvxpy says: {reason}"
        )
    return InputError(
        f"cvxpy cannot compile the objective or the constraints of {policy!r}. State them over "
        f"variables that are not integer, by atoms that it turns into linear, second-order, "
        f"exponential or power cones; one that stands inside another can be p.variable(name) under "
        f"a constraint. Boolean variables are for integral = True. cvxpy says: {reason}"
    )


def check_finite(policy: Policy, program: Program) -> None:
    """Refuse a problem with numbers that are none, before a solver sees it.

    Raises
    ------
    InputError
        If there is NaN or infinity in the objective or the constraints.
    """
    numbers = (program.c, program.b, program.A.data, program.P.data, program.offset)
    if not all(np.isfinite(each).all() for each in numbers):
        raise InputError(f"{policy!r} states an objective or constraints with NaN or infinity.")


def no_optimum(
    policy: Policy,
    p: Problem,
    objective: cp.Maximize | cp.Minimize,
    constraints: Sequence[cp.Constraint],
    status: str,
) -> SolveError:
    """Say what leaves a problem unbounded, or which of its constraints cannot hold together.

    Parameters
    ----------
    policy, p
        The policy and its problem, whose shared constraints hold as well.
    objective, constraints
        What is stated over it.
    status
        "unbounded" or "infeasible".

    Raises
    ------
    InputError
        For a sum of more numbers than there are, which has no bound.
    """
    declared = [*p.constraints, *constraints]
    if status == "unbounded":
        _refuse_too_many_summands(policy, [objective, *declared])
        bounded = [
            name
            for name, own in p.variables.items()
            if _status(objective, [*declared, cp.abs(own.variable) <= _LARGE]) == "optimal"
        ]
        free = " and ".join(map(repr, bounded or p.variables))
        why = f": nothing bounds its variable {free}" if free else ""
        return SolveError(f"The objective of {policy!r} is unbounded on this problem{why}.")
    kept = declared
    for constraint in declared:
        rest = [other for other in kept if other is not constraint]
        kept = rest if _status(cp.Minimize(0), rest) == "infeasible" else kept
    labels = [constraint.label or "a constraint without a label" for constraint in kept]
    return InfeasibleError(
        f"No allocation meets the constraints of {policy!r}; these cannot hold together: "
        f"{', '.join(labels)}."
    )


def _refuse_too_many_summands(policy: Policy, stated: list[Any]) -> None:
    """Name a sum of more of the largest or smallest numbers than there are: it has no bound."""
    for each in stated:
        if isinstance(each, cp.sum_largest) and each.k > each.args[0].size:
            raise InputError(
                f"{policy} sums up the {each.k} largest or smallest of {each.args[0].size} "
                f"numbers; write min(k, u.size) in cp.sum_largest(u, k) and cp.sum_smallest."
            )
        stated += each.args


def _status(objective: cp.Minimize | cp.Maximize, constraints: list[cp.Constraint]) -> str:
    """Return how a solver ends under other constraints; "" where it finds no end."""
    try:
        return optimum(compile_statement(objective, constraints, None).scaled()).status
    except SolveError:
        return ""
