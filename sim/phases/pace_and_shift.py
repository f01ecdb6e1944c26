"""When jobs on links start, and to which periods they are paced, as the engine measures it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import mapping, number
from apportion.errors import InputError, written
from apportion.mechanism.time_shifts import AffinityGraph, CommunicationProfile
from apportion.mechanism.time_shifts.circle import PACE
from apportion.sim.network.contention import PhaseNetwork
from apportion.sim.phases.steady import SteadyIterations
from apportion.sim.shifts.joint import check_links
from apportion.sim.shifts.meeting import connected, crowded, meeting_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class PacedShifts:
    """When jobs start and how long their iterations then take.

    Attributes
    ----------
    shifts_s
        Seconds by which each job starts later, by job; ``None`` for one that starts at random,
        because no shifts gain on that.
    periods_s
        Period to which each job is paced, by job; ``None`` for one that goes on at once.
    slowdown, unshifted
        Iterations over those alone as the engine measures them, by job: so, and with random starts.
    """

    shifts_s: Mapping[Any, float | None]
    periods_s: Mapping[Any, float | None]
    slowdown: Mapping[Any, float]
    unshifted: Mapping[Any, float]

    @property
    def gain(self) -> float:
        """Mean iteration of random starts over that with the shifts, 1 or more."""
        means = [float(np.mean([*each.values()])) for each in (self.unshifted, self.slowdown)]
        return means[0] / means[1] if self.slowdown else 1.0


def pace_and_shift(
    profiles: Mapping[Any, CommunicationProfile],
    jobs_of: Mapping[Any, Iterable[Any]],
    capacities: Mapping[Any, float],
    *,
    pace: float = PACE,
    jitter: float = 0.0,
    starts: int = 8,
) -> PacedShifts:
    """Choose periods and starts together, measured with the jitter that there is.

    Jobs may wait at the ends of their iterations, which stretches these by at most the part `pace`,
    so that they have a common circle and some time to spare. Common circles, slack and shifts are
    tried in the engine of phases, beside shifts without pacing; what is best is taken if it gains
    half a per cent on random starts, and else jobs are spread over their periods at random: they
    never start together.

    Parameters
    ----------
    profiles
        Of each job, by job.
    jobs_of
        Jobs on each link, by link.
    capacities
        Gb/s of each link.
    pace
        Largest part by which an iteration is stretched; 0 paces nobody.
    jitter
        Every computation takes 1 - jitter to 1 + jitter of its time, evenly.
    starts
        Random starts over which a mean is taken.

    Raises
    ------
    InputError
        If a profile or a capacity is missing, or a number is out of range.
    """
    for job, profile in mapping("profiles", profiles).items():
        if not isinstance(profile, CommunicationProfile):
            raise InputError(f"The profile of job {written(job)} is no CommunicationProfile.")
    graph = AffinityGraph(jobs_of)
    check_links(graph, profiles, capacities)
    number("pace", pace, most=0.5)
    steady = SteadyIterations(PhaseNetwork(jitter=jitter, pace=pace, starts=starts))
    shifts: dict[Any, float | None] = dict.fromkeys(profiles)
    periods: dict[Any, float | None] = dict.fromkeys(profiles)
    slowdown, unshifted = dict.fromkeys(profiles, 1.0), dict.fromkeys(profiles, 1.0)
    tight = crowded(graph.jobs_of, profiles, capacities)
    for jobs, links in connected(tight):
        anywhere: dict[Any, float | None] = dict.fromkeys(jobs)
        random, order = meeting_of(jobs, links, tight, profiles, anywhere, capacities)
        best = steady.best(random, pace=pace, drawn=True)
        for place, job in enumerate(order):
            shifts[job] = best.starts_s[place]
            periods[job] = best.paces_s[place] if best.paces_s else None
            slowdown[job] = float(steady.of(best).slowdown[place])
            unshifted[job] = float(steady.of(random).slowdown[place])
    return PacedShifts(shifts, periods, slowdown, unshifted)
