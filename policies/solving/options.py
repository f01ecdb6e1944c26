"""What the arguments of `solve` may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from apportion.checks import choice, number, seconds, whole
from apportion.errors import InputError
from apportion.policies.solving.highs import SolverName

if TYPE_CHECKING:
    from apportion.policies.base import Policy
    from apportion.policies.solving.pairs import PairTable

Fallback = Literal["raise", "isolated"]
"""What `solve_instance` does when every solver has failed."""


def check_options(
    policy: Policy,
    solver: str,
    fallback: str,
    partitions: int,
    pairs: PairTable | None,
    time_limit_s: float | None,
    gap: float,
) -> None:
    """Refuse unknown words and numbers, and what does not go with whole decisions or shares."""
    choice("solver", solver, get_args(SolverName))
    choice("fallback", fallback, get_args(Fallback))
    whole("partitions", partitions, 1)
    if time_limit_s is not None:
        seconds("time_limit_s", time_limit_s, strict=True, infinite=True)
    number("gap", gap, most=1.0)
    if not policy.integral:
        if time_limit_s is not None:
            raise InputError(
                f"time_limit_s is of whole decisions, and {policy!r} gives shares of time, which "
                f"take no search; leave it out."
            )
        return
    if partitions > 1:
        raise InputError(f"partitions do not go with {policy!r}, which decides in whole numbers.")
    if solver not in ("auto", "highs"):
        raise InputError(
            f"solver={solver!r} does not go with {policy!r}, which decides in whole numbers. "
            f"Valid here: auto, highs."
        )
    if pairs is not None:
        raise InputError(
            f"pairs= does not go with {policy!r}, which decides in whole numbers: give the "
            f"combinations that may share GPUs as rows of the throughput tensor."
        )
