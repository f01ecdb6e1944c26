"""What a policy may state, a convex problem with continuous variables; others are told so."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from apportion.errors import InputError
from apportion.own_code import answered_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.policies.base import Policy
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
