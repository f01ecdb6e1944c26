"""Levels of jobs by their throughput, as an objective about the worst off job declares them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels of the jobs by their throughput u, of which the worst one is the objective.

    Either ``factor * u``, the least of which is maximised, or ``offset + factor / u``, the largest
    of which is minimised. Without offsets the second kind is posed over its inverse, ``u /
    factor``, and so is a linear program too; a level is then one of the inverse.

    Attributes
    ----------
    factor, offset
        Coefficients of each job, ``factor > 0`` and ``offset >= 0``, shape (jobs,).
    inverse
        Whether it is the second kind.
    constrained
        Whether the policy has constraints of its own, which no level knows of.
    proportional
        Whether what is demanded is in proportion to the level, as without offsets.
    """

    factor: Floats
    offset: Floats
    inverse: bool
    constrained: bool
    proportional: bool

    @property
    def maximised(self) -> bool:
        """Whether a level is better the larger it is."""
        return self.proportional

    @cached_property
    def rate(self) -> Floats:
        """Steps/s that each job must make per unit of a level that demands in proportion."""
        return self.factor if self.inverse else 1 / self.factor

    def some(self, rows: Ints | slice) -> Levels:
        """Return the levels of some jobs."""
        of_rows = self.factor[rows], self.offset[rows]
        return Levels(*of_rows, self.inverse, self.constrained, self.proportional)

    def level(self, throughput: Floats) -> float:
        """Return the level of the worst job at some throughputs, shape (jobs,)."""
        if self.proportional:
            return float(np.minimum.reduce(throughput / self.rate))
        if np.minimum.reduce(throughput) <= 0:
            return np.inf
        return float(np.maximum.reduce(self.offset + self.factor / throughput))

    def demand(self, level: float) -> Floats:
        """Return the steps/s that each job must make for no level to be worse than `level`.

        Infinite where no throughput is enough. The demands shrink as the level gets worse, to
        nothing, and t times the demands improve it at most t-fold.
        """
        return self.asked(level)[0]

    def rise(self, level: float) -> Floats:
        """Return how fast each demand rises as the level gets better, steps/s per unit of it."""
        return self.asked(level)[1]

    def asked(self, level: float) -> tuple[Floats, Floats]:
        """Return `demand` and `rise`."""
        if self.proportional:
            return level * self.rate, self.rate
        left = level - self.offset
        if np.minimum.reduce(left) > 0:
            rate = self.factor / left
            return rate, rate / left
        left = np.maximum(left, 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            return self.factor / left, self.factor / left**2
