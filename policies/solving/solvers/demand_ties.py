"""Ties of jobs: two choices that cost them the same at prices.

Jobs whose speeds are in proportion are in the same tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from operator import mul, sub
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints

ALIKE = 1e-12
"""By how much numbers around 1 that are the same may differ."""
NEAR = 1e-9
"""By how much numbers around 1 that are not the same certainly differ."""


@dataclass(frozen=True, eq=False)
class DemandTie:
    """Jobs of which a point of the hull lies on the line between others.

    Attributes
    ----------
    row
        Their speeds relative to the largest, that of rest, 0, first; shape (options + 1,).
    value
        What throughput is worth to them.
    points
        Three points in the order of their speeds: the second lies on the line between the others.
        Or two, whose edge costs what it gains. Point 0 is rest.
    """

    row: Floats
    value: float
    points: tuple[int, ...]

    @cached_property
    def toward(self) -> list[float]:
        """How the time at each point changes towards the other side, rest first."""
        toward, (first, second, *third) = [0.0] * self.row.size, self.points
        toward[first], toward[second] = -1.0, 1.0
        if third:
            a, b, c = self.row[[*self.points]].tolist()
            part = (b - a) / (c - a)
            toward[first], toward[third[0]] = part - 1.0, -part
        return toward

    @cached_property
    def gain(self) -> float:
        """What that makes more is worth."""
        made: float = sum(map(mul, self.row.tolist(), self.toward))
        return self.value * made

    @cached_property
    def numbers(self) -> list[float]:
        """Speeds, `toward`, value, whether there are two points, and how far the other side is.

        Of a job that makes w it is the least of ``at + sign * (w - a) / span`` and ``(c - w) /
        rest``, and the job is at the first point alone unless w is more than another number. Then
        the choices from the first to the last point, on the other side, and of the first alone.
        """
        a, b, *third = self.row[[*self.points]].tolist()
        first, last = self.points[0], self.points[-1]
        place = Choices.of(self.row.size, not third).place
        edge, alone = place[first][last], place[first][first]
        far = (
            [0.0, 1.0, third[0], third[0] - b, -np.inf, edge, edge, edge]
            if third
            else ([1.0, -1.0, np.inf, 1.0, a, edge, place[last][last], alone])
        )
        return [*self.row.tolist(), *self.toward, self.value, float(not third), a, b - a, *far]


def all_apart(speeds: list[float], ordered: tuple[int, ...]) -> bool:
    """Whether points in the order of their speeds are certainly not as fast as each other."""
    some = [speeds[point] for point in ordered]
    nearest: float = min(map(sub, some[1:], some))
    return nearest > NEAR


class Choices(NamedTuple):
    """Edges from a lower to an upper point, then points by themselves.

    Attributes
    ----------
    lower, upper
        Their points, shape (choices,).
    place
        The choice of a lower and an upper point, -1 for none.
    meet
        Which have a point in common or are points by themselves, shape (choices, choices).
    """

    lower: Ints
    upper: Ints
    place: list[list[int]]
    meet: Bools

    @staticmethod
    @cache
    def of(points: int, valued: bool) -> Choices:
        """List the choices between points; those by themselves where throughput has a value."""
        pairs = [(low, up) for low in range(points) for up in range(1, points) if low != up]
        pairs += [(point, point) for point in range(1, points)] if valued else []
        lower, upper = np.array(pairs).T
        place = np.full((points, points), -1)
        place[lower, upper] = np.arange(lower.size)
        meets = (lower[:, None] == lower) | (upper[:, None] == upper)
        meets |= (lower[:, None] == upper) | (upper[:, None] == lower)
        edge = lower != upper
        return Choices(lower, upper, place.tolist(), meets | ~(edge[:, None] | edge))


class TypesOf(NamedTuple):
    """Types of points.

    Attributes
    ----------
    kind
        Type of each point, for rest one more than there are, shape (options + 1,).
    unit
        1 where a type is itself, the one of rest last, shape (types + 1, types).
    of_type
        The row of `unit` of each point, shape (options + 1, types).
    ends
        Type of the lower and of the upper point of each choice, shape (2, choices).
    """

    kind: Ints
    unit: Floats
    of_type: Floats
    ends: Ints

    @staticmethod
    @cache
    def of(options: tuple[int, ...], types: int, valued: bool) -> TypesOf:
        """Find them where options are of some of so many types."""
        lower, upper, *_ = Choices.of(len(options) + 1, valued)
        kind, unit = np.array([types, *options]), np.eye(types + 1)[:, :-1]
        return TypesOf(kind, unit, unit[kind], kind[np.array([lower, upper])])


@cache
def within(tied: tuple[int, ...], points: int, valued: bool) -> Bools:
    """Tell which choices are between the points of a tie, shape (choices,)."""
    lower, upper, *_ = Choices.of(points, valued)
    own: Bools = np.isin(lower, tied) & np.isin(upper, tied)
    own &= (lower != upper) | (len(tied) == 2)
    return own


class Tied(NamedTuple):
    """Ties at prices where demands are so much: a member is a job of a tie, tie by tie.

    Attributes
    ----------
    tie, job
        Places of each member, shape (members,).
    most
        How much of its time may go to the other side of the tie, shape (members,).
    toward
        How that changes the time at each point, shape (ties, options + 1).
    two
        Whether a tie is of two points, shape (ties,).
    columns
        What all members take more of each type on the other side, shape (ties, types).
    """

    tie: Ints
    job: Ints
    most: Floats
    toward: Floats
    two: Bools
    columns: Floats

    @classmethod
    def none(cls, points: int, types: int) -> Tied:
        """Return no ties."""
        nobody, no = np.zeros(0, dtype=np.intp), np.zeros
        return cls(nobody, nobody, no(0), no((0, points)), no(0, bool), no((0, types)))
