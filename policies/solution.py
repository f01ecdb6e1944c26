"""What solving an instance yields, in arrays, and what one way of solving it does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.types import Floats


ACCURATE = 1e-6
"""Largest gap of what is called optimal; above it the next solver has a try as well."""


@dataclass(frozen=True, eq=False)
class Solution:
    """An allocation in arrays.

    Attributes
    ----------
    X
        Share of time of each row, then of each pair of `pairs`, under each option, shape
        (rows + pairs, options).
    throughput
        Effective throughput, steps/s, shape (jobs,).
    objective
        The policy's objective at `X`, in the policy's unit.
    prices
        What one more unit of each resource would improve the objective by, shape (resources,).
    gap
        Certified relative distance of the objective from the optimum; infinite if not known.
    status
        "optimal", "optimal_inaccurate" where the gap is above 1e-6, or for a whole decision above
        the gap that was asked for, or "fallback" where every
        solver failed and the isolated share was asked for in that case.
    message
        What a reader should know, e.g. which deadlines cannot be met.
    stats
        Sizes, solver, ``reduction`` (what was solved in place of the instance)
        and ``tried`` (what came of every attempt, in order).
    pairs
        Jobs of the last rows of `X`, which are pairs that share devices, shape (pairs, 2).
    """

    X: Floats
    throughput: Floats
    objective: float
    prices: Floats
    gap: float
    status: str = "optimal"
    message: str = ""
    stats: dict[str, Any] = field(default_factory=dict)
    pairs: NDArray[np.intp] = field(default_factory=lambda: np.empty((0, 2), dtype=np.intp))


class Attempted(NamedTuple):
    """What one way of solving makes of a reduced problem."""

    X: Floats
    objective: float
    gap: float
    prices: Floats
    stats: dict[str, Any]
