"""What jobs that must make so much choose at prices of types, and between what they are tied.

The cheapest way for a job to make a demand is a mix of two options, one of them slower than what it
demands and one faster, or of an option and rest: an edge of the lower convex hull of its points
(speed, price) and (0, 0). Where more throughput has a value, jobs go further along their hull, as
long as an edge costs less than it gains. Jobs whose speeds are in proportion are tied at the same
prices.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solving.solvers.demand_ties import (
    ALIKE,
    NEAR,
    Choices,
    DemandTie,
    Tied,
    all_apart,
)

if TYPE_CHECKING:
    from apportion.types import Floats, Ints


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

    _dear: Floats
    _steep: Floats
    _hard: Ints

    def __init__(
        self,
        speed: Floats,
        gpus: Floats,
        kind: Ints,
        capacity: Floats,
        value: Floats | None = None,
    ) -> None:
        jobs, options = speed.shape
        self._top = np.ascontiguousarray(speed.T).max(axis=0)  # quicker than by rows
        self._row = np.zeros((jobs, options + 1))
        np.divide(speed, self._top[:, None], out=self._row[:, 1:])
        self._gpus, self._capacity = gpus, capacity
        self._valued = value is not None
        self._value = np.zeros(jobs) if value is None else value
        self._most_value = float(self._value.max(initial=0.0))
        choices = Choices.of((*kind.tolist(),), capacity.size, self._valued)
        self._lower, self._upper, self._place, self._kind, *of_types = choices
        self._of_type, self._at_lower, self._to_upper = of_types
        self._edges = options * options
        self._below = self._row.take(self._lower, axis=1)
        self._above = self._row.take(self._upper, axis=1)
        self._span = self._above - self._below
        self._span[self._span <= 0] = 1.0
        self._cell = np.arange(jobs) * self._lower.size
        self.prices = np.zeros(capacity.size)
        self.ties: list[DemandTie] = []

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
        per_point: Floats = self._of_type @ prices
        return per_point

    def _costs(self, prices: Floats) -> Floats:
        """Return what a GPU's time costs under each choice, shape (jobs, choices)."""
        costs: Floats = self._part * (self._to_upper @ prices)
        costs += self._at_lower @ prices
        return costs

    def _choose(self) -> None:
        """Let each job take what is worth most, minus infinity is what is none."""
        self._take((self._gain - self._costs(self.prices)).argmax(axis=1))
        self._alike = ALIKE * max(*self.prices.tolist(), self._most_value)

    def _take(self, base: Ints) -> None:
        """Let each job take a choice: see at which speed that begins, and how wide it is."""
        cells = self._cell + base
        self._base, self._from, self._wide = base, self._below.take(cells), self._span.take(cells)

    def _line(self, prices: Floats) -> tuple[Floats, Floats]:
        """Return what throughput costs along the edges that are taken, and what it begins with.

        A point by itself is an edge along which nothing changes.
        """
        steep = (self._to_upper @ prices).take(self._base) / self._wide
        return steep, (self._at_lower @ prices).take(self._base) - steep * self._from

    def _beyond(self, prices: Floats, steep: Floats, begin: Floats) -> Floats:
        """Return how much dearer than a line each point is, shape (jobs, options + 1).

        Those who need all of their time where they are fastest have no other points.
        """
        each, hard = self._per_point(prices), self._hard
        beyond = each - steep[:, None] * self._row
        beyond -= begin[:, None]
        if hard.size:
            as_fast, own = self._row[hard] >= 1.0 - NEAR, self._upper[self._base[hard], None]
            beyond[hard] = np.where(as_fast, each - each[own], np.inf)
        return beyond

    def _compare(self, steep: Floats, begin: Floats) -> None:
        """See how much dearer all points are than the lines of what jobs take at the prices."""
        self._hard = (self._wanted >= 1.0 - ALIKE).nonzero()[0]
        self._steep = steep
        if self._valued:
            worth = np.where(self._base < self._edges, 0.0, self._value)
            self._steep, begin = steep + worth, begin - worth * self._from
        self._dear = self._beyond(self.prices, self._steep, begin)

    def _sides(self) -> None:
        """Bring the jobs of ties to the first sides, from which they may go to the others."""
        self._tied, base = [Tied(tie, [], 0.0) for tie in self.ties], self._base
        tight = self._dear <= self._alike
        many = np.add.reduce(tight, axis=1, dtype=np.intp)
        if self._valued:
            many += self._steep <= self._value + self._alike
        some = (many > 2).nonzero()[0]
        if not (some.size and self._tied):
            return
        rows, others = np.array([tie.row for tie in self.ties]), [tie.others for tie in self.ties]
        same = np.abs(self._row[some] - rows[:, None]) <= ALIKE
        same &= tight[some] | np.array(others)[:, None]
        numbers = some, self._wanted[some], self._gpus[some]
        each = [*zip(*(one.tolist() for one in numbers), strict=True)]
        for at, mine in enumerate(np.logical_and.reduce(same, axis=2).tolist()):
            tie = self.ties[at]
            a, b, *third = tie.speeds
            if third:
                (c,) = third
                members = [
                    (job, made, min((made - a) / (b - a), (c - made) / (c - b)), gpus)
                    for job, made, gpus in compress(each, mine)
                    if a < made <= c
                ]
            else:
                members = [
                    (job, made, min(1.0, (b - made) / (b - a)), gpus)
                    for job, made, gpus in compress(each, mine)
                    if made <= b and self._gains_alike(job, tie.value)
                ]
            first, last = tie.points[0], tie.points[-1]
            for job, made, *_ in members:
                base[job] = self._place[first][last if made > a else first]
            self._tied[at] = Tied(tie, members, sum([most * gpus for *_, most, gpus in members]))
        self._take(base)

    def _gains_alike(self, job: int, value: float) -> bool:
        """Whether a job has this value, and makes no more only if throughput costs as much."""
        alike = abs(self._value[job] - value) <= ALIKE * value
        return bool(alike and self._steep[job] <= value + self._alike)

    def _up(self) -> Floats:
        """Return how much of its time each job is at the upper point of what it takes, (jobs,)."""
        up: Floats = (self._wanted - self._from) / self._wide
        return np.where(self._base < self._edges, up, 1.0) if self._valued else up

    def _taken(self, gpus: Floats) -> Floats:
        """Return what jobs take of each type, where they hold so many GPUs."""
        at_lower, to_upper = (
            each.take(self._base, axis=0) for each in (self._at_lower, self._to_upper)
        )
        taken: Floats = gpus @ at_lower + (gpus * self._up()) @ to_upper
        return taken

    def _growing(self, slope: Floats) -> Floats:
        """Return how fast what is taken of each type grows, where demands grow so fast."""
        each = self._gpus * slope / self._top / self._wide
        growing: Floats = each @ self._to_upper.take(self._base, axis=0)
        return growing

    def _cross(self, tied: Tied) -> None:
        """Bring the jobs of a tie to its other side."""
        (first, second, *third), at, base = tied.tie.points, self._place, self._base
        for job, made, *_ in tied.members:
            if third:
                slow = made <= tied.tie.speeds[1]
                base[job] = at[first][second] if slow else at[second][third[0]]
            else:
                base[job] = at[second][second]
        self._take(base)

    def _tie_at(self, job: int, *more: int) -> DemandTie | None:
        """Return the tie of what a job takes and another point, if not the edge by itself is one.

        ``None`` if points are as fast as each other.
        """
        row, base = self._row[job], self._base[job]
        points = {int(self._lower[base]), int(self._upper[base]), *more}
        speeds = row.tolist()
        ordered = tuple(sorted(points, key=speeds.__getitem__))
        if not all_apart(speeds, ordered):
            return None
        return DemandTie(row, float(self._value[job]), ordered)
