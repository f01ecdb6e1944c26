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
    from apportion.types import Floats, Ints

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
    def speeds(self) -> list[float]:
        """Those of the points."""
        row: list[float] = self.row.tolist()
        return [row[point] for point in self.points]

    @cached_property
    def toward(self) -> list[float]:
        """How the time at each point changes towards the other side, rest first."""
        toward, (first, second, *third) = [0.0] * self.row.size, self.points
        toward[first], toward[second] = -1.0, 1.0
        if third:
            a, b, c = self.speeds
            part = (b - a) / (c - a)
            toward[first], toward[third[0]] = part - 1.0, -part
        return toward

    @cached_property
    def at_points(self) -> list[float]:
        """How the time at its points changes."""
        return [self.toward[point] for point in self.points]

    @cached_property
    def gain(self) -> float:
        """What that makes more is worth."""
        made: float = sum(map(mul, self.row.tolist(), self.toward))
        return self.value * made

    @cached_property
    def others(self) -> list[bool]:
        """Which points are no part of it, shape (options + 1,)."""
        return [point not in self.points for point in range(self.row.size)]


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
    kind
        Type of each point, of rest one more than there are, shape (options + 1,).
    of_type
        1 where a point is of a type, shape (options + 1, types).
    at_lower
        The row of `of_type` of the lower point, shape (choices, types).
    to_upper
        That of the upper point less that of the lower, shape (choices, types).
    """

    lower: Ints
    upper: Ints
    place: list[list[int]]
    kind: Ints
    of_type: Floats
    at_lower: Floats
    to_upper: Floats

    @staticmethod
    @cache
    def of(options: tuple[int, ...], types: int, valued: bool) -> Choices:
        """List the choices where options are of some of so many types.

        Those by themselves where throughput has a value.
        """
        points = len(options) + 1
        pairs = [(low, up) for low in range(points) for up in range(1, points) if low != up]
        pairs += [(point, point) for point in range(1, points)] if valued else []
        lower, upper = np.array(pairs).T
        place = np.full((points, points), -1)
        place[lower, upper] = np.arange(lower.size)
        kind = np.array([types, *options])
        of_type = np.eye(types + 1)[kind, :-1]
        amounts = of_type, of_type[lower], of_type[upper] - of_type[lower]
        return Choices(lower, upper, place.tolist(), kind, *amounts)


class Tied(NamedTuple):
    """The jobs of a tie at prices where demands are so much.

    Attributes
    ----------
    tie
        The tie.
    members
        Of each job its place, what it is to make, relative to its largest speed, how much of its
        time may go to the other side, and the GPUs that it holds.
    held
        GPUs that all of them may hold on the other side.
    """

    tie: DemandTie
    members: list[tuple[int, float, float, float]]
    held: float

    def moved(self, share: float, weight: list[float]) -> list[float]:
        """Return the time of each on the other side, as even as can be.

        Parameters
        ----------
        share
            Part of what they may hold there that they hold.
        weight
            What a GPU weighs at each point, rest first.
        """
        if len(self.members) == 1:
            return [min(max(share, 0.0), 1.0) * self.members[0][2]]
        pull = [*map(mul, weight, self.tie.toward)]
        a, c, steep = self.tie.speeds[0], self.tie.speeds[-1], sum(map(mul, pull, self.tie.toward))
        first, last = pull[self.tie.points[0]] / steep, pull[self.tie.points[-1]] / steep
        # Each has what a level is above its first number, but no more than between both.
        bends, ranges = [], []
        for _, made, most, gpus in self.members:
            part = max(made - a, 0.0) / (c - a)
            low = (1.0 - part) * first + part * last
            bends += [(low, gpus), (low + most, -gpus)]
            ranges.append((low, most))
        want, level, moved, rises = share * self.held, 0.0, 0.0, 0.0
        for bend, more in sorted(bends):
            higher = moved + rises * (bend - level)
            if higher >= want:
                level = level + (want - moved) / rises if rises else bend
                break
            level, moved, rises = bend, higher, rises + more
        return [min(max(level - low, 0.0), most) for low, most in ranges]
