"""Jobs that meet on links: one name for the same meeting."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.mechanism.time_shifts import CommunicationProfile


ROUNDING = 1e-9
"""Part of a capacity by which demands may exceed it."""


class Meeting(NamedTuple):
    """Everything that the iterations of jobs on connected links hang on.

    Attributes
    ----------
    profiles
        Of the jobs.
    starts_s
        When each begins its first iteration; ``None`` at a random time.
    links
        Gb/s of each link, and the places of the jobs that use it.
    paces_s
        Periods to which jobs are paced; ``None`` for one that is not. Empty if none is.
    """

    profiles: tuple[CommunicationProfile, ...]
    starts_s: tuple[float | None, ...]
    links: tuple[tuple[float, tuple[int, ...]], ...]
    paces_s: tuple[float | None, ...] = ()

    def profile(self, place: int) -> CommunicationProfile:
        """Return the profile of a job as it is paced."""
        paced_s = self.paces_s[place] if self.paces_s else None
        own = self.profiles[place]
        return own if paced_s is None else own.paced(paced_s)


def crowded(
    jobs_of: Mapping[Any, Iterable[Any]],
    profiles: Mapping[Any, CommunicationProfile],
    capacities: Mapping[Any, float],
) -> dict[Any, list[Any]]:
    """Return the links on which more may be wanted than they have; others slow nobody down."""
    found = {}
    for link, given in jobs_of.items():
        jobs = list(given)
        wanted = sum(profiles[job].peak_gbps for job in jobs)
        if wanted > capacities[link] * (1 + ROUNDING):
            found[link] = jobs
    return found


def connected(jobs_of: Mapping[Any, Sequence[Any]]) -> list[tuple[list[Any], list[Any]]]:
    """Return jobs and links that hang together, each part in the order in which it is given."""
    part_of: dict[Any, int] = {}
    parts: list[list[Any]] = []
    for link, jobs in jobs_of.items():
        touched = sorted({part_of[job] for job in jobs if job in part_of})
        parts.append([link])
        for place in touched:
            parts[-1] = parts[place] + parts[-1]
            parts[place] = []
        merged = {job for each in parts[-1] for job in jobs_of[each]}
        part_of.update(dict.fromkeys(merged, len(parts) - 1))
    return [
        (list(dict.fromkeys(job for link in links for job in jobs_of[link])), links)
        for links in parts
        if links
    ]


def meeting_of(
    jobs: Sequence[Any],
    links: Sequence[Any],
    jobs_of: Mapping[Any, Sequence[Any]],
    profiles: Mapping[Any, CommunicationProfile],
    starts_s: Mapping[Any, float | None],
    capacities: Mapping[Any, float],
    paces_s: Mapping[Any, float] = MappingProxyType({}),
) -> tuple[Meeting, list[Any]]:
    """Return a meeting, and its jobs in their order there.

    Jobs are ordered by what they send and by whom they meet, and not by their names: the same jobs
    that meet elsewhere in the same way are the same meeting, as a rule.
    """
    colours = {job: _rank_key(profiles[job], starts_s[job], paces_s.get(job)) for job in jobs}
    known = _ranks(colours)
    for _ in range(3):
        around = {
            job: tuple(
                sorted(
                    (capacities[link], *sorted(known[other] for other in jobs_of[link]))
                    for link in links
                    if job in jobs_of[link]
                )
            )
            for job in jobs
        }
        known = _ranks({job: (known[job], around[job]) for job in jobs})
    order = sorted(jobs, key=known.__getitem__)
    place = {job: number for number, job in enumerate(order)}
    used = sorted(
        (float(capacities[link]), tuple(sorted(place[job] for job in jobs_of[link])))
        for link in links
    )
    return (
        Meeting(
            tuple(profiles[job] for job in order),
            tuple(starts_s[job] for job in order),
            tuple(used),
            tuple(paces_s.get(job) for job in order) if paces_s else (),
        ),
        order,
    )


def _rank_key(
    profile: CommunicationProfile, start_s: float | None, paced_s: float | None
) -> tuple[Any, ...]:
    begins = -1.0 if start_s is None else start_s
    return profile.name, profile.period_s, profile.phases, begins, paced_s or 0.0


def _ranks(colours: Mapping[Any, Any]) -> dict[Any, int]:
    """Return the place of each colour among the different ones."""
    rank = {colour: number for number, colour in enumerate(sorted(set(colours.values())))}
    return {job: rank[colour] for job, colour in colours.items()}
