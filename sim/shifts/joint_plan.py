"""Shifts of jobs that form loops with their links, for networks that are asked again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.time_shifts import AffinityGraph, score_of
from apportion.mechanism.time_shifts.one_rotation import EQUAL
from apportion.sim.shifts.joint import joint_shifts, mean_score, whole_slots
from apportion.sim.shifts.meeting import Meeting, meeting_of
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.mechanism.time_shifts import CommunicationProfile

    Trained = tuple[str, int]

__all__ = ["JointPlans"]

SLOTS = 12
"""Into which the shortest period is divided, or the job's own where it is turned by itself."""

MOST_SOLVED = 6
"""Jobs for which the integer program is solved; it takes a second or so for as many."""

TIME_LIMIT_S = 60.0
"""Of the integer program: far more than it takes, so that results do not hang on the machine."""

REMEMBERED = 20_000
"""Meetings that are known by heart."""


class JointPlans:
    """Chooses shifts for the mean score of links that form loops with their jobs.

    Up to six jobs whose periods are whole numbers of slots by the joint integer program; then, and
    others from no shifts on, by coordinate descent: one job after the other is turned to where the
    exact mean score is best.

    Parameters
    ----------
    profile
        The communication profile of a model that is trained on so many GPUs.
    """

    def __init__(self, profile: Callable[[str, int], CommunicationProfile]) -> None:
        self._profile = profile
        self._known: dict[Meeting, dict[int, float]] = {}

    def shifts(
        self,
        jobs_of: Mapping[Any, Sequence[Any]],
        trained: Mapping[Any, Trained],
        capacities: Mapping[Any, float],
    ) -> dict[Any, float]:
        """Return when each job is to start, seconds, by job.

        Parameters
        ----------
        jobs_of
            Jobs on each link, by link; all hang together.
        trained
            Model and GPUs of each job.
        capacities
            Gb/s of each link.
        """
        jobs = list(dict.fromkeys(job for users in jobs_of.values() for job in users))
        profiles = {job: self._profile(*trained[job]) for job in jobs}
        anywhere: dict[Any, float | None] = dict.fromkeys(jobs)
        meeting, order = meeting_of(jobs, list(jobs_of), jobs_of, profiles, anywhere, capacities)
        known = self._known.get(meeting)
        if known is None:
            if len(self._known) > REMEMBERED:
                self._known.clear()
            known = self._known[meeting] = _found(meeting)
        return {job: known[place] for place, job in enumerate(order)}

    def scores(
        self,
        jobs_of: Mapping[Any, Sequence[Any]],
        trained: Mapping[Any, Trained],
        capacities: Mapping[Any, float],
    ) -> dict[Any, float]:
        """Return the score of each link with these shifts, by link; arguments as of `shifts`."""
        shifts_s = self.shifts(jobs_of, trained, capacities)
        return {
            link: score_of(
                [self._profile(*trained[job]) for job in jobs],
                capacities[link],
                [shifts_s[job] for job in jobs],
            )
            for link, jobs in jobs_of.items()
        }


def _found(meeting: Meeting) -> dict[int, float]:
    """Choose the shifts of jobs by their places in the meeting."""
    profiles = dict(enumerate(meeting.profiles))
    jobs_of = {link: users for link, (_, users) in enumerate(meeting.links)}
    capacities = {link: gbps for link, (gbps, _) in enumerate(meeting.links)}
    periods = [profile.period_s for profile in meeting.profiles]
    shifts_s, best = dict.fromkeys(profiles, 0.0), -np.inf
    if len(periods) <= MOST_SOLVED and whole_slots(periods, min(periods) / SLOTS):
        joint = joint_shifts(jobs_of, profiles, capacities, slots=SLOTS, time_limit_s=TIME_LIMIT_S)
        if joint.proved:
            shifts_s |= {job: significant(shift_s) for job, shift_s in joint.shifts_s.items()}
    graph = AffinityGraph(jobs_of)
    while (score := mean_score(graph, profiles, capacities, shifts_s)) > best + EQUAL:
        best = score
        for job in list(profiles)[1:]:
            shifts_s[job] = _turned(graph, profiles, capacities, shifts_s, job)
    return shifts_s


def _turned(
    graph: AffinityGraph,
    profiles: Mapping[int, CommunicationProfile],
    capacities: Mapping[int, float],
    shifts_s: Mapping[int, float],
    job: int,
) -> float:
    """Return the shift of one job with which its links do best; its own if none is better."""
    own = {link: jobs for link, jobs in graph.jobs_of.items() if job in jobs}
    around = AffinityGraph(own)

    def score(shift_s: float) -> float:
        return mean_score(around, profiles, capacities, {**shifts_s, job: shift_s})

    chosen, best = shifts_s[job], score(shifts_s[job])
    for turn in range(SLOTS):
        shift_s = turn * profiles[job].period_s / SLOTS
        if (found := score(shift_s)) > best + EQUAL:
            chosen, best = shift_s, found
    return chosen
