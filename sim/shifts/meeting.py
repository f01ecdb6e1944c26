"""Jobs that meet on links: one name for the same meeting, and their demands on slots of time."""

from __future__ import annotations

from math import lcm
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.mechanism.time_shifts import score_of
from apportion.mechanism.time_shifts.circle import pacings
from apportion.sim.network.topology import jobs_on_links
from apportion.sim.shifts.joint import demand_on_slots, whole_slots

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.mechanism.time_shifts import CommunicationProfile
    from apportion.sim.network.topology import Topology
    from apportion.types import Floats


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


def slowdowns_of(
    topology: Topology,
    gangs: Mapping[Any, Iterable[int]],
    profiles: Mapping[Any, CommunicationProfile],
    shifts_s: Mapping[Any, float],
    periods_s: Mapping[Any, float],
) -> tuple[dict[str, float], dict[Any, float]]:
    """Return the score of each link with several jobs, and each job's iteration over that alone.

    ``stretch * (2 - score)``, by the worst link of the job; stretch is what pacing costs. Who sends
    nothing waits for nobody.

    Parameters
    ----------
    topology, gangs, profiles
        Links, GPUs of each job, what each sends.
    shifts_s, periods_s
        When each job starts, and to which period it is paced.
    """
    capacities = topology.capacities
    scores: dict[str, float] = {}
    worst = dict.fromkeys(gangs, 1.0)
    senders = {job: gpus for job, gpus in gangs.items() if profiles[job].phases}
    for link, jobs in jobs_on_links(topology, senders).items():
        paced = [profiles[job].paced(periods_s[job]) for job in jobs]
        if len(jobs) == 1 and paced[0].peak_gbps <= capacities[link]:
            continue
        score = score_of(paced, capacities[link], [shifts_s[job] for job in jobs])
        if len(jobs) > 1:
            scores[link] = score
        for job in jobs:
            worst[job] = min(worst[job], score)
    return scores, {
        job: periods_s[job] / profiles[job].period_s * (2 - score) for job, score in worst.items()
    }


MOST_SPAN = 240
"""Slots over which links are looked at. Jobs whose common circle is longer drift through nearly
all ways to meet in so many."""

FINER = 4
"""Times that slots may be made finer so that all periods are whole numbers of them."""


class SlottedJobs(NamedTuple):
    """Demands on slots.

    Attributes
    ----------
    demand
        Of each job in each slot of its period, Gb/s.
    periods_s
        To which jobs are paced, seconds.
    slot_s
        Of each job: its period over its slots, seconds.
    span
        Slots over which links are looked at.
    whole
        Whether all jobs are where they were after the span.
    """

    demand: list[Floats]
    periods_s: list[float]
    slot_s: list[float]
    span: int
    whole: bool


def paced_periods(periods_s: Sequence[float], pace: float) -> list[float]:
    """Return periods to which jobs are paced, so that as many as can have a common circle.

    From the slowest job on: each job joins the first group of slower ones with which it has a
    circle if none is stretched by more than the part `pace`; others keep their periods.
    """
    order = sorted(range(len(periods_s)), key=lambda job: -periods_s[job])
    groups: list[tuple[list[int], list[float]]] = []
    for job in order:
        for place, (members, _) in enumerate(groups):
            own = [periods_s[each] for each in (*members, job)]
            found = next(pacings(own, pace), None)
            if found is not None:
                groups[place] = [*members, job], list(found.periods_s)
                break
        else:
            groups.append(([job], [periods_s[job]]))
    paced = dict[int, float]()
    for members, periods in groups:
        paced |= dict(zip(members, periods, strict=True))
    return [max(paced[job], periods_s[job]) for job in range(len(periods_s))]


def slotted_jobs(
    profiles: Sequence[CommunicationProfile], slots: int, pace: float = 0.0
) -> SlottedJobs:
    """Put jobs on slots.

    Parameters
    ----------
    profiles
        Of the jobs.
    slots
        Into which the shortest period is divided; up to four times as many where all periods are
        whole numbers of slots then. Others are rounded.
    pace
        Part by which an iteration may be stretched so that jobs have a common circle.
    """
    if not profiles:
        return SlottedJobs([], [], [], 1, True)
    periods = [profile.period_s for profile in profiles]
    periods = paced_periods(periods, pace) if pace else periods
    shortest = min(periods)
    finer = range(slots, FINER * slots + 1)
    even = next((each for each in finer if whole_slots(periods, shortest / each)), None)
    count = even or slots
    longest = max(periods) / shortest * count
    if longest > MOST_SPAN:  # slots of the shortest are as wide as they must be
        count, even = max(2, round(count * MOST_SPAN / longest)), None
    sizes = [max(1, round(period / (shortest / count))) for period in periods]
    span = lcm(*sizes)
    whole = even is not None and span <= MOST_SPAN
    if span > MOST_SPAN:
        span = max(MOST_SPAN, max(sizes))
    slot_s = [period / size for period, size in zip(periods, sizes, strict=True)]
    paced = [profile.paced(period) for profile, period in zip(profiles, periods, strict=True)]
    demand = [
        demand_on_slots(profile, size, each)
        for profile, size, each in zip(paced, sizes, slot_s, strict=True)
    ]
    return SlottedJobs(demand, periods, slot_s, span, whole)
