"""Starts and paces of jobs that meet, tried in the engine of phases."""

from __future__ import annotations

from itertools import islice, product
from typing import TYPE_CHECKING, Protocol

import numpy as np

from apportion.mechanism.time_shifts import AffinityGraph, compatibility
from apportion.mechanism.time_shifts.circle import unified_circle
from apportion.mechanism.time_shifts.pacing import pacings
from apportion.mechanism.time_shifts.profile import ROUNDING
from apportion.policies.whole.placed_problem import PlacedJobs
from apportion.sim.shifts.on_slots import slotted_jobs
from apportion.sim.shifts.placed_search import PlacedSearch
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.time_shifts import CommunicationProfile
    from apportion.sim.shifts.meeting import Meeting

    Floats = NDArray[np.float64]

__all__ = ["best_meeting"]

SLOTS, KICKS = 24, 20

CIRCLES = 2
"""Common circles that are tried, short ones first."""

SLACKS = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Times the jitter by which paces are longer than they must be: who is late catches up by it."""

LATE = (0.0, 1.0, 3.0, 8.0)
"""Times the jitter by which others keep off the ends of phases: who is paced is never early."""

CLEARLY = 0.005
"""Part of an iteration by which shifts must gain on random starts, of which there are few."""


class Measured(Protocol):
    """How long iterations take."""

    @property
    def slowdown(self) -> Floats:
        """Mean time of an iteration over that alone, by job."""
        ...


class Measures(Protocol):
    """What measures meetings: `apportion.sim.phases.steady.SteadyIterations`."""

    @property
    def jitter(self) -> float:
        """Part by which computations vary."""
        ...

    def of(self, meeting: Meeting) -> Measured:
        """Return how long iterations take."""
        ...


def best_meeting(random: Meeting, steady: Measures, pace: float) -> Meeting:
    """Return the meeting with the best starts and paces; itself where nothing gains on it.

    Parameters
    ----------
    random
        Jobs on connected links, which start at random.
    steady
        Measures meetings.
    pace
        Largest part by which an iteration is stretched.
    """
    best, least = random, float(steady.of(random).slowdown.mean()) - CLEARLY
    for tried in _tried(random, pace, steady.jitter):
        slowdown = float(steady.of(tried).slowdown.mean())
        if slowdown < least - 1e-9:
            best, least = tried, slowdown
        if least <= 1 + 1e-9:
            break
    return best


def _tried(random: Meeting, pace: float, jitter: float) -> Iterator[Meeting]:
    """Go through starts and paces that may be good."""
    own = [profile.period_s for profile in random.profiles]
    circles = islice(pacings(own, pace), CIRCLES) if pace else iter(())
    ways = [*product(SLACKS, LATE)] if jitter else [(0.0, 0.0)]
    for circle in circles:
        for slack, late in ways:
            periods = [each * (1 + slack * jitter) for each in circle.periods_s]
            longest = max(paced / each for paced, each in zip(periods, own, strict=True))
            if longest <= (1 + pace) * (1 + ROUNDING):
                yield _paced(random, periods, late * jitter)
    if unified_circle(own) is not None:  # others would meet at their worst before they drift apart
        yield _paced(random, own, 0.0)._replace(paces_s=())


def _paced(random: Meeting, periods_s: Sequence[float], late: float) -> Meeting:
    """Shift jobs of some periods; others keep off the ends of phases by a part of the period."""
    paces = tuple(
        significant(max(paced, profile.period_s))
        for paced, profile in zip(periods_s, random.profiles, strict=True)
    )
    paced = [profile.paced(each) for profile, each in zip(random.profiles, paces, strict=True)]
    exact = None if late else _without_loops(random, paced)
    shifts = exact or _searched(random, paced, late)
    return random._replace(starts_s=tuple(map(significant, shifts)), paces_s=paces)


def _without_loops(random: Meeting, paced: Sequence[CommunicationProfile]) -> list[float] | None:
    """Shift jobs exactly, link by link, where these form no loop; None where they do."""
    graph = AffinityGraph({place: users for place, (_, users) in enumerate(random.links)})
    if graph.loops:
        return None
    weights = {}
    for place, (gbps, users) in enumerate(random.links):
        best = compatibility([paced[job] for job in users], gbps)
        weights[place] = dict(zip(users, best.shifts_s, strict=True))
    found = graph.shifts(weights, {job: each.period_s for job, each in enumerate(paced)})
    return [found.get(job, 0.0) for job in range(len(paced))]


def _searched(random: Meeting, paced: Sequence[CommunicationProfile], late: float) -> list[float]:
    """Shift jobs on slots for the least sum of slowdowns."""
    slotted = slotted_jobs(paced, SLOTS)
    links: list[list[int]] = [[] for _ in paced]
    for place, (_, users) in enumerate(random.links):
        for job in users:
            links[job].append(place)
    none = [0] * len(paced)
    placed = PlacedJobs(
        demand=[
            _wider(own, late * profile.period_s / slot_s)
            for own, profile, slot_s in zip(slotted.demand, paced, slotted.slot_s, strict=True)
        ],
        links=[[each] for each in links],
        gpus=[[[]] for _ in paced],
        capacity=np.array([gbps for gbps, _ in random.links]),
        free=np.zeros(0),
        weight=np.ones(len(paced)),
        span=slotted.span,
    )
    search = PlacedSearch(placed, none, none)
    search.search(KICKS)
    return [turn * each for turn, each in zip(search.rotations, slotted.slot_s, strict=True)]


def _wider(demand: Floats, slots: float) -> Floats:
    """Let phases end so many slots later."""
    wide = demand
    for turn in range(1, min(round(slots + 0.5), demand.size // 4) + 1):
        wide = np.maximum(wide, np.roll(demand, turn))
    return wide
