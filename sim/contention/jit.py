"""Compiled if numba is there; if it is not, only the plain engine runs.

What is compiled is kept beside the source, or else where numba keeps things for the user; where
nothing can be written, as in a container, each process compiles anew. numba sees a change of the
file of a function, not of those that it calls, nor of a constant of `arrays`: what is older than
any file here, or the rules of gates, is forgotten.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from apportion.mechanism.gates import gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = TypeVar("Function", bound=Callable[..., Any])

logger = logging.getLogger(__name__)

try:
    from numba import njit
except ImportError:
    njit = None

compiled = njit is not None
"""Whether functions are compiled."""


def _forget_older(folder: Path, *others: Path) -> None:
    """Delete what was compiled before a file of the folder, or another, was last written."""
    with suppress(OSError):  # others may be at it, and an installation may be read-only
        sources = [*folder.glob("*.py"), *others]
        written = max(file.stat().st_mtime_ns for file in sources)
        kept = list((folder / "__pycache__").glob("*.nb[ci]"))
        if any(file.stat().st_mtime_ns < written for file in kept):
            for file in kept:
                file.unlink(missing_ok=True)


if compiled:
    _forget_older(Path(__file__).parent, Path(gate.__file__))


_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Python does not call these: without what it would need, they compile in half the time."""


def jit(function: Function) -> Function:
    """Compile a function that compiled ones call, with those that call it."""
    return _compiled(function, _nrt=True, **_INNER)


def jit_borrowing(function: Function) -> Function:
    """Compile a function that makes no arrays: it need not count who holds those it is given.

    Counting, and handing over a dozen arrays at each call, takes most of the time of small
    functions: so they are put where they are called.
    """
    return _compiled(function, _nrt=False, forceinline=True, **_INNER)


def jit_entry(function: Function) -> Function:
    """Compile a function that Python calls, once for all processes; it makes no arrays either."""
    try:
        return _compiled(function, _nrt=False, cache=True)
    except RuntimeError as error:  # of numba, where it finds no folder that can be written
        logger.info("What is compiled cannot be kept: %s. NUMBA_CACHE_DIR names a folder.", error)
        return _compiled(function, _nrt=False)


def is_kept(entry: Any) -> bool:
    """Tell whether another process has left what `entry` is when compiled, or this one has it."""
    stats = getattr(entry, "stats", None)
    if stats is None or entry.signatures:
        return stats is not None
    if stats.cache_path is None:
        return False
    name = f"{entry.__module__.rpartition('.')[2]}.{entry.__name__}-*.nbc"
    return any(Path(stats.cache_path).glob(name))


def _compiled(function: Function, **options: bool) -> Function:
    if njit is None:
        return function
    made: Function = njit(error_model="numpy", **options)(function)
    return made
