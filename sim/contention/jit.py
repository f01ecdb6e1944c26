"""Compiled if numba is there; if it is not, only the plain engine runs.

What is compiled is kept beside the source until that file changes. Who changes one of several files
that call each other, or a constant of `arrays`, empties ``sim/contention/__pycache__``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = TypeVar("Function", bound=Callable[..., Any])

try:
    from numba import njit
except ImportError:
    njit = None

__all__ = ["compiled", "jit", "jit_borrowing"]

compiled = njit is not None
"""Whether functions are compiled."""


def jit(function: Function) -> Function:
    """Compile a function, once for all processes."""
    if njit is None:
        return function
    result: Function = njit(cache=True, error_model="numpy", _nrt=True)(function)
    return result


def jit_borrowing(function: Function) -> Function:
    """Compile a function that makes no arrays: it need not count who holds those it is given.

    Counting, and handing over a dozen arrays at each call, takes most of the time of small
    functions: so they are put where they are called.
    """
    if njit is None:
        return function
    result: Function = njit(cache=True, error_model="numpy", _nrt=False, forceinline=True)(function)
    return result
