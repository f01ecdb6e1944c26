"""Which of several placements lets jobs share their links best (CASSINI's Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apportion.checks import listed, mapping
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.time_shifts.affinity import AffinityGraph, jobs_by_link
from apportion.mechanism.time_shifts.circle import EQUAL
from apportion.mechanism.time_shifts.link_compatibility import capacity_of, compatibility
from apportion.mechanism.time_shifts.profile import CommunicationProfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.mechanism.time_shifts.link_compatibility import Compatibility


@dataclass(frozen=True)
class RankedPlacement:
    """A candidate placement, and how well jobs share links there.

    Attributes
    ----------
    number
        Position among the candidates.
    score
        Mean of the compatibility of the links with several jobs; 1 if there are none.
    graph
        Affinity graph.
    links
        Compatibility of each shared link, by link; jobs are in the order of the graph.
    shifts_s
        Seconds by which every job with a shared link starts later, by job; empty with loops,
        which Algorithm 1 cannot resolve.
    """

    number: int
    score: float
    graph: AffinityGraph
    links: Mapping[Any, Compatibility]
    shifts_s: Mapping[Any, float]

    @property
    def has_loops(self) -> bool:
        """Whether jobs and links form a loop, so that the candidate is discarded."""
        return self.graph.loops > 0


def rank_placements(
    candidates: Iterable[Mapping[Any, Iterable[Any]]],
    profiles: Mapping[Any, CommunicationProfile],
    capacities: Mapping[Any, float] | float,
    **options: Any,
) -> list[RankedPlacement]:
    """Score candidate placements by the mean compatibility of their shared links.

    Parameters
    ----------
    candidates
        Each a mapping from links to the jobs that use them there (`Topology.jobs_on_links`).
    profiles
        Of every job; none for jobs that no candidate has on a link.
    capacities
        Gb/s of the links, by link, or of all of them.
    options
        Of `compatibility`.

    Returns
    -------
    list of RankedPlacement
        In the order of the candidates. The same jobs on links of one capacity are solved once.

    Raises
    ------
    InputError
        If a job has no profile, a profile's job is on no link, or a link has no capacity.
    """
    placed = [jobs_by_link(each) for each in listed("candidates", candidates)]
    known = _profiles(placed, profiles)
    solved: dict[tuple[Any, ...], Compatibility] = {}
    ranked = []
    for place, jobs_of in enumerate(placed):
        graph = AffinityGraph(jobs_of)
        links = {}
        for link, jobs in graph.jobs_of.items():
            capacity = _capacity(capacities, link)
            key = (jobs, capacity)
            if key not in solved:
                solved[key] = compatibility([known[job] for job in jobs], capacity, **options)
            links[link] = solved[key]
        score = sum(each.score for each in links.values()) / len(links) if links else 1.0
        shifts = {} if graph.loops else _shifts(graph, links, known)
        ranked.append(RankedPlacement(place, score, graph, links, shifts))
    return ranked


def best_placement(ranked: Iterable[RankedPlacement]) -> RankedPlacement | None:
    """Return the first candidate of the best score without loops; None if all have some.

    Without any, CASSINI shifts no job and leaves the choice to the scheduler.
    """
    usable = [each for each in ranked if not each.has_loops]
    if not usable:
        return None
    best = max(each.score for each in usable)
    return next(each for each in usable if each.score >= best - EQUAL)


def _shifts(
    graph: AffinityGraph,
    links: Mapping[Any, Compatibility],
    profiles: Mapping[Any, CommunicationProfile],
) -> dict[Any, float]:
    weights = {
        link: dict(zip(graph.jobs_of[link], found.shifts_s, strict=True))
        for link, found in links.items()
    }
    return graph.shifts(weights, {job: profiles[job].period_s for job in graph.links_of})


def _profiles(placed: list[Any], profiles: Any) -> dict[Any, CommunicationProfile]:
    """Check that jobs and profiles belong together."""
    known = mapping("profiles", profiles, "a mapping from jobs to their CommunicationProfile")
    for job, profile in known.items():
        if not isinstance(profile, CommunicationProfile):
            raise InputError(f"The profile of job {written(job)} is no CommunicationProfile.")
    on_links = {job for jobs_of in placed for jobs in jobs_of.values() for job in jobs}
    for job in known:
        if job not in on_links:
            raise InputError(
                f"The job {written(job)} is on no link of any candidate; leave out its profile."
            )
    for job in on_links:
        if job not in known:
            raise unknown_name("job without a profile", job, known)
    return known


def _capacity(capacities: Any, link: Any) -> float:
    if not hasattr(capacities, "keys"):
        return capacity_of(capacities)
    if link not in capacities:
        raise unknown_name("link without a capacity", link, capacities)
    return capacity_of(capacities[link])
