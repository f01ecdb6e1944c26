"""Demands of jobs on slots of time, their periods paced so that they have a common circle."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from apportion.mechanism.time_shifts.circle import pacings
from apportion.sim.shifts.joint import demand_on_slots, whole_slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.time_shifts import CommunicationProfile
    from apportion.types import Floats


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
