"""What the arguments of `solve` may be."""

from __future__ import annotations

from typing import Literal, get_args

from apportion.errors import InputError, unknown_name
from apportion.policies.solvers import SolverName

__all__ = ["Fallback", "check_options"]

Fallback = Literal["raise", "isolated"]
"""What `solve_instance` does when every solver has failed."""


def check_options(solver: str, fallback: str, partitions: int) -> None:
    """Refuse unknown words and numbers."""
    if solver not in get_args(SolverName):
        raise unknown_name("solver", solver, get_args(SolverName))
    if fallback not in get_args(Fallback):
        raise unknown_name("fallback", fallback, get_args(Fallback))
    if partitions < 1:
        raise InputError(f"partitions is {partitions}; it must be a number of parts, 1 or more.")
