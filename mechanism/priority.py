"""Who is owed most: priorities of rows and types, and the order in which idle GPUs are filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["Candidates", "idle_first", "time_at_start"]

# Shares below this are the noise of a solver, not a wish: a second in eleven days.
LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Candidates:
    """Every (row, type) with a positive share, in the order that breaks ties of the priority.

    The most owed come first, then larger shares, then earlier submission. ``cells`` are the places
    of the pairs in an array of shape (rows, types), counted line by line.
    """

    rows: Ints
    types: Ints
    cells: Ints
    share: Floats

    @classmethod
    def of(cls, target: Floats, speed: Floats, owed: Floats) -> Candidates:
        """List the candidates of target shares; all arrays are of shape (rows, types)."""
        cells = np.flatnonzero((target >= LEAST_SHARE) & (speed > 0))
        # Rounded, or the last digit of a solver would decide ties.
        share = target.take(cells).round(9)
        order = np.lexsort([-share, -owed.take(cells).round(3)])
        cells = cells[order]
        rows, types = np.divmod(cells, target.shape[1])
        return cls(rows, types, cells, share[order])

    def by_priority(
        self, received: Floats, half_round_s: float = 0.0, end_s: float = np.inf
    ) -> tuple[Ints, Ints]:
        """Sort by target share over time received, highest first.

        Gavel's priority (Narayanan et al., OSDI 2020, section 5): the share of time wanted over the
        share received since the target was set, whose common divisor does not matter. (Gavel's
        code divides by the time received by all jobs on the type instead, so that a job alone on
        several types stays on one of them for good.) With half a round to begin with, one type
        alone is apportioned as seats are by Webster's method.

        Parameters
        ----------
        received
            Seconds that each row has received on each type, > 0, shape (rows, types).
        half_round_s
            What of it was there from the beginning, seconds.
        end_s
            If finite, only rows stay that without this round would have had less than their
            share at its end, so many seconds after the target was set.
        """
        own = received.take(self.cells)
        order = (-self.share / own).argsort(kind="stable")
        if end_s < np.inf:
            behind = self.share * end_s > (own - half_round_s) * (1 + 1e-9)
            order = order[behind[order]]
        return self.rows[order], self.types[order]


def idle_first(served: Floats, speed: Floats, waiting: Bools) -> tuple[Ints, Ints]:
    """List (row, type) pairs for idle GPUs: least served rows first, their fastest types first.

    Parameters
    ----------
    served
        Seconds that each row has run so far, shape (rows,).
    speed
        Steps/s of each row on each type, 0 = cannot run, shape (rows, types).
    waiting
        Rows that may be used, shape (rows,).
    """
    rows = np.flatnonzero(waiting)
    rows = rows[np.argsort(served[rows], kind="stable")]
    fastest = np.argsort(-speed[rows], axis=1, kind="stable")
    each, types = np.repeat(rows, speed.shape[1]), fastest.ravel()
    runs = speed[each, types] > 0
    return each[runs], types[runs]


def time_at_start(owed: Floats, round_seconds: float, carry_over: bool) -> Floats:
    """Return the time received, seconds, with which a new target begins: half a round.

    Less if a row is owed time and more if it has had too much, as far as the half round goes.
    Gavel counts from half a round each time and keeps what is owed to break ties only. Then
    events that come faster than the shares take to be served starve the small shares; the second
    table of ``python -m benchmarks.gavel_physical`` shows by how much.

    Parameters
    ----------
    owed
        Seconds that each row is owed on each type, shape (rows, types).
    round_seconds
        Length of a round, seconds.
    carry_over
        False for Gavel's way.
    """
    half = round_seconds / 2
    # Time received stays above zero, as priorities divide by it.
    return half - (np.clip(owed, -half, 0.9 * half) if carry_over else np.zeros_like(owed))
