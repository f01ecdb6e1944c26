"""Several ways to solve one problem: the first that is accurate, or the best of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.errors import InfeasibleError, SolveError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["ACCURATE", "Attempted", "best_of"]

_LOG = logging.getLogger(__name__)

ACCURATE = 1e-6
"""Largest gap of what is called optimal; above it the next solver has a try as well."""


class Attempted(NamedTuple):
    """What one way of solving makes of a reduced problem."""

    X: Floats
    objective: float
    gap: float
    prices: Floats
    stats: dict[str, Any]


def best_of(
    attempts: Iterator[tuple[str, Callable[[], Attempted]]],
) -> tuple[Attempted, dict[str, str]]:
    """Go through the attempts until one is accurate; return the best, and how each one ended."""
    best: Attempted | None = None
    tried: dict[str, str] = {}
    for name, solve in attempts:
        try:
            outcome = solve()
        except InfeasibleError:
            raise
        except SolveError as error:
            tried[name] = str(error)
            continue
        tried[name] = f"gap {outcome.gap:.1e}"
        best = outcome if best is None or outcome.gap < best.gap else best
        if best.gap <= ACCURATE:
            return best, tried
        _LOG.info("%s: %s", name, tried[name])
    if best is None:
        raise SolveError(" Then ".join(dict.fromkeys(tried.values())))
    return best, tried
