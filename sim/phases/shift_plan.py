"""The shifts of the gangs on a cluster: one for each job where links and jobs form no loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.mechanism.time_shifts import AffinityGraph
from apportion.sim.phases.meeting import connected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.mechanism.time_shifts import LinkScores
    from apportion.sim.phases.joint_plan import JointPlans

    Trained = tuple[str, int]

__all__ = ["Crowd", "looped_jobs", "planned_shifts"]


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


def planned_shifts(
    crowd: Crowd,
    scores: LinkScores,
    periods_s: Mapping[Any, float],
    plans: JointPlans | None = None,
) -> dict[Any, float]:
    """Return when each job with shared links is to start, by Algorithm 1, seconds, by job.

    Jobs of a connected part of the affinity graph that has a loop get no shift, or those of plans.

    Parameters
    ----------
    crowd
        Who is on which link.
    scores
        Knows the shifts of a link.
    periods_s
        Seconds of an iteration, by job.
    plans
        Shifts jobs in loops.
    """
    found: dict[Any, float] = {}
    for jobs, links in _shared(crowd):
        graph = AffinityGraph({link: crowd.jobs_of[link] for link in links})
        if graph.loops:
            users = {link: crowd.jobs_of[link] for link in links}
            if plans is not None:
                found |= plans.shifts(users, crowd.trained, crowd.capacities)
            continue
        weights = {}
        for link in links:
            order = sorted(crowd.jobs_of[link], key=lambda job: (crowd.trained[job], job))
            trained = [crowd.trained[job] for job in order]
            best = scores.best(trained, crowd.capacities[link])
            weights[link] = dict(zip(order, best.shifts_s, strict=True))
        found |= graph.shifts(weights, {job: periods_s[job] for job in jobs})
    return found


def looped_jobs(crowd: Crowd) -> set[Any]:
    """Return the jobs whose part of the affinity graph has a loop."""
    return AffinityGraph(crowd.jobs_of).looped


def _shared(crowd: Crowd) -> list[tuple[Sequence[Any], Sequence[Any]]]:
    """Return the connected parts of the affinity graph."""
    shared = {link: jobs for link, jobs in crowd.jobs_of.items() if len(jobs) > 1}
    return [(jobs, links) for jobs, links in connected(shared)]
