"""Jobs on one link whose periods need not be commensurate: groups that turn, each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.time_shifts.circle import commensurate_groups, unified_circle
from apportion.mechanism.time_shifts.profile import ROUNDING
from apportion.mechanism.time_shifts.turning import NO_BACKGROUND, Background, TurningJobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.time_shifts.circle import UnifiedCircle
    from apportion.mechanism.time_shifts.profile import CommunicationProfile
    from apportion.types import Floats


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
