"""Shifts of jobs that form loops with their links, for networks that are asked again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from apportion.mechanism.time_shifts import AffinityGraph, score_of
from apportion.mechanism.time_shifts.circle import EQUAL
from apportion.policies.whole.placed_problem import PlacedJobs
from apportion.sim.shifts.joint import joint_shifts, mean_score, whole_slots
from apportion.sim.shifts.meeting import Meeting, meeting_of, slotted_jobs
from apportion.sim.shifts.placed_search import PlacedSearch
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.mechanism.time_shifts import CommunicationProfile

    Trained = tuple[str, int]
    Profiles = Mapping[int, CommunicationProfile]
    Links = Mapping[int, Sequence[int]]

SLOTS = 12
"""Into which the shortest period is divided, or the job's own where it is turned by itself."""

MOST_SOLVED = 6
"""Jobs for which the integer program is solved; it takes a second or so for as many."""

TIME_LIMIT_S = 60.0
"""Of the integer program: far more than it takes, so that results do not hang on the machine."""

SEARCHED = 20
"""Times that jobs are moved at random in the search of the program."""

REMEMBERED = 20_000
"""Meetings that are known by heart."""


class JointPlans:
    """Chooses shifts for all links that form loops with their jobs.

    By default for the mean score of the links: up to six jobs whose periods are whole numbers of
    slots by the joint integer program; then, and others from no shifts on, by coordinate descent:
    one job after the other is turned to where the exact mean score is best.

    Parameters
    ----------
    profile
        The communication profile of a model that is trained on so many GPUs.
    objective
        `MeanOfLinks` or `SumOfSlowdowns`; the first by default.
    """

    def __init__(
        self,
        profile: Callable[[str, int], CommunicationProfile],
        objective: Objective | None = None,
    ) -> None:
        self._profile, self._objective = profile, objective or MeanOfLinks()
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
            known = self._known[meeting] = _found(meeting, self._objective)
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


def _found(meeting: Meeting, objective: Objective) -> dict[int, float]:
    """Choose the shifts of jobs by their places in the meeting."""
    profiles = dict(enumerate(meeting.profiles))
    jobs_of = {link: users for link, (_, users) in enumerate(meeting.links)}
    capacities = {link: gbps for link, (gbps, _) in enumerate(meeting.links)}
    shifts_s, best = objective.begins(profiles, jobs_of, capacities), -np.inf
    graph = AffinityGraph(jobs_of)
    while (score := objective.of(graph, profiles, capacities, shifts_s)) > best + EQUAL:
        best = score
        for job in list(profiles)[1:]:
            shifts_s[job] = _turned(objective, graph, profiles, capacities, shifts_s, job)
    return shifts_s


def _turned(
    objective: Objective,
    graph: AffinityGraph,
    profiles: Mapping[int, CommunicationProfile],
    capacities: Mapping[int, float],
    shifts_s: Mapping[int, float],
    job: int,
) -> float:
    """Return the shift of one job with which its links do best; its own if none is better."""
    around = graph
    if objective.adds_up:
        around = AffinityGraph({link: on for link, on in graph.jobs_of.items() if job in on})

    def score(shift_s: float) -> float:
        return objective.of(around, profiles, capacities, {**shifts_s, job: shift_s})

    chosen, best = shifts_s[job], score(shifts_s[job])
    for turn in range(SLOTS):
        shift_s = turn * profiles[job].period_s / SLOTS
        if (found := score(shift_s)) > best + EQUAL:
            chosen, best = shift_s, found
    return chosen


class Objective(Protocol):
    """What shifts are chosen for."""

    adds_up: bool
    """Whether it is a sum over links, so that a job's turn changes its own links only."""

    def begins(
        self, profiles: Profiles, jobs_of: Links, capacities: Mapping[int, float]
    ) -> dict[int, float]:
        """Return shifts to begin with."""
        ...

    def of(
        self,
        graph: AffinityGraph,
        profiles: Profiles,
        capacities: Mapping[int, float],
        shifts_s: Mapping[int, float],
    ) -> float:
        """Return how good shifts are; more is better."""
        ...


class MeanOfLinks:
    """The mean score of the links, begun by the integer program `rotations` where it is small."""

    adds_up = True
    of = staticmethod(mean_score)

    def begins(
        self, profiles: Profiles, jobs_of: Links, capacities: Mapping[int, float]
    ) -> dict[int, float]:
        """Return the shifts of the program, or none."""
        periods = [profile.period_s for profile in profiles.values()]
        shifts_s = dict.fromkeys(profiles, 0.0)
        if len(periods) <= MOST_SOLVED and whole_slots(periods, min(periods) / SLOTS):
            joint = joint_shifts(
                jobs_of, profiles, capacities, slots=SLOTS, time_limit_s=TIME_LIMIT_S
            )
            if joint.proved:
                shifts_s |= {job: significant(shift_s) for job, shift_s in joint.shifts_s.items()}
        return shifts_s


class SumOfSlowdowns:
    """What jobs lose: the sum of their worst links, as the program `placement_and_rotation`."""

    adds_up = False

    def begins(
        self, profiles: Profiles, jobs_of: Links, capacities: Mapping[int, float]
    ) -> dict[int, float]:
        """Return the shifts that the search of the program finds on slots."""
        slotted = slotted_jobs(list(profiles.values()), SLOTS)
        links = [[link for link, on in jobs_of.items() if job in on] for job in profiles]
        placed = PlacedJobs(
            demand=slotted.demand,
            links=[[each] for each in links],
            gpus=[[[]] for _ in links],
            capacity=np.array(list(capacities.values())),
            free=np.zeros(0),
            weight=np.ones(len(links)),
            span=slotted.span,
        )
        none = [0] * len(links)
        search = PlacedSearch(placed, none, none)
        search.search(SEARCHED)
        first = search.rotations[0] * slotted.slot_s[0]
        return {
            job: significant((turn * slot_s - first) % profiles[job].period_s)
            for job, turn, slot_s in zip(profiles, search.rotations, slotted.slot_s, strict=True)
        }

    @staticmethod
    def of(
        graph: AffinityGraph,
        profiles: Profiles,
        capacities: Mapping[int, float],
        shifts_s: Mapping[int, float],
    ) -> float:
        """Return the sum of the scores of the jobs' worst links."""
        worst = dict.fromkeys(graph.links_of, 1.0)
        for link, jobs in graph.jobs_of.items():
            own = [profiles[job] for job in jobs]
            score = score_of(own, capacities[link], [shifts_s[job] for job in jobs])
            worst |= {job: min(worst[job], score) for job in jobs}
        return sum(worst.values())
