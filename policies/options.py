"""What the arguments of `solve` may be."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from apportion.errors import InputError, unknown_name
from apportion.policies.solvers import SolverName

__all__ = ["Fallback", "check_options"]

Fallback = Literal["raise", "isolated"]
"""What `solve_instance` does when every solver has failed."""


def check_options(solver: str, fallback: str, partitions: int) -> None:
    """Refuse unknown words and numbers."""
    if not isinstance(solver, str) or solver not in get_args(SolverName):
        raise unknown_name("solver", solver, get_args(SolverName))
    if not isinstance(fallback, str) or fallback not in get_args(Fallback):
        raise unknown_name("fallback", fallback, get_args(Fallback))
    whole = isinstance(partitions, (int, np.integer)) and not isinstance(partitions, bool)
    if not whole or partitions < 1:
        raise InputError(f"partitions is {partitions!r}; it must be a number of parts, 1 or more.")
