"""The best shifts of the jobs on a link, and what then exceeds its capacity, exactly.

Demands are steps, so that what exceeds a capacity is integrated between their edges, without a
grid. As a function of the shift of one job it is linear between the shifts at which edges meet: the
optimum is at such a meeting. Jobs whose periods have no common multiple meet in all ways equally
often: to each other they are a distribution of loads.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.mechanism.time_shifts.circle import EQUAL, commensurate_groups, unified_circle
from apportion.mechanism.time_shifts.profile import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apportion.mechanism.time_shifts.circle import UnifiedCircle
    from apportion.mechanism.time_shifts.profile import CommunicationProfile
    from apportion.types import Floats

MOST_WAYS = {2: 1, 3: 20_000, 4: 600}
"""Ways in which edges can meet that are tried, about 0.1 ms each, by the number of jobs."""

KICKS = 30
"""Times that two jobs are turned at random where there are too many ways to try."""

MOST_LEVELS = 2000
"""Loads that a distribution tells apart; more are split between neighbours on a grid."""


class Load(NamedTuple):
    """Load of jobs that meet others in all ways, as a distribution.

    Attributes
    ----------
    gbps
        Gb/s, ascending.
    share
        How often each is wanted; the sum is 1.
    """

    gbps: Floats
    share: Floats

    def plus(self, other: Load) -> Load:
        """Return the distribution of the sum with an independent load.

        Where it has many levels, each is split between two of a grid, which keeps the mean.
        """
        sums = np.add.outer(self.gbps, other.gbps).round(9)
        share = np.multiply.outer(self.share, other.share)
        gbps, place = np.unique(sums, return_inverse=True)
        found = np.bincount(place.ravel(), share.ravel())
        if gbps.size <= MOST_LEVELS:
            return Load(gbps, found.astype(float))
        grid = np.linspace(gbps[0], gbps[-1], MOST_LEVELS)
        above = np.clip(np.searchsorted(grid, gbps, side="right"), 1, grid.size - 1)
        part = (gbps - grid[above - 1]) / (grid[above] - grid[above - 1])
        split = np.bincount(above, found * part, grid.size)
        split += np.bincount(above - 1, found * (1 - part), grid.size)
        return Load(grid, split.astype(float))

    def over(self, gbps: Floats) -> Floats:
        """Return the mean of this load above some Gb/s: of ``max(0, load - gbps)``."""
        rest = np.append(self.share[::-1].cumsum()[::-1], 0.0)
        mean = np.append((self.share * self.gbps)[::-1].cumsum()[::-1], 0.0)
        first = np.searchsorted(self.gbps, gbps, side="right")
        return np.maximum(0.0, mean[first] - rest[first] * gbps)


NO_LOAD = Load(np.zeros(1), np.ones(1))


class Turning:
    """Jobs that turn on one circle, on a link, beside the load of others.

    Parameters
    ----------
    profiles
        Of the jobs; their periods are rounded to divisors of the perimeter.
    circle
        Of their periods.
    capacity_gbps
        Of the link, > 0.

    Attributes
    ----------
    beside
        Load that does not depend on the shifts of these jobs.
    """

    def __init__(
        self,
        profiles: Sequence[CommunicationProfile],
        circle: UnifiedCircle,
        capacity_gbps: float,
    ) -> None:
        self.circle, self._gbps, self.beside = circle, capacity_gbps, NO_LOAD
        self._units, self._jobs = circle.units, range(len(profiles))
        self._periods_s = [units * circle.unit_s for units in self._units]
        demands = [_demand(*each) for each in zip(profiles, self._periods_s, strict=True)]
        self._edges_s = [edges_s for edges_s, _ in demands]
        self._after_gbps = [after for _, after in demands]
        self._mean_gbps = np.array([profile.mean_gbps for profile in profiles])
        turns = [np.arange(each)[:, None] for each in circle.repetitions]
        every = [
            (turn * period_s + edges_s).ravel()
            for turn, period_s, edges_s in zip(turns, self._periods_s, self._edges_s, strict=True)
        ]
        jumps = [
            np.tile(after - np.roll(after, 1), turn.size)
            for turn, after in zip(turns, self._after_gbps, strict=True)
        ]
        self._every, self._jumps = np.concatenate(every), np.concatenate(jumps)
        self._owner = np.repeat(self._jobs, [edges_s.size for edges_s in every])

    def load(self, shifts_s: Floats, without: int = -1) -> tuple[Floats, Floats]:
        """Return the times, from 0 on, at which the load changes, and the Gb/s from each on.

        Parameters
        ----------
        shifts_s
            Of every job, shape (jobs,).
        without
            A job to leave out.
        """
        there, perimeter_s = self._owner != without, self.circle.perimeter_s
        times = wrapped(self._every[there] + shifts_s[self._owner[there]], perimeter_s)
        order = times.argsort(kind="stable")
        times = np.append(0.0, times[order])
        level = np.append(0.0, self._jumps[there][order].cumsum())  # up to a constant
        mean = sum(self._mean_gbps[job] for job in self._jobs if job != without)
        return times, level + (mean - level @ np.diff(times, append=perimeter_s) / perimeter_s)

    def excess(self, shifts_s: Floats) -> float:
        """Return what exceeds the capacity on average, over the capacity: 1 - score."""
        times, load = self.load(shifts_s)
        widths = np.diff(times, append=self.circle.perimeter_s)
        return float(self._over(load) @ widths) / (self.circle.perimeter_s * self._gbps)

    def _over(self, load_gbps: Floats) -> Floats:
        """Return what exceeds the capacity at some loads, on average over the load beside."""
        return self.beside.over(self._gbps - load_gbps)

    def _meetings(self, job: int, placed: Sequence[int], shifts_s: Floats) -> Floats:
        """Return the shifts of a job at which an edge of it meets one of those that are placed.

        Shifts matter modulo the greatest common divisor of its period and of the time after which
        the others repeat.
        """
        around = math.lcm(*(self._units[other] for other in placed))
        modulus = math.gcd(self._units[job], around)
        found = []
        for other in placed:
            turns = np.arange(modulus // math.gcd(self._units[other], modulus))
            starts_s = turns * self._periods_s[other] + shifts_s[other]
            edges_s = np.add.outer(starts_s, self._edges_s[other])
            found.append(np.subtract.outer(edges_s.ravel(), self._edges_s[job]).ravel())
        meetings = np.unique(wrapped(np.concatenate(found), modulus * self.circle.unit_s))
        apart = np.diff(meetings) > EQUAL * self._periods_s[job]
        distinct: Floats = meetings[np.append(True, apart)]
        return distinct

    def best_turn(self, job: int, shifts_s: Floats) -> tuple[float, float]:
        """Return the best shift of a job beside all others, and the excess that it leaves.

        Of equal ones the smallest is taken.
        """
        tried = self._meetings(job, [each for each in self._jobs if each != job], shifts_s)
        times, load = self.load(shifts_s, without=job)
        period_s, edges_s = self._periods_s[job], self._edges_s[job]
        ends_s = np.append(edges_s[1:], edges_s[0] + period_s)
        total = np.zeros(tried.size)
        for level in np.unique(self._after_gbps[job]):
            places, integral = self._folded(times, self._over(load + level), period_s)
            there = self._after_gbps[job] == level
            for sign, edges in ((1.0, ends_s[there]), (-1.0, edges_s[there])):
                turns, rest = np.divmod(np.add.outer(tried, edges), period_s)
                reached = np.interp(rest, places, integral) + turns * integral[-1]
                total += sign * reached.sum(axis=1)
        excess = np.maximum(0.0, total) / (self.circle.perimeter_s * self._gbps)
        best = int((excess <= excess.min() + EQUAL).argmax())
        return float(tried[best]), float(excess[best])

    def _folded(self, times: Floats, over: Floats, period_s: float) -> tuple[Floats, Floats]:
        """Fold a step function over the circle onto one period, and integrate it from 0."""
        whole = over @ np.diff(times, append=self.circle.perimeter_s)
        at = np.mod(times, period_s)
        order = at.argsort(kind="stable")
        places = np.append(at[order], period_s)
        widths = np.diff(places)
        level = (over - np.roll(over, 1))[order].cumsum()
        level += (whole - level @ widths) / period_s
        return places, np.append(0.0, (level * widths).cumsum())

    def best_shifts(self, least: float, seed: int) -> tuple[Floats, bool]:
        """Return shifts, that of the first job 0, and whether none are better.

        An optimum is a corner: enough edges meet that the jobs hang together as a tree, of which
        one leaf is placed last, where it is best. Where there are many corners, jobs are turned one
        after the other from many starts.

        Parameters
        ----------
        least
            No excess is smaller; where it is reached the search ends.
        seed
            Of the random numbers of the search.
        """
        moving = [job for job in self._jobs if self._edges_s[job].size > 1]
        best = np.zeros(len(self._jobs))
        reached, tried = self.excess(best), 0
        if len(moving) < 2:
            return best, True
        for *between, last in permutations(moving[1:]):
            for shifts_s in self._corners(between, moving[:1], np.zeros(best.size)):
                tried += 1
                if reached <= least + EQUAL:
                    return best, True
                if tried > MOST_WAYS.get(len(moving), 0):
                    return self._searched(moving, best, least, seed), False
                turn, excess = self.best_turn(last, shifts_s)
                if excess < reached - EQUAL:
                    best, reached = shifts_s.copy(), excess
                    best[last] = turn
        return best, True

    def _corners(
        self, jobs: Sequence[int], placed: Sequence[int], shifts_s: Floats
    ) -> Iterator[Floats]:
        """Go through the shifts at which each of some jobs meets an edge of one before it."""
        if not jobs:
            yield shifts_s
            return
        job, *rest = jobs
        for shift_s in self._meetings(job, placed, shifts_s):
            shifts_s[job] = shift_s
            yield from self._corners(rest, [*placed, job], shifts_s)

    def _searched(self, moving: Sequence[int], best: Floats, least: float, seed: int) -> Floats:
        """Return good shifts, never worse than some.

        Jobs are turned to their best shift one after the other; then two are turned at random, and
        all again, from the best that is known on.
        """
        rng, periods_s = np.random.default_rng(seed), np.array(self._periods_s)
        best, reached = self._descended(moving, best)
        for _ in range(KICKS):
            if reached <= least + EQUAL:
                break
            start = best.copy()
            turned = rng.choice(moving[1:], 2, replace=False)
            start[turned] = rng.uniform(0, periods_s[turned])
            found, excess = self._descended(moving, start)
            if excess < reached - EQUAL:
                best, reached = found, excess
        return best

    def _descended(self, moving: Sequence[int], start_s: Floats) -> tuple[Floats, float]:
        """Turn one job after the other to its best shift until none gains; the first stays."""
        shifts_s, reached, before = start_s.copy(), self.excess(start_s), math.inf
        while reached < before - EQUAL:
            before = reached
            for job in moving[1:]:
                turn, excess = self.best_turn(job, shifts_s)
                if excess < reached - EQUAL:
                    shifts_s[job], reached = turn, excess
        return shifts_s, reached


class JobsOnLink:
    """Jobs on one link, in groups of commensurate periods.

    Parameters
    ----------
    profiles
        Of the jobs, in an order that does not hang on how they were given.
    capacity_gbps
        Of the link.
    tolerance
        See `unified_circle`.
    """

    def __init__(
        self, profiles: Sequence[CommunicationProfile], capacity_gbps: float, tolerance: float
    ) -> None:
        self._count, periods_s = len(profiles), [each.period_s for each in profiles]
        self._parts: list[tuple[list[int], Turning]] = []
        for group in commensurate_groups(periods_s, tolerance=tolerance):
            circle = unified_circle([periods_s[job] for job in group], tolerance=tolerance)
            if circle is not None:  # groups have one
                members = [profiles[job] for job in group]
                self._parts.append((group, Turning(members, circle, capacity_gbps)))

    @property
    def circle(self) -> UnifiedCircle | None:
        """Unified circle of all jobs, if they have one."""
        return self._parts[0][1].circle if len(self._parts) == 1 else None

    def score(self, shifts_s: Floats) -> float:
        """Return the score with some shifts, shape (jobs,)."""
        group, turning = self._beside(0, shifts_s)
        return 1 - turning.excess(shifts_s[group])

    def best_shifts(self, bound: float, seed: int) -> tuple[Floats, bool]:
        """Return the best shifts that are found, and whether none are better.

        Parameters
        ----------
        bound
            No score is larger, by Jensen.
        seed
            Of the random numbers.
        """
        shifts_s = np.zeros(self._count)
        if len(self._parts) == 1:
            shifts_s, exact = self._parts[0][1].best_shifts(1 - bound, seed)
        else:
            exact = all(len(group) == 1 for group, _ in self._parts)
            for part in 2 * [*range(len(self._parts))]:  # what one sees of others changes with them
                group, turning = self._beside(part, shifts_s)
                shifts_s[group] = turning.best_shifts(0.0, seed)[0]
        return shifts_s, exact or self.score(shifts_s) >= bound - EQUAL

    def _beside(self, part: int, shifts_s: Floats) -> tuple[list[int], Turning]:
        """Return one group, beside the load of the others with some shifts."""
        group, turning = self._parts[part]
        turning.beside = NO_LOAD
        for other, (jobs, beside) in enumerate(self._parts):
            if other != part:
                times, load = beside.load(shifts_s[jobs])
                perimeter_s = beside.circle.perimeter_s
                share = np.diff(times, append=perimeter_s) / perimeter_s
                turning.beside = turning.beside.plus(NO_LOAD.plus(Load(load, share)))
        return group, turning


def wrapped(values: Floats, period: float | Floats) -> Floats:
    """Return values modulo a period, where what is a rounding below the period is 0."""
    rest = np.mod(values, period)
    return np.where(rest >= period * (1 - ROUNDING), 0.0, rest)


def _demand(profile: CommunicationProfile, period_s: float) -> tuple[Floats, Floats]:
    """Return where the demand of a job changes, ascending, and its Gb/s after each, shape (n,).

    Phases that touch share an edge. A job whose demand never changes has one edge, at 0.
    """
    scale = period_s / profile.period_s
    times = [phase.start_s for phase in profile.phases]
    times += [phase.start_s + phase.duration_s for phase in profile.phases]
    edges = np.unique(wrapped(scale * np.array([*times, 0.0]), period_s))
    edges = edges[np.append(True, np.diff(edges) > ROUNDING * period_s)]
    middles = (edges + np.append(edges[1:], edges[0] + period_s)) / 2
    after = profile.demand(middles / scale)
    changes = after != np.roll(after, 1)
    if not changes.any():
        return np.zeros(1), after[:1]
    return edges[changes], after[changes]
