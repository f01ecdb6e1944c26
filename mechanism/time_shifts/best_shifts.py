"""The best shifts of the jobs on a link, and whether none are better.

Few jobs are enumerated by the ways in which edges can meet; many are turned one after the other,
from several starts. Jobs whose periods are not commensurate are groups that turn, each by itself.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.time_shifts.circle import (
    EQUAL,
    best_rotation,
    commensurate_groups,
    descended,
    unified_circle,
)
from apportion.mechanism.time_shifts.profile import ROUNDING
from apportion.mechanism.time_shifts.turning import NO_BACKGROUND, Background, TurningJobs, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apportion.mechanism.time_shifts.circle import UnifiedCircle
    from apportion.mechanism.time_shifts.profile import CommunicationProfile
    from apportion.types import Floats


_MOST_WAYS = {1: 1, 2: 1, 3: 20_000, 4: 600, 5: 200}
"""Steps of an enumeration that are worth it, about 0.1 ms each, by the number of jobs."""

_KICKS = 30
"""Times that two jobs are turned at random where there are too many ways to enumerate."""

_PASSES = 2


def best_shifts(mixture: Mixture, bound: float, *, seed: int) -> tuple[Floats, bool]:
    """Return shifts, and whether none are better.

    Parameters
    ----------
    mixture
        The jobs, in an order that does not hang on how they were given.
    bound
        Jensen's.
    seed
        Of the random numbers.
    """
    shifts = np.zeros(mixture.count)
    if len(mixture.groups) > 1:
        for _ in range(_PASSES):
            for number, group in enumerate(mixture.groups):
                shifts[group] = _of_group(mixture.turning(number, shifts), 0.0, seed)[0]
        meets = mixture.score(shifts) >= bound - EQUAL
        return shifts, meets or all(len(group) == 1 for group in mixture.groups)
    shifts, excess, exact = _of_group(mixture.turning(0, shifts), 1 - bound, seed)
    return shifts, exact or 1 - excess >= bound - EQUAL


def _of_group(turning: TurningJobs, least: float, seed: int) -> tuple[Floats, float, bool]:
    """Shifts of jobs on a circle, their excess, and whether it is proved to be the least."""
    worth = _MOST_WAYS.get(len(turning.jobs), 0)
    if worth and ways(turning) <= worth:  # there are as many orders as permutations
        return (*enumerated(turning, least), True)
    return (*_searched(turning, least, seed), False)


def _searched(turning: TurningJobs, least: float, seed: int) -> tuple[Floats, float]:
    """Return good shifts, and their excess, never worse than without shifts.

    Jobs are turned to their best shift one after the other; then two are turned at random, and all
    again, from the best that is known on.
    """
    rng, periods_s = np.random.default_rng(seed), [job.period_s for job in turning.jobs]
    best, reached = descended(turning, np.zeros(len(periods_s)))
    for _ in range(_KICKS):
        if reached <= least + EQUAL:
            break
        start = best.copy()
        for job in rng.choice(np.arange(1, best.size), 2, replace=False):
            start[job] = rng.uniform(0, periods_s[job])
        found, excess = descended(turning, start)
        if excess < reached - EQUAL:
            best, reached = found, excess
    return best, reached


def enumerated(turning: TurningJobs, least: float) -> tuple[Floats, float]:
    """Return optimal shifts, and their excess.

    Between shifts at which edges of two jobs meet, the excess is linear in all shifts together. An
    optimum is thus a corner: enough pairs of edges meet that the jobs hang together, as the nodes
    of a tree. One of its leaves is not the first job; it is placed last, where it is best
    (`best_rotation`), after the others in every order in which each meets one before it. Two
    jobs need one step, three some hundred.

    Parameters
    ----------
    turning
        The jobs.
    least
        No excess is smaller; where it is reached the search ends.

    Returns
    -------
    tuple
        Shifts, shape (jobs,), that of the first job 0, and the excess.
    """
    moving, best = _moving(turning), np.zeros(len(turning.jobs))
    reached = float(turning.excess(best[None])[0])
    if reached <= least + EQUAL:
        return best, reached
    for *others, last in _orders(moving):
        for shifts in _corners(turning, moving[:1], others, np.zeros(best.size)):
            rotation, excess = best_rotation(turning, shifts, last)
            if excess < reached - EQUAL:
                best, reached = shifts.copy(), excess
                best[last] = rotation
                if reached <= least + EQUAL:
                    return best, reached
    return best, reached


def ways(turning: TurningJobs) -> int:
    """Return how many steps `enumerated` takes at most."""
    moving = _moving(turning)
    total = 0
    for *others, _ in _orders(moving):
        placed, count = moving[:1], 1
        for place in others:
            count *= _corner_count(turning, placed, place)
            placed = [*placed, place]
        total += count
    return total


def _moving(turning: TurningJobs) -> list[int]:
    """Jobs whose shift matters: those with edges."""
    return [place for place, job in enumerate(turning.jobs) if job.edges_s.size]


def _orders(moving: Sequence[int]) -> Iterator[Sequence[int]]:
    """Orders of all jobs but the first; none if that is the only one."""
    return permutations(moving[1:]) if len(moving) > 1 else iter(())


def _corners(
    turning: TurningJobs, placed: Sequence[int], others: Sequence[int], shifts_s: Floats
) -> Iterator[Floats]:
    """Go through all shifts of some jobs at which each meets an edge of one before it."""
    if not others:
        yield shifts_s
        return
    place = others[0]
    for shift in _meetings(turning, placed, place, shifts_s):
        shifts_s[place] = shift
        yield from _corners(turning, [*placed, place], others[1:], shifts_s)


def _meetings(turning: TurningJobs, placed: Sequence[int], place: int, shifts_s: Floats) -> Floats:
    """Shifts of a job at which an edge of it meets one of those that are placed."""
    job, unit_s = turning.jobs[place], turning.circle.unit_s
    modulus = _modulus(turning, placed, place)
    found = []
    for at in placed:
        other = turning.jobs[at]
        turns = np.arange(modulus // math.gcd(other.units, modulus)) * other.period_s
        edges = shifts_s[at] + (turns[:, None] + other.edges_s).ravel()
        found.append((edges[:, None] - job.edges_s).ravel())
    meetings: Floats = np.unique(wrapped(np.concatenate(found), modulus * unit_s))
    distinct: Floats = meetings[np.append(True, np.diff(meetings) > EQUAL * job.period_s)]
    return distinct


def _modulus(turning: TurningJobs, placed: Sequence[int], place: int) -> int:
    """Units after which it does not matter any more how far a job turns."""
    together = math.lcm(*(turning.jobs[at].units for at in placed))
    return math.gcd(turning.jobs[place].units, together)


def _corner_count(turning: TurningJobs, placed: Sequence[int], place: int) -> int:
    """Most shifts that `_meetings` returns."""
    modulus = _modulus(turning, placed, place)
    own = turning.jobs[place].edges_s.size
    return sum(
        modulus // math.gcd(turning.jobs[at].units, modulus) * turning.jobs[at].edges_s.size * own
        for at in placed
    )


_MOST_LEVELS = 2000
"""Loads that a distribution tells apart; more are split between neighbours on a grid."""


class Mixture:
    """Jobs on one link, in groups of commensurate periods.

    Groups meet in every way equally often: what one sees of the others is a distribution.

    Parameters
    ----------
    profiles
        Of the jobs.
    capacity_gbps
        Of the link.
    tolerance
        See `unified_circle`.

    Attributes
    ----------
    groups
        Positions of the jobs of each group.
    circle
        Of all jobs; None if there are several groups.
    """

    def __init__(
        self, profiles: Sequence[CommunicationProfile], capacity_gbps: float, tolerance: float
    ) -> None:
        self.capacity_gbps, self.count = capacity_gbps, len(profiles)
        periods = [profile.period_s for profile in profiles]
        self.groups = commensurate_groups(periods, tolerance=tolerance)
        self._turning = []
        for group in self.groups:
            circle = unified_circle([periods[job] for job in group], tolerance=tolerance)
            if circle is None:  # no group is made of such
                continue
            members = [profiles[job] for job in group]
            self._turning.append(TurningJobs.of(members, circle, capacity_gbps))

    @property
    def circle(self) -> UnifiedCircle | None:
        """Unified circle of all jobs, if they have one."""
        return self._turning[0].circle if len(self._turning) == 1 else None

    def score(self, shifts_s: Floats) -> float:
        """Return the score with some shifts, shape (jobs,)."""
        return 1.0 - float(self.turning(0, shifts_s).excess(shifts_s[None, self.groups[0]])[0])

    def turning(self, number: int, shifts_s: Floats) -> TurningJobs:
        """Return the jobs of one group, before the background of the others with their shifts."""
        background = NO_BACKGROUND
        for other, group in enumerate(self.groups):
            if other != number:
                times, load = self._turning[other].load(shifts_s[group])
                circle = self._turning[other].circle
                share = np.diff(times, append=circle.perimeter_s) / circle.perimeter_s
                background = _sum(background, Background(load, share), self.capacity_gbps)
        alone = self._turning[number]
        return TurningJobs(alone.jobs, alone.circle, self.capacity_gbps, background)


def _sum(first: Background, second: Background, capacity_gbps: float) -> Background:
    """Distribution of the sum of two independent loads."""
    second = _gathered(second, capacity_gbps)
    gbps = (first.gbps[:, None] + second.gbps).ravel()
    share = (first.share[:, None] * second.share).ravel()
    return _gathered(Background(gbps, share), capacity_gbps)


def _gathered(load: Background, capacity_gbps: float) -> Background:
    """Put equal loads together; where many are left, split each between two of a grid.

    Splitting keeps the mean, and the mean excess grows by no more than a quarter of a step.
    """
    order = load.gbps.argsort(kind="stable")
    gbps, share = load.gbps[order], load.share[order]
    starts = np.append(True, np.diff(gbps) > ROUNDING * capacity_gbps)
    share = np.add.reduceat(share, np.flatnonzero(starts)).astype(float)
    gbps = gbps[starts]
    gbps, share = gbps[share > 0], share[share > 0]
    if gbps.size <= _MOST_LEVELS:
        return Background(gbps, share)
    grid = np.linspace(gbps[0], gbps[-1], _MOST_LEVELS)
    above = np.clip(np.searchsorted(grid, gbps, side="right"), 1, grid.size - 1)
    part = (gbps - grid[above - 1]) / (grid[above] - grid[above - 1])
    split = np.bincount(above, share * part, grid.size)
    split += np.bincount(above - 1, share * (1 - part), grid.size)
    return Background(grid, split.astype(float))
