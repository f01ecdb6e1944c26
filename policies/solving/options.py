"""What the arguments of `solve` may be."""

from __future__ import annotations

from typing import Literal, get_args

from apportion.checks import choice, whole
from apportion.policies.solving.solvers.optimise import SolverName

__all__ = ["Fallback", "check_options"]

Fallback = Literal["raise", "isolated"]
"""What `solve_instance` does when every solver has failed."""


def check_options(solver: str, fallback: str, partitions: int) -> None:
    """Refuse unknown words and numbers."""
    choice("solver", solver, get_args(SolverName))
    choice("fallback", fallback, get_args(Fallback))
    whole("partitions", partitions, 1)
