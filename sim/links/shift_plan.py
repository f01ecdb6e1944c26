"""The shifts of the gangs on a cluster, and when they are chosen anew.

One shift for each job where links and jobs form no loop.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.mechanism.time_shifts import AffinityGraph
from apportion.mechanism.time_shifts.circle import (
    EQUAL,
    TOLERANCE,
    commensurate_groups,
    tolerance_over,
)
from apportion.sim.links.meeting import connected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.mechanism.time_shifts import LinkScores

    Trained = tuple[str, int]


class Crowd(NamedTuple):
    """Who is on which link.

    Attributes
    ----------
    jobs_of
        Jobs on each link, by link.
    trained
        Model and GPUs of each job.
    capacities
        Gb/s of each link.
    """

    jobs_of: dict[Any, list[Any]]
    trained: dict[Any, Trained]
    capacities: dict[Any, float]


class ShiftPlan(NamedTuple):
    """When jobs start, and to which periods they are paced, seconds, by job.

    Jobs without a start begin at random, those without a period are not paced.
    """

    shifts_s: dict[Any, float]
    paces_s: dict[Any, float]


def planned_shifts(
    crowd: Crowd,
    scores: LinkScores,
    periods_s: Mapping[Any, float],
    *,
    paces: bool = False,
    epoch_s: float = 0.0,
) -> ShiftPlan:
    """Return when each job with shared links is to start, by Algorithm 1.

    Jobs that do not fit as they are, but do if the faster wait for the slower a little, are paced.
    Else only those are shifted that stay for an epoch as they meet: what starts together and does
    not fit would meet at its worst for as long as periods are nearly equal. Jobs of a connected
    part of the affinity graph that has a loop get no shift.

    Parameters
    ----------
    crowd
        Who is on which link.
    scores
        Knows the shifts of a link.
    periods_s
        Seconds of an iteration, by job.
    paces
        Whether jobs may be paced.
    epoch_s
        For how long shifts have to last, seconds.
    """
    found = ShiftPlan({}, {})
    for jobs, links in _shared(crowd):
        graph = AffinityGraph({link: crowd.jobs_of[link] for link in links})
        tolerance = tolerance_over(epoch_s, [periods_s[job] for job in jobs])
        if graph.loops:
            continue
        fits = all(
            scores.best([(*crowd.trained[job], 0.0) for job in on], crowd.capacities[link]).score
            >= 1 - EQUAL
            for link, on in graph.jobs_of.items()
        )
        paced = None
        if paces and not fits:
            paced = scores.paced(graph.jobs_of, crowd.trained, crowd.capacities)
        if paced is not None:
            found.paces_s.update(paced)
            found.shifts_s.update(_shifts(graph, crowd, scores, paced, TOLERANCE, paced))
            continue
        shifts = _shifts(graph, crowd, scores, periods_s, tolerance)
        found.shifts_s.update(_in_step(shifts, periods_s, tolerance))
    return found


def _shifts(
    graph: AffinityGraph,
    crowd: Crowd,
    scores: LinkScores,
    periods_s: Mapping[Any, float],
    tolerance: float,
    paced: Mapping[Any, float] = MappingProxyType({}),
) -> dict[Any, float]:
    """Return the shifts of jobs that form no loop, by Algorithm 1."""
    weights = {}
    for link, jobs in graph.jobs_of.items():
        order = sorted((*crowd.trained[job], paced.get(job, 0.0), job) for job in jobs)
        best = scores.best([each[:-1] for each in order], crowd.capacities[link], tolerance)
        weights[link] = {job: each for (*_, job), each in zip(order, best.shifts_s, strict=True)}
    return graph.shifts(weights, {job: periods_s[job] for job in graph.links_of})


def _in_step(
    shifts_s: Mapping[Any, float], periods_s: Mapping[Any, float], tolerance: float
) -> dict[Any, float]:
    """Return the shifts of the most jobs that have a unified circle: others drift through them."""
    jobs = list(shifts_s)
    groups = commensurate_groups([periods_s[job] for job in jobs], tolerance=tolerance)
    kept = max(groups, key=len, default=[])
    return {jobs[place]: shifts_s[jobs[place]] for place in kept} if len(kept) > 1 else {}


def looped_jobs(crowd: Crowd) -> set[Any]:
    """Return the jobs whose part of the affinity graph has a loop."""
    return AffinityGraph(crowd.jobs_of).looped


def _shared(crowd: Crowd) -> list[tuple[Sequence[Any], Sequence[Any]]]:
    """Return the connected parts of the affinity graph."""
    shared = {link: jobs for link, jobs in crowd.jobs_of.items() if len(jobs) > 1}
    return [(jobs, links) for jobs, links in connected(shared)]


ROUNDING = 1e-9
"""Part of an epoch that sums of seconds may be off by."""


class Epochs:
    """Epochs of one length from the first time that is told.

    Parameters
    ----------
    length_s
        Seconds; 0 if every time is the start of one.

    """

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._first_s: float | None = None
        self._number = -1
        self._due = True

    @property
    def due(self) -> bool:
        """Whether an epoch begins now whose shifts have not been chosen."""
        return self._due or not self._length_s

    def chosen(self) -> None:
        """Take note that the shifts of the epoch have been chosen."""
        self._due = False

    @property
    def next_s(self) -> float:
        """When the next epoch begins, seconds; never if every time is a start."""
        if self._first_s is None or not self._length_s:
            return math.inf
        return self._first_s + (self._number + 1) * self._length_s

    def at(self, now_s: float) -> bool:
        """Take note of the time; return whether shifts are due.

        They are at the very start of an epoch: those that come later in it wait for the next.
        """
        if self._first_s is None:
            self._first_s = now_s
        if self._length_s:
            off_s = ROUNDING * self._length_s + 4 * math.ulp(now_s)
            number = math.floor((now_s - self._first_s + off_s) / self._length_s)
            begins = now_s - self._first_s - number * self._length_s <= off_s
            self._due = begins and (self._due or number > self._number)
            self._number = max(number, self._number)
        return self.due
