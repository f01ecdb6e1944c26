"""What a policy may state, a convex problem with an optimum; what else it states is told so."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from apportion.errors import InfeasibleError, InputError, SolveError
from apportion.own_code import answered_by
from apportion.policies.solving.canonical import canonicalise
from apportion.policies.solving.cone import equilibrate
from apportion.policies.solving.highs import optimise

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from apportion.policies.base import Policy
    from apportion.policies.problem import OwnVariable
    from apportion.policies.solving.cone import ConeProgram


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
    if error.__cause__ is not None:
        return InputError(
            f"cvxpy cannot compile the objective or the constraints of {policy!r}. State them by "
            f"atoms that it turns into linear, second-order, exponential or power cones; one that "
            f"stands inside another can be p.variable(name) under a constraint. cvxpy says: "
            f"{reason}"
        )
    return InputError(
        f"The problem of {policy!r} is none that a solver here can take: variables must be "
        f"continuous, not integer or boolean; a policy with integral = True has boolean ones "
        f"of p.variable(name, shape, boolean=True). cvxpy says: {reason}"
    )


def check_finite(policy: Policy, program: ConeProgram) -> None:
    """Refuse a problem with numbers that are none, before a solver sees it.

    Raises
    ------
    InputError
        If there is NaN or infinity in the objective or the constraints.
    """
    numbers = (program.c, program.b, program.A.data, program.P.data, program.offset)
    if not all(np.isfinite(each).all() for each in numbers):
        raise InputError(f"{policy!r} states an objective or constraints with NaN or infinity.")


def refuse_too_many_summands(declared: cp.Problem, asked_by: str) -> None:
    """Name a sum of more of the largest or smallest numbers than there are: it has no bound.

    Raises
    ------
    InputError
        If there is one.
    """
    seen: list[Any] = [declared.objective, *declared.constraints]
    for each in seen:
        if isinstance(each, cp.sum_largest) and each.k > each.args[0].size:
            raise InputError(
                f"{asked_by} sums up the {each.k} largest or smallest of {each.args[0].size} "
                f"numbers; write min(k, u.size) in cp.sum_largest(u, k) and cp.sum_smallest."
            )
        seen += each.args


_LARGE = 1e6
"""What bounds a variable on trial, to see whether nothing else does."""


def no_optimum(
    declared: cp.Problem, own: Mapping[str, OwnVariable], status: str, asked_by: str
) -> SolveError:
    """Say what leaves a problem unbounded, or which of its constraints cannot hold together.

    Parameters
    ----------
    declared, own
        The whole problem, and the policy's own variables of it by name.
    status
        "unbounded" or "infeasible".
    asked_by
        The policy.

    Raises
    ------
    InputError
        For a sum of more numbers than there are, which has no bound.
    """
    if status == "unbounded":
        refuse_too_many_summands(declared, asked_by)
        free = " and ".join(map(repr, _unbounded(declared, own)))
        why = f": nothing bounds its variable {free}" if free else ""
        return SolveError(f"The objective of {asked_by} is unbounded on this problem{why}.")
    return InfeasibleError(
        f"No allocation meets the constraints of {asked_by}; these cannot hold together: "
        f"{', '.join(_conflict(declared))}."
    )


def _unbounded(declared: cp.Problem, variables: Mapping[str, OwnVariable]) -> list[str]:
    """Names of the policy's own variables that make the objective finite if bounded."""
    found = []
    for name, own in variables.items():
        bounded = [*declared.constraints, cp.abs(own.variable) <= _LARGE]
        found += [name] if _status(declared, bounded) == "optimal" else []
    return found or list(variables)


def _conflict(declared: cp.Problem) -> list[str]:
    """Labels of constraints that cannot hold together, and none of which could be left out."""
    kept = list(declared.constraints)
    for constraint in declared.constraints:
        rest = [other for other in kept if other is not constraint]
        kept = rest if _status(declared, rest) == "infeasible" else kept
    return [constraint.label or "a constraint without a label" for constraint in kept]


def _status(declared: cp.Problem, constraints: list[cp.Constraint]) -> str:
    """Return how a solver ends under other constraints; "" where it finds no end."""
    program = canonicalise(cp.Problem(declared.objective, constraints))
    try:
        return optimise(equilibrate(program)[0]).status
    except SolveError:
        return ""
