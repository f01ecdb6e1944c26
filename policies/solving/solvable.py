"""What a policy may state, a convex problem with continuous variables; others are told so."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import cvxpy as cp

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.policies.base import Policy

__all__ = ["solvable"]


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
    except cp.error.DCPError as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"The problem of {policy!r} is not convex by cvxpy's rules: maximise something concave "
            f"or minimise something convex, under convex constraints. cvxpy says: {reason}"
        ) from error
    except cp.error.SolverError as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"The problem of {policy!r} is none that a solver here can take: variables must be "
            f"continuous, not integer or boolean; a policy with integral = True has boolean ones "
            f"of p.variable(name, shape, boolean=True). cvxpy says: {reason}"
        ) from error
