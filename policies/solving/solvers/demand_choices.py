"""What jobs that must make so much choose at prices of types, and between what they are tied.

The cheapest way for a job to make a demand is a mix of two options, one of them slower than what it
demands and one faster, or of an option and rest: an edge of the lower convex hull of its points
(speed, price) and (0, 0). Where more throughput has a value, jobs go further along their hull, as
long as an edge costs less than it gains. Jobs whose speeds are in proportion are tied at the same
prices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solving.solvers.demand_ties import (
    ALIKE,
    Choices,
    DemandTie,
    Tied,
    TypesOf,
    all_apart,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.types import Bools, Floats, Ints


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

    _tied: Tied

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
        types = TypesOf.of((*kind.tolist(),), capacity.size, self._valued)
        self._kind, self._unit, self._of_type, self._ends = types
        self._value = np.zeros(jobs) if value is None else value
        self._most_value = float(self._value.max(initial=0.0))
        all_choices = Choices.of(options + 1, self._valued)
        self._lower, self._upper, self._place, self._meet = all_choices
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
        each = np.zeros(prices.size + 1)
        each[:-1] = prices
        return each.take(self._kind)

    def _costs(self, prices: Floats) -> Floats:
        """Return what a GPU's time costs under each choice, shape (jobs, choices)."""
        each = self._per_point(prices)
        low = each.take(self._lower)
        costs: Floats = self._part * (each.take(self._upper) - low)
        costs += low
        return costs

    def _of_base(self, cells: Floats) -> Floats:
        """Return the numbers of what is chosen, shape (jobs,)."""
        chosen: Floats = cells.take(self._cell + self._base)
        return chosen

    def _choose(self) -> None:
        """Let each job take what is worth most, minus infinity is what is none."""
        self._worths = self._gain - self._costs(self.prices)
        self._alike = ALIKE * max(*self.prices.tolist(), self._most_value)
        self._base = self._worths.argmax(axis=1)

    def _sides(self, ties: Sequence[DemandTie]) -> Tied:
        """Bring the jobs of ties to the first sides, from which they may go to the others."""
        points = self._kind.size
        if not ties:
            return Tied.none(points, self._capacity.size)
        table = np.array([tie.numbers for tie in ties])
        row, toward, more = table[:, :points], table[:, points : 2 * points], table[:, 2 * points :]
        edge, other, alone = more[:, -3:].T.astype(np.intp)
        mine: Bools = np.logical_and.reduce(np.abs(self._row - row[:, None]) <= ALIKE, axis=2)
        if self._valued:  # jobs at an edge that costs what it gains have one value
            value, two = more[:, 0, None], more[:, 1, None]
            mine &= two * np.abs(self._value - value) <= ALIKE * value
        tie, job = mine.nonzero()
        cells, worths = self._cell[job], self._worths
        behind = worths.take(cells + self._base[job]) - worths.take(cells + other[tie])
        near = behind <= self._alike
        if not near.all():
            tie, job = tie[near], job[near]
        wanted = self._wanted[job]
        a, span, at, sign, c, rest, start = more[tie, 2:-3].T
        self._base[job] = np.where(wanted > start, edge[tie], alone[tie])
        most = np.minimum(at + sign * ((wanted - a) / span), (c - wanted) / rest)
        most = np.minimum(np.maximum(most, 0.0), 1.0)
        total = np.bincount(tie, self._gpus[job] * most, len(ties))
        columns = total[:, None] * (toward @ self._of_type)
        return Tied(tie, job, most, toward, more[:, 1] > 0, columns)

    def _by_type(self, base: Ints, at_lower: Floats, at_upper: Floats) -> Floats:
        """Sum amounts at both points of what is chosen by type; rest has none."""
        kind, amounts = self._ends.take(base, axis=1), np.concatenate([at_lower, at_upper])
        summed = np.bincount(kind.ravel(), amounts, self._capacity.size + 1)[:-1]
        return summed.astype(float, copy=False)

    def _taken(self, some: Ints | slice = slice(None)) -> Floats:
        """Return what some jobs, or all, take of each type."""
        gpus = self._gpus[some]
        upper = gpus * self._of_base(self._part)[some]
        return self._by_type(self._base[some], gpus - upper, upper)

    def _growing(self, slope: Floats) -> Floats:
        """Return how fast what is taken of each type grows, where demands grow so fast."""
        each = self._gpus * slope / self._top / self._of_base(self._span)
        return self._by_type(self._base, -each, each)

    def _cross(self, place: int) -> None:
        """Bring the jobs of a tie to its other side."""
        tie, jobs = self.ties[place], self._tied.job[self._tied.tie == place]
        (first, second, *third), at = tie.points, self._place
        if third:
            slow = self._wanted[jobs] <= tie.row[second]
            self._base[jobs] = np.where(slow, at[first][second], at[second][third[0]])
        else:
            self._base[jobs] = at[second][second]

    def _tie_at(self, cell: int) -> DemandTie | None:
        """Return the tie of a choice of a job and its base, ``None`` if they are more than one."""
        job, choice = divmod(cell, self._lower.size)
        row, base = self._row[job], int(self._base[job])
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
        each, base = self._per_point(self.prices), self._base
        dearer = each.take(self._upper) - each.take(self._lower)
        edge = dearer.take(base) / self._of_base(self._span)
        return np.where(base < self._edges, edge, self._value) if self._valued else edge
