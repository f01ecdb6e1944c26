"""What the arguments of `solve` may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from apportion.checks import choice, number, seconds, whole
from apportion.errors import InputError
from apportion.policies.solving.solvers.optimise import SolverName

if TYPE_CHECKING:
    from apportion.policies.base import Policy

__all__ = ["TIME_LIMIT_S", "Fallback", "check_options", "check_whole"]

Fallback = Literal["raise", "isolated"]
"""What `solve_instance` does when every solver has failed."""
TIME_LIMIT_S = 60.0
"""Seconds that the search for a whole decision may take unless another limit is given."""


def check_options(solver: str, fallback: str, partitions: int) -> None:
    """Refuse unknown words and numbers."""
    choice("solver", solver, get_args(SolverName))
    choice("fallback", fallback, get_args(Fallback))
    whole("partitions", partitions, 1)


def check_whole(
    policy: Policy,
    solver: str,
    partitions: int,
    *,
    pairs: bool,
    time_limit_s: float | None,
    gap: float,
) -> float:
    """Refuse what does not go with whole decisions, or goes with them only; return the limit."""
    limit_s = TIME_LIMIT_S if time_limit_s is None else time_limit_s
    seconds("time_limit_s", limit_s, strict=True, infinite=True)
    number("gap", gap, most=1.0)
    if not policy.integral:
        if time_limit_s is not None:
            raise InputError(
                f"time_limit_s is of whole decisions, and {policy!r} gives shares of time, which "
                f"take no search; leave it out."
            )
        return limit_s
    if partitions > 1:
        raise InputError(f"partitions do not go with {policy!r}, which decides in whole numbers.")
    if solver not in ("auto", "highs"):
        raise InputError(
            f"solver={solver!r} does not go with {policy!r}, which decides in whole numbers. "
            f"Valid here: auto, highs."
        )
    if pairs:
        raise InputError(
            f"pairs= does not go with {policy!r}, which decides in whole numbers: give the "
            f"combinations that may share GPUs as rows of the throughput tensor."
        )
    return limit_s
