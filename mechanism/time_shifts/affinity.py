"""The affinity graph of jobs and links: shifts that suit all links, and the best placement.

Rajasekaran et al., CASSINI, NSDI 2024, Algorithms 1 and 2.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import hashable, listed, mapping, number, seconds
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.time_shifts.circle import EQUAL
from apportion.mechanism.time_shifts.link_compatibility import capacity_of, compatibility
from apportion.mechanism.time_shifts.profile import CommunicationProfile
from apportion.mechanism.time_shifts.turning import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.mechanism.time_shifts.link_compatibility import Compatibility


@dataclass(frozen=True, init=False)
class AffinityGraph:
    """Which jobs share which links: a graph whose nodes are jobs on one side, links on the other.

    An edge joins a job and a link that it uses with others; its weight is the time shift that the
    job should have on that link, see `Compatibility.shifts_s`. Links that one job has for itself
    are no nodes (Rajasekaran et al., CASSINI, NSDI 2024, section 4).

    Parameters
    ----------
    jobs_of
        Jobs on each link, by link.

    Raises
    ------
    InputError
        If a link names a job twice or something is no list of jobs.
    """

    jobs_of: Mapping[Any, tuple[Any, ...]]

    def __init__(self, jobs_of: Mapping[Any, Iterable[Any]]) -> None:
        shared = {link: jobs for link, jobs in jobs_by_link(jobs_of).items() if len(jobs) > 1}
        object.__setattr__(self, "jobs_of", shared)

    @property
    def links_of(self) -> dict[Any, tuple[Any, ...]]:
        """Shared links of each job that has one, by job."""
        found: dict[Any, tuple[Any, ...]] = {}
        for link, jobs in self.jobs_of.items():
            for job in jobs:
                found[job] = (*found.get(job, ()), link)
        return found

    @property
    def components(self) -> list[tuple[Any, ...]]:
        """Jobs that hang together, each component in the order in which it is walked."""
        links_of, seen, found = self.links_of, set[object](), []
        for first in links_of:
            if first not in seen:
                walk = [job for job, _, _ in self._walk(first)]
                seen.update(walk)
                found.append(tuple(walk))
        return found

    @property
    def loops(self) -> int:
        """Independent loops: edges beyond those of a forest. Two jobs on two links make one."""
        edges = sum(map(len, self.jobs_of.values()))
        nodes = len(self.links_of) + len(self.jobs_of)
        return edges - nodes + len(self.components)

    @property
    def looped(self) -> set[Any]:
        """Jobs whose component has a loop."""
        links_of, found = self.links_of, set[Any]()
        for part in self.components:
            edges = sum(len(links_of[job]) for job in part)
            links = {link for job in part for link in links_of[job]}
            if edges >= len(part) + len(links):
                found.update(part)
        return found

    def shifts(
        self,
        weights_s: Mapping[Any, Mapping[Any, float]],
        periods_s: Mapping[Any, float],
    ) -> dict[Any, float]:
        """Return one shift for each job, with which the jobs on every link stand as they should.

        From the first job of a component, whose shift is 0, along the edges (Algorithm 1)::

            t_k = (t_j - w(j, l) + w(k, l)) mod T_k

        Without loops every pair of jobs on a link then has its relative shift, modulo the greatest
        common divisor of their periods; all that is left to choose is a common shift of each
        component (Theorem 1).

        Parameters
        ----------
        weights_s
            w(j, l): seconds by which each job is to be shifted on a link, by link and job.
        periods_s
            T_j, seconds, by job.

        Raises
        ------
        InputError
            If the graph has a loop, or a link, job or period is missing.
        """
        if self.loops:
            raise InputError(
                f"The affinity graph has {self.loops} loops; shifts that suit one link then need "
                "not suit another. Choose another placement, or optimise all links together."
            )
        self._check(weights_s, periods_s)
        found: dict[Any, float] = {}
        for component in self.components:
            for job, link, before in self._walk(component[0]):
                shift = 0.0
                if before is not None:
                    weights = weights_s[link]
                    shift = found[before] - weights[before] + weights[job]
                found[job] = float(wrapped(np.array([shift]), periods_s[job])[0])
        return found

    def _walk(self, first: Any) -> Iterable[tuple[Any, Any, Any]]:
        """Visit jobs breadth first: each with the link by which, and the job from which."""
        links_of, seen = self.links_of, {first}
        queue: deque[Any] = deque([first])
        yield first, None, None
        while queue:
            job = queue.popleft()
            for link in links_of[job]:
                for other in self.jobs_of[link]:
                    if other not in seen:
                        seen.add(other)
                        queue.append(other)
                        yield other, link, job

    def _check(
        self,
        weights_s: Mapping[Any, Mapping[Any, float]],
        periods_s: Mapping[Any, float],
    ) -> None:
        for link, jobs in self.jobs_of.items():
            if link not in weights_s:
                raise unknown_name("link without shifts", link, weights_s)
            for job in jobs:
                if job not in weights_s[link]:
                    raise InputError(f"Link {written(link)} has no shift of {written(job)}.")
                if job not in periods_s:
                    raise InputError(f"The job {written(job)} has no period.")
                number(f"The shift of job {written(job)}", weights_s[link][job], least=-np.inf)
                seconds(f"The period of job {written(job)}", periods_s[job], strict=True)


def jobs_by_link(links: object) -> dict[Any, tuple[Any, ...]]:
    """Check which jobs are on which link.

    Raises
    ------
    InputError
        If it is no mapping from links to lists of jobs, or a link names a job twice.
    """
    found: dict[Any, tuple[Any, ...]] = {}
    for link, given in mapping("links", links, "a mapping from links to their jobs").items():
        jobs = tuple(hashable(f"job on link {written(link)}", given))
        if len(set(jobs)) < len(jobs):
            twice = next(job for job in jobs if jobs.count(job) > 1)
            raise InputError(f"The link {written(link)} names the job {written(twice)} twice.")
        found[link] = jobs
    return found


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
        shifts = {}
        if not graph.loops:
            weights = {
                link: dict(zip(graph.jobs_of[link], found.shifts_s, strict=True))
                for link, found in links.items()
            }
            shifts = graph.shifts(weights, {job: known[job].period_s for job in graph.links_of})
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
