"""Jobs that turn on the circle of one link, and what exceeds its capacity, exactly."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.mechanism.time_shifts.profile import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.time_shifts.circle import UnifiedCircle
    from apportion.mechanism.time_shifts.profile import CommunicationProfile
    from apportion.types import Floats


_MOST_NUMBERS = 1_000_000
"""Numbers held at a time: 8 MB an array."""


class Background(NamedTuple):
    """Load of jobs that do not turn with these, as a distribution: Gb/s, and how often."""

    gbps: Floats
    share: Floats


NO_BACKGROUND = Background(np.zeros(1), np.ones(1))


class TurningJob(NamedTuple):
    """A job whose demand is constant between its edges.

    Attributes
    ----------
    units
        Period in units of the circle.
    period_s
        The same in seconds.
    edges_s
        Where the demand changes, ascending, in [0, period), shape (n,); none if it never does.
    after_gbps
        Demand from each edge to the next, Gb/s, shape (n,), or (1,) if there is none.
    """

    units: int
    period_s: float
    edges_s: Floats
    after_gbps: Floats

    @property
    def jumps(self) -> Floats:
        """Change of the demand at each edge, Gb/s, shape (n,)."""
        return self.after_gbps - np.roll(self.after_gbps, 1) if self.edges_s.size else np.zeros(0)

    @property
    def ends_s(self) -> Floats:
        """Where the demand after each edge ends, shape (n,), up to twice the period."""
        if not self.edges_s.size:
            return np.zeros(0)
        return np.append(self.edges_s[1:], self.edges_s[0] + self.period_s)

    @property
    def mean_gbps(self) -> float:
        """Demand on average, Gb/s."""
        if not self.edges_s.size:
            return float(self.after_gbps[0])
        return float((self.ends_s - self.edges_s) @ self.after_gbps / self.period_s)


class TurningJobs:
    """Jobs on a unified circle, and a link of some capacity.

    Parameters
    ----------
    jobs
        On the link.
    circle
        Of their periods.
    capacity_gbps
        Of the link, > 0.
    background
        Load that does not depend on the shifts of these jobs.
    """

    def __init__(
        self,
        jobs: Sequence[TurningJob],
        circle: UnifiedCircle,
        capacity_gbps: float,
        background: Background = NO_BACKGROUND,
    ) -> None:
        self.jobs, self.circle = tuple(jobs), circle
        self.capacity_gbps, self.background = capacity_gbps, background

    @classmethod
    def of(
        cls,
        profiles: Sequence[CommunicationProfile],
        circle: UnifiedCircle,
        capacity_gbps: float,
    ) -> TurningJobs:
        """Return jobs with some profiles, their periods rounded to divisors of the perimeter."""
        jobs = [
            _turning(profile, units, units * circle.unit_s)
            for profile, units in zip(profiles, circle.units, strict=True)
        ]
        return cls(jobs, circle, capacity_gbps)

    def over(self, load_gbps: Floats) -> Floats:
        """Return what exceeds the capacity at some loads, on average over the background, Gb/s."""
        capacity, (gbps, share) = self.capacity_gbps, self.background
        if gbps.size == 1:
            over: Floats = np.maximum(0.0, load_gbps + (gbps[0] - capacity))
            return over
        mean: Floats = np.maximum(0.0, load_gbps[..., None] + (gbps - capacity)) @ share
        return mean

    def excess(self, shifts_s: Floats) -> Floats:
        """Return the excess over the circle divided by perimeter and capacity: 1 - score.

        The load is constant between edges, where it is integrated without a grid.

        Parameters
        ----------
        shifts_s
            Shape (ways, jobs).
        """
        edges, jumps, owner = self._edges
        if not edges.size:
            load = np.array([sum(job.mean_gbps for job in self.jobs)])
            return np.full(len(shifts_s), self.over(load)[0] / self.capacity_gbps)
        rows = max(1, _MOST_NUMBERS // (edges.size * self.background.gbps.size))
        parts = [
            self._excess(edges, jumps, owner, shifts_s[begin : begin + rows])
            for begin in range(0, len(shifts_s), rows)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def load(self, shifts_s: Floats, without: int | None = None) -> tuple[Floats, Floats]:
        """Return the load over the circle: times where it may change, and Gb/s from there on.

        The first time is 0, so that every time of the circle lies after one of them.

        Parameters
        ----------
        shifts_s
            Shape (jobs,).
        without
            A job to leave out.
        """
        perimeter = self.circle.perimeter_s
        edges, jumps, owner = self._edges
        chosen = owner != without
        mean = sum(job.mean_gbps for place, job in enumerate(self.jobs) if place != without)
        times = wrapped(edges[chosen] + shifts_s[owner[chosen]], perimeter)
        order = times.argsort(kind="stable")
        times, level = times[order], jumps[chosen][order].cumsum()
        times, level = np.append(0.0, times), np.append(0.0, level)
        widths = np.diff(times, append=perimeter)
        return times, level + (mean - widths @ level / perimeter)

    @cached_property
    def _edges(self) -> tuple[Floats, Floats, NDArray[np.intp]]:
        """Edges of all jobs over the circle, their jumps, and the job of each."""
        edges, jumps, owner = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, dtype=np.intp)]
        for place, job in enumerate(self.jobs):
            turns = self.circle.repetitions[place]
            starts = job.period_s * np.arange(turns)
            edges.append((starts[:, None] + job.edges_s).ravel())
            jumps.append(np.tile(job.jumps, turns))
            owner.append(np.full(turns * job.edges_s.size, place))
        return np.concatenate(edges), np.concatenate(jumps), np.concatenate(owner)

    def _excess(
        self, edges: Floats, jumps: Floats, owner: NDArray[np.intp], shifts_s: Floats
    ) -> Floats:
        perimeter = self.circle.perimeter_s
        times = np.mod(edges + shifts_s[:, owner], perimeter)
        order = times.argsort(axis=1, kind="stable")
        times = np.take_along_axis(times, order, axis=1)
        level = jumps[order].cumsum(axis=1)  # up to a constant, which the mean demand fixes
        widths = np.empty_like(times)
        widths[:, :-1] = np.diff(times, axis=1)
        widths[:, -1] = times[:, 0] + perimeter - times[:, -1]
        mean = sum(job.mean_gbps for job in self.jobs)
        level += mean - (level * widths).sum(axis=1, keepdims=True) / perimeter
        total: Floats = (self.over(level) * widths).sum(axis=1)
        return total / (perimeter * self.capacity_gbps)


def wrapped(values: Floats, period: float | Floats) -> Floats:
    """Return values modulo a period, where what is a rounding below the period is 0."""
    rest = np.mod(values, period)
    return np.where(rest >= period * (1 - ROUNDING), 0.0, rest)


def _turning(profile: CommunicationProfile, units: int, period_s: float) -> TurningJob:
    """Turn phases into edges; phases that touch share one, and edges without a jump go."""
    scale = period_s / profile.period_s
    times = [phase.start_s for phase in profile.phases]
    times += [phase.start_s + phase.duration_s for phase in profile.phases]
    edges = np.unique(wrapped(scale * np.array(times), period_s))
    if edges.size:
        edges = edges[np.append(True, np.diff(edges) > ROUNDING * period_s)]
    middles = (edges + np.append(edges[1:], edges[:1] + period_s)) / 2
    after = profile.demand(middles / scale)
    changes = after != np.roll(after, 1)
    if not changes.any():
        level = profile.demand([0.0]) if not after.size else after[:1]
        return TurningJob(units, period_s, np.zeros(0), level)
    return TurningJob(units, period_s, edges[changes], after[changes])
