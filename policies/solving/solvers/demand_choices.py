"""What jobs that must make so much choose at prices of types, and between what they are tied.

The cheapest way for a job to make a demand is a mix of two options, one of them slower than what it
demands and one faster, or of an option and rest: an edge of the lower convex hull of its points
(speed, price) and (0, 0). Where more throughput has a value, jobs go further along their hull, as
long as an edge costs less than it gains. Jobs whose speeds are in proportion are tied at the same
prices.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from apportion.types import Bools, Floats, Ints

ALIKE = 1e-12
"""By how much numbers around 1 that are the same may differ."""
NEAR = 1e-9
"""By how much numbers around 1 that are not the same certainly differ."""


class DemandTie(NamedTuple):
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

    @property
    def toward(self) -> Floats:
        """How the time at each point changes towards the other side, shape (options + 1,)."""
        toward, (first, second, *third) = [0.0] * self.row.size, self.points
        toward[first], toward[second] = -1.0, 1.0
        if third:
            a, b, c = self.speeds
            part = (b - a) / (c - a)
            toward[first], toward[third[0]] = part - 1.0, -part
        return np.array(toward)

    @property
    def speeds(self) -> list[float]:
        """Speeds at the points, in order."""
        row = self.row.tolist()
        return [row[point] for point in self.points]


def all_apart(speeds: list[float], ordered: tuple[int, ...]) -> bool:
    """Whether points in the order of their speeds are certainly not as fast as each other."""
    return all(speeds[up] - speeds[low] > NEAR for low, up in pairwise(ordered))


class Tied(NamedTuple):
    """A tie where demands are so much.

    Attributes
    ----------
    jobs
        Whom it is one of.
    most
        How much of their time may go to the other side, shape (jobs,).
    toward
        How that changes the time at each point, shape (options + 1,).
    """

    jobs: Ints
    most: Floats
    toward: Floats


@cache
def _choices(points: int, valued: bool) -> tuple[Ints, Ints, Ints, Bools]:
    """List lower and upper points of edges, then points by themselves.

    Also where each stands, and which have no point in common, one of them an edge.
    """
    pairs = [(low, up) for low in range(points) for up in range(1, points) if low != up]
    pairs += [(point, point) for point in range(1, points)] if valued else []
    lower, upper = np.array(pairs).T
    place = np.full((points, points), -1)
    place[lower, upper] = np.arange(lower.size)
    meets = (lower[:, None] == lower) | (upper[:, None] == upper)
    meets |= (lower[:, None] == upper) | (upper[:, None] == lower)
    edge = lower != upper
    return lower, upper, place, (edge[:, None] | edge) & ~meets


class DemandChoices:
    """What each job chooses at prices: an edge, or a point by itself, and the ties between them.

    Parameters
    ----------
    speed
        Throughput of each job under each option, >= 0, shape (jobs, options).
    gpus
        GPUs that a job holds, whatever the option, times the jobs that it stands for; (jobs,).
    kind
        Type of each option, shape (options,).
    capacity
        GPUs of each type, above 0, shape (types,).
    value
        What a GPU's time is worth where a job is fastest, shape (jobs,); ``None`` where the level
        is to be found.

    Attributes
    ----------
    prices
        Per GPU of each type, shape (types,).
    ties
        Of jobs, at the prices.
    """

    def __init__(
        self,
        speed: Floats,
        gpus: Floats,
        kind: Ints,
        capacity: Floats,
        value: Floats | None = None,
    ) -> None:
        jobs, options = speed.shape
        self._top = speed.max(axis=1)
        self._row = np.zeros((jobs, options + 1))
        np.divide(speed, self._top[:, None], out=self._row[:, 1:])
        self._gpus, self._capacity = gpus, capacity
        self._kind = np.concatenate([[capacity.size], kind])  # rest has no type
        self._valued = value is not None
        self._value = np.zeros(jobs) if value is None else value
        self._most_value = float(self._value.max(initial=0.0))
        all_choices = _choices(options + 1, self._valued)
        self._lower, self._upper, self._place, self._disjoint = all_choices
        self._edges = options * options
        self._below = self._row[:, self._lower]
        self._above = self._row[:, self._upper]
        self._span = self._above - self._below
        self._span[self._span <= 0] = 1.0
        self._cell = np.arange(jobs) * self._lower.size
        self._known: dict[tuple[bytes, float, tuple[int, ...]], tuple[Ints, Floats]] = {}
        self.prices = np.zeros(capacity.size)
        self.ties: list[DemandTie] = []
        self._tied: list[Tied] = []

    def _demanding(self, demand: Floats) -> None:
        """Set what jobs must make, and what of it the choices reach."""
        self._wanted = np.minimum(demand / self._top, 1.0)
        wanted, edges = self._wanted[:, None], self._edges
        self._part = (wanted - self._below) / self._span
        valid = (self._below < wanted) & (wanted <= self._above)
        if self._valued:
            self._part[:, edges:] = 1.0
            valid[:, edges:] = wanted <= self._above[:, edges:]
            gain = self._value[:, None] * self._above
            gain[:, :edges] = (self._value * self._wanted)[:, None]
            self._gain = np.where(valid, gain, -np.inf)
        else:
            self._gain = np.where(valid, 0.0, -np.inf)

    def _per_point(self, prices: Floats) -> Floats:
        """Return the price of each point, of rest first; shape (options + 1,)."""
        each = np.zeros(prices.size + 1)
        each[:-1] = prices
        return np.asarray(each[self._kind])

    def _costs(self, prices: Floats) -> Floats:
        """Return what a GPU's time costs under each choice, shape (jobs, choices)."""
        each = self._per_point(prices)
        low = each[self._lower]
        return np.asarray(self._part * (each[self._upper] - low) + low)

    def _worth(self) -> Floats:
        """Return what a GPU's time is worth under each choice, minus infinity for what is none."""
        return np.asarray(self._gain - self._costs(self.prices))

    def _of_base(self, cells: Floats) -> Floats:
        """Return the numbers of what is chosen, shape (jobs,)."""
        return np.asarray(cells.ravel().take(self._cell + self._base))

    def _choose(self) -> None:
        """Let each job take what is worth most."""
        self._worths = self._worth()
        self._alike = ALIKE * max(*self.prices.tolist(), self._most_value)
        self._base = self._worths.argmax(axis=1)

    def _sides(self, tie: DemandTie) -> Tied:
        """Bring the jobs of a tie to its first side, from which they may go to the other."""
        key = tie.row.tobytes(), tie.value, tie.points
        known = self._known.get(key)
        if known is None:
            mine = (np.abs(self._row - tie.row) <= ALIKE).all(axis=1)
            if len(tie.points) == 2:
                mine &= np.abs(self._value - tie.value) <= ALIKE * tie.value
            known = self._known[key] = np.flatnonzero(mine), tie.toward
        jobs, toward = known
        first, last = tie.points[0], tie.points[-1]
        edge = self._place[first, last]
        both = edge if len(tie.points) == 3 else self._place[last, last]
        cells, worths = self._cell[jobs], self._worths.ravel()
        behind = worths.take(cells + self._base[jobs]) - worths.take(cells + both)
        jobs = jobs[behind <= self._alike]
        wanted = self._wanted[jobs]
        if len(tie.points) == 3:
            a, b, c = tie.speeds
            self._base[jobs] = edge
            most = np.minimum((wanted - a) / (b - a), (c - wanted) / (c - b))
        else:
            a, b = tie.speeds
            self._base[jobs] = np.where(wanted > a, edge, self._place[first, first])
            most = 1.0 - np.maximum((wanted - a) / (b - a), 0.0)
        return Tied(jobs, np.minimum(np.maximum(most, 0.0), 1.0), toward)

    def _by_type(self, kind: Ints, amounts: Floats) -> Floats:
        """Sum amounts by type, that of each given; rest has none."""
        summed = np.bincount(kind, amounts, self._capacity.size + 1)[:-1]
        return summed.astype(float, copy=False)

    def _taken(self, some: Ints | slice = slice(None)) -> Floats:
        """Return what some jobs, or all, take of each type."""
        base, gpus = self._base[some], self._gpus[some]
        upper = gpus * self._of_base(self._part)[some]
        points = np.concatenate([self._lower[base], self._upper[base]])
        return self._by_type(self._kind[points], np.concatenate([gpus - upper, upper]))

    def _of_tie(self, tied: Tied) -> Floats:
        """Return what all jobs of a tie take more of each type on its other side."""
        total = float(self._gpus[tied.jobs] @ tied.most)
        return self._by_type(self._kind, total * tied.toward)

    def _growing(self, slope: Floats) -> Floats:
        """Return how fast what is taken of each type grows, where demands grow so fast."""
        each = self._gpus * slope / self._top / self._of_base(self._span)
        points = np.concatenate([self._lower[self._base], self._upper[self._base]])
        return self._by_type(self._kind[points], np.concatenate([-each, each]))

    def _cross(self, place: int) -> None:
        """Bring the jobs of a tie to its other side."""
        points, jobs = self.ties[place].points, self._tied[place].jobs
        if len(points) == 3:
            slow = self._wanted[jobs] <= self.ties[place].row[points[1]]
            self._base[jobs] = np.where(slow, self._place[points[:2]], self._place[points[1:]])
        else:
            self._base[jobs] = self._place[points[1], points[1]]

    def _tie_of(self, job: int, base: int, choice: int) -> DemandTie | None:
        """Return the tie of two choices of a job, ``None`` if they are more than one."""
        row = self._row[job]
        points = {int(each[at]) for each in (self._lower, self._upper) for at in (base, choice)}
        if len(points) != (3 if max(base, choice) < self._edges else 2):
            return None
        speeds = row.tolist()
        ordered = tuple(sorted(points, key=speeds.__getitem__))
        if not all_apart(speeds, ordered):
            return None
        return DemandTie(row, float(self._value[job]), ordered)

    def duals(self) -> Floats:
        """Return what throughput costs each job at the margin, per GPU of it; shape (jobs,)."""
        each = self._per_point(self.prices)
        low, up = self._lower[self._base], self._upper[self._base]
        edge = (each[up] - each[low]) / self._of_base(self._span)
        return np.where(low == up, self._value, edge)
