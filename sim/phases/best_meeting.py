"""Starts and paces of jobs that meet, tried in the engine of phases."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

import cvxpy as cp
import numpy as np

from apportion.mechanism.time_shifts import AffinityGraph, CommunicationProfile, compatibility
from apportion.mechanism.time_shifts.circle import pacings, unified_circle
from apportion.policies.whole.placed_problem import PlacedJobs
from apportion.sim.phases.many_ways import drawn_for, least_of
from apportion.sim.shifts.meeting import slotted_jobs
from apportion.sim.shifts.placed_search import PlacedSearch
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apportion.sim.shifts.meeting import Meeting
    from apportion.types import Floats


SLOTS, KICKS = 24, 20

CIRCLES = 2
"""Common circles that are tried, short ones first."""

KEPT_OFF = (0.1, 0.03, 0.01, 0.001)
"""Parts of a period by which others keep off the ends of phases where nothing varies. Never 0: who
is held is never early, so that a hair's breadth by which phases touch is never made up for."""

SLACKS = (0.03, 0.06, 0.1, 0.2, 0.4)
"""Times the jitter by which paces are longer than they must be, and"""

ROOM = (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0)
"""parts of what the largest pace leaves for it, that are tried."""

SPREAD, NEARBY, NEAR = 16, 3, 0.03
"""Shifts drawn anywhere, drawn beside each that is known, and how far beside, of a period."""

APART = 100
"""Ways that are drawn with a pace for each job, and no common circle."""

CLEARLY = 0.005
"""Part of an iteration by which shifts must gain on random starts, of which there are few."""


class Slowdowns(Protocol):
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

    def of(self, meeting: Meeting) -> Slowdowns:
        """Return how long iterations take."""
        ...


def best_meeting(random: Meeting, steady: Measures, pace: float, *, drawn: bool = False) -> Meeting:
    """Return the meeting with the best starts and paces; itself where nothing gains on it.

    Parameters
    ----------
    random
        Jobs on connected links, which start at random.
    steady
        Measures meetings.
    pace
        Largest part by which an iteration is stretched.
    drawn
        Whether ways are drawn, too, where nothing varies and no way that is known fits.
    """
    best, least = random, float(steady.of(random).slowdown.mean()) - CLEARLY
    if least <= least_slowdown(random):
        return best
    tries = _tried(random, pace)
    if steady.jitter:
        tries = _with_noise(random, [*tries], steady.jitter, pace)
    elif drawn:
        known = [*tries]
        tries = chain(known, _with_noise(random, known, 0.0, pace))
    for tried in tries:
        slowdown = float(steady.of(tried).slowdown.mean())
        if slowdown < least - 1e-9:
            best, least = tried, slowdown
        if least <= 1 + (CLEARLY if drawn else 1e-9):
            break
    return best


def least_slowdown(meeting: Meeting) -> float:
    """Return the least mean slowdown that jobs can have in the long run, however they start.

    An iteration of job j sends the same gigabits however long it takes, ``d_j`` Gb/s of the time
    that it takes alone. So links of ``C_l`` Gb/s carry slowdowns s of at least 1 if and only if the
    sum of ``d_j / s_j`` over the jobs on each link is at most ``C_l``: the bound is the least mean
    of such s. Pacing makes iterations longer, and is counted.
    """
    sent = np.array([profile.mean_gbps for profile in meeting.profiles])
    on = np.array([[job in users for job in range(sent.size)] for _, users in meeting.links])
    speed = cp.Variable(sent.size)  # 1 / s
    slowdown = cp.sum(cp.inv_pos(speed)) / sent.size
    carried = on * sent @ speed <= np.array([gbps for gbps, _ in meeting.links])
    least: Any = cp.Problem(cp.Minimize(slowdown), [speed <= 1, carried]).solve(cp.CLARABEL)
    return float(least)


def _with_noise(
    random: Meeting, tries: Sequence[Meeting], jitter: float, pace: float
) -> Iterator[Meeting]:
    """Go through the best paced way of many, run with noise, and the ways without pacing."""
    paced = [each for each in tries if each.paces_s]
    if paced:
        ways = _ways(random, paced, jitter, pace)
        starts_s, paces_s = least_of(random, *ways, jitter=jitter, most=pace)
        yield random._replace(
            starts_s=tuple(map(significant, starts_s)), paces_s=tuple(map(significant, paces_s))
        )
    yield from (each for each in tries if not each.paces_s)


