"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Point"]


@dataclass(frozen=True, eq=False)
class Point:
    """Primal and dual vectors, status, and the name of the solver.

    `status` is "optimal", "infeasible", "unbounded", or the solver's own word; where it is
    "infeasible", `y` is a certificate: its nonzero rows cannot hold together. `unique` says that
    there is no other optimum, as far as the solver can tell; an interior point cannot.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    status: str
    solver: str
    unique: bool = False

    def at(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> Point:
        """Return the same of other vectors."""
        return Point(x, y, self.status, self.solver, self.unique)
