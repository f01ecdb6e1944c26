"""Mixes of columns that take the least part of what there is, by the simplex method.

Each row is a type, so that its matrices are tiny: what costs is how often arrays are touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints

CHEAPER = 1e-13
"""By what part of what is paid a column must cost less to count."""
_PIVOTS = 200
_FAR_COSTS = 1e4
"""What it costs to be away from full, where all open types are worth one."""
_ALIKE = 1e-12
"""By how much numbers around 1 that are the same may differ."""


class ColumnMix:
    """The program over columns, solved by the simplex method from its last basis.

    Its variables by number: what is left idle of each type, or, of one that is to stay full, how
    far it is from that, which costs so much that there is none in the end if there need be none;
    the part t; the weights of columns.

    Parameters
    ----------
    columns
        The first ones, shape (columns, types).
    exact
        Which types are to stay full, shape (types,).

    Attributes
    ----------
    prices, part, missed
        What all there is of each type is worth, t, and how far types are from full in all.
    """

    prices: Floats
    part: float
    missed: float

    def __init__(self, columns: Floats, exact: Bools) -> None:
        types = exact.size
        self._exact, self._far = exact, np.zeros(types + 1, dtype=bool)
        self._far[:-1], self._one = exact, np.eye(types + 1)
        self._entries = np.zeros((types + 1, types + 1))
        self._entries[:-1, :-1] = np.diag(np.where(exact & (columns[0] > 0), -1.0, 1.0))
        self._entries[types, :types] = np.where(exact, 0.0, -1.0)
        self.add(columns)
        self._basis = np.arange(types + 1)
        self._place = int(np.where(exact, -np.inf, columns[0]).argmax())  # of t: never leaves
        self._basis[self._place], self._basis[types] = types, types + 1
        self._inverse = np.linalg.inv(self._entries[self._basis].T)

    def add(self, columns: Floats) -> None:
        """Add columns."""
        rows = np.ones((len(columns), self._exact.size + 1))
        rows[:, :-1] = columns
        self._entries = np.concatenate([self._entries, rows])

    def saves(self, column: Floats) -> float:
        """Return how much less than what is paid a column costs, as a part of it."""
        return (self.part - float(self.prices @ column)) / self.part

    @property
    def used(self) -> Ints:
        """Places of the columns that are in use."""
        return self._basis[self._basis > self._exact.size] - self._exact.size - 1

    def solve(self) -> bool:
        """Bring in columns and idle types as long as that saves anything; False if it cannot."""
        types, exact = self._exact.size, self._exact
        columns = self._entries[types + 1 :, :types]
        for _ in range(_PIVOTS):
            far = self._far[np.minimum(self._basis, types)]
            dual, value = self._inverse[self._place], self._inverse[:, types]
            dual = dual + _FAR_COSTS * (far @ self._inverse)
            self.missed, self.part = float(far @ np.abs(value)), float(dual[types])
            self.prices = np.where(exact, -dual[:types], np.maximum(-dual[:types], 0.0))
            idle = np.where(exact, -np.inf, dual[:types])
            saved = np.concatenate([idle, [-np.inf], self.part - columns @ self.prices])
            enters = int(saved.argmax())
            if saved[enters] <= CHEAPER * self.part:
                return True
            moves = self._inverse @ self._entries[enters]
            size = np.abs(moves)
            falls = (moves > _ALIKE) | (far & (value <= _ALIKE) & (size > _ALIKE))
            falls[self._place] = False  # t is free
            if not falls.any():
                return False
            size[~falls] = 1.0
            steps = np.where(falls, np.maximum(value, 0.0) / size, np.inf)
            self._pivot(int(steps.argmin()), enters, moves)
        return False

    def _pivot(self, place: int, enters: int, moves: Floats) -> None:
        """Let a variable enter the basis at a place, and take rounding errors out again."""
        self._basis[place] = enters
        row = self._inverse[place] / moves[place]
        inverse = self._inverse - moves[:, None] * row
        inverse[place] = row
        matrix = self._entries[self._basis].T
        self._inverse = inverse + inverse @ (self._one - matrix @ inverse)