def _ways(
    random: Meeting, paced: Sequence[Meeting], jitter: float, pace: float
) -> tuple[Floats, Floats]:
    """Return starts and paces of many ways, (ways, jobs): slack, and shifts beside those known.

    Slack is by what paces are longer than they must be: who is late catches up by it.
    """
    rng = drawn_for(random)
    own = np.array([profile.period_s for profile in random.profiles])
    starts, paces = [], []
    for periods_s, shifts in _by_circle(paced).items():
        periods = np.array(periods_s)
        room = (1 + pace) / float((periods / own).max()) - 1
        slacks = {0.0, *(part * jitter for part in SLACKS), *(part * room for part in ROOM)}
        for slack in sorted(each for each in slacks if 0 <= each <= room):
            drawn = rng.uniform(0, 1, (SPREAD, own.size)) * periods
            near = rng.normal(0, NEAR, (NEARBY, len(shifts), own.size)) * periods + shifts
            tried = np.concatenate([shifts, drawn, near.reshape(-1, own.size)])
            starts.append(np.mod(tried, periods) * (1 + slack))
            paces.append(np.broadcast_to(periods * (1 + slack), tried.shape))
    count = APART * (own.size - 1) ** 2
    apart = own * rng.uniform(1, 1 + pace, (count, own.size))  # what never fits may pass by so
    starts.append(rng.uniform(0, 1, apart.shape) * apart)
    paces.append(apart)
    return np.concatenate(starts), np.concatenate(paces)


def _by_circle(paced: Sequence[Meeting]) -> dict[tuple[float, ...], Floats]:
    """Return the shifts that are known, (shifts, jobs), by the periods of the jobs."""
    found: dict[tuple[float, ...], list[list[float]]] = {}
    for each in paced:
        periods = tuple(pace_s or 0.0 for pace_s in each.paces_s)
        found.setdefault(periods, []).append([start_s or 0.0 for start_s in each.starts_s])
    return {periods: np.array(shifts) for periods, shifts in found.items()}


def _tried(random: Meeting, pace: float) -> Iterator[Meeting]:
    """Go through starts and paces that may be good."""
    own = [profile.period_s for profile in random.profiles]
    circles = islice(pacings(own, pace), CIRCLES) if pace else iter(())
    for circle in circles:
        for off in KEPT_OFF:
            yield _paced(random, circle.periods_s, off)
    if unified_circle(own) is not None:  # others would meet at their worst before they drift apart
        yield _paced(random, own, 0.0)._replace(paces_s=())


def _paced(random: Meeting, periods_s: Sequence[float], off: float) -> Meeting:
    """Shift jobs of some periods; others keep off the ends of phases by a part of the period."""
    paces = tuple(
        significant(max(paced, profile.period_s))
        for paced, profile in zip(periods_s, random.profiles, strict=True)
    )
    paced = [
        _wider(profile.paced(each), off * each)
        for profile, each in zip(random.profiles, paces, strict=True)
    ]
    shifts = _without_loops(random, paced) or _searched(random, paced)
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


def _searched(random: Meeting, paced: Sequence[CommunicationProfile]) -> list[float]:
    """Shift jobs on slots for the least sum of slowdowns."""
    slotted = slotted_jobs(paced, SLOTS)
    links: list[list[int]] = [[] for _ in paced]
    for place, (_, users) in enumerate(random.links):
        for job in users:
            links[job].append(place)
    none = [0] * len(paced)
    placed = PlacedJobs(
        demand=slotted.demand,
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


def _wider(profile: CommunicationProfile, off_s: float) -> CommunicationProfile:
    """Let every phase end so much later, but not after the next begins."""
    starts = [phase.start_s for phase in profile.phases]
    following = [*starts[1:], *(start + profile.period_s for start in starts[:1])]
    phases = [
        phase._replace(duration_s=min(phase.duration_s + off_s, after - phase.start_s))
        for phase, after in zip(profile.phases, following, strict=True)
    ]
    return CommunicationProfile(profile.name, profile.period_s, phases)
