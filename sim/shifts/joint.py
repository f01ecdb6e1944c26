"""Shifts for all links at once, by one integer program: what affinity graphs with loops need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.checks import seconds, whole
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.time_shifts import AffinityGraph, CommunicationProfile, score_of
from apportion.mechanism.time_shifts.link_compatibility import capacity_of
from apportion.policies import solve_instance
from apportion.policies.whole.rotations import rotation_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.policies import Solution
    from apportion.types import Floats


TOLERANCE = 1e-6
"""Part of a slot by which a period may miss a whole number of them."""

PROVED = 1e-6
"""A certified gap below it, of mean scores, is told as proved."""

DIGITS = 9
"""Of Gb/s in a slot: what rounding leaves of a phase is no demand, and spoils programs."""


@dataclass(frozen=True)
class JointShifts:
    """Shifts that were chosen for all links together.

    Attributes
    ----------
    shifts_s
        Seconds by which every job with a shared link starts later, by job.
    score, unshifted_score
        Mean compatibility of the shared links with these shifts, and with none; exact, not on
        slots. 1 without shared links.
    proved
        Whether no other shifts by whole slots are better, as far as demands averaged over each
        slot tell. Else these are the best known, or none.
    """

    shifts_s: Mapping[Any, float]
    score: float
    unshifted_score: float
    proved: bool


def joint_shifts(
    jobs_of: Mapping[Any, Iterable[Any]],
    profiles: Mapping[Any, CommunicationProfile],
    capacities: Mapping[Any, float],
    *,
    slots: int = 24,
    time_limit_s: float = 10.0,
) -> JointShifts:
    """Choose the shifts of all jobs for the mean score of all links, loops or none.

    Solves the policy `rotations` for each connected part of the affinity graph. Links on which the
    same jobs meet are one link of more weight.

    Parameters
    ----------
    jobs_of
        Jobs on each link, by link (`apportion.sim.network.jobs_on_links`).
    profiles
        Of every job with a shared link.
    capacities
        Gb/s of every shared link.
    slots
        Into which the shortest period is divided; every other must be a whole number of them.
    time_limit_s
        For the search of each connected part.

    Raises
    ------
    InputError
        If a profile or capacity is missing, or a period is no whole number of slots.
    """
    whole("slots", slots, 1)
    seconds("time_limit_s", time_limit_s, strict=True)
    graph = AffinityGraph(jobs_of)
    check_links(graph, profiles, capacities)
    shifts, proved = dict[Any, float](), True
    limited: dict[str, Any] = {"time_limit_s": time_limit_s, "fallback": "isolated"}
    for component in graph.components:
        found = part_shifts(graph, component, profiles, capacities, slots, **limited)
        proved &= found.solution is None or found.solution.gap <= PROVED
        shifts |= found.shifts_s
    none = dict.fromkeys(shifts, 0.0)
    unshifted = mean_score(graph, profiles, capacities, none)
    score = mean_score(graph, profiles, capacities, shifts)
    if score < unshifted:  # slots are too coarse, or nothing was found in time
        shifts, score = none, unshifted
    return JointShifts(shifts, score, unshifted, proved)


def mean_score(
    graph: AffinityGraph,
    profiles: Mapping[Any, CommunicationProfile],
    capacities: Mapping[Any, float],
    shifts_s: Mapping[Any, float],
) -> float:
    """Return the mean compatibility of the shared links with given shifts; 1 without any."""
    scores = [
        score_of([profiles[j] for j in jobs], capacities[link], [shifts_s[j] for j in jobs])
        for link, jobs in graph.jobs_of.items()
    ]
    return float(np.mean(scores)) if scores else 1.0


class PartShifts(NamedTuple):
    """Shifts of jobs that links connect.

    Attributes
    ----------
    rotations
        Slots by which each job starts later, by job.
    slot_s
        Seconds of a slot.
    links
        Links that cannot carry all that their jobs may want at once.
    solution
        Of the policy; ``None`` where there are no such links.
    """

    rotations: Mapping[Any, int]
    slot_s: float
    links: int = 0
    solution: Solution | None = None

    @property
    def shifts_s(self) -> dict[Any, float]:
        """Seconds by which each job starts later."""
        return {job: turn * self.slot_s for job, turn in self.rotations.items()}


def part_shifts(
    graph: AffinityGraph,
    component: tuple[Any, ...],
    profiles: Mapping[Any, CommunicationProfile],
    capacities: Mapping[Any, float],
    slots: int,
    **how: Any,
) -> PartShifts:
    """Solve the policy `rotations` for one connected part.

    Parameters
    ----------
    graph, component
        Jobs and shared links, and the jobs of the part.
    profiles, capacities, slots
        As of `joint_shifts`.
    how
        Options of `apportion.policies.solve_instance`.

    Raises
    ------
    InputError
        If a period is no whole number of slots.
    """
    slot_s = min(profiles[job].period_s for job in component) / slots
    _check_periods(component, profiles, slot_s)
    weights: dict[tuple[frozenset[Any], float], int] = {}
    for link, jobs in graph.jobs_of.items():
        crowded = sum(profiles[job].peak_gbps for job in jobs) > capacities[link]
        if crowded and jobs[0] in component:
            key = frozenset(jobs), float(capacities[link])
            weights[key] = weights.get(key, 0) + 1
    none = dict.fromkeys(component, 0)
    if not weights:
        return PartShifts(none, slot_s)
    demand = [
        np.array([(job in jobs) * own for jobs, _ in weights])
        for job in component
        for own in [demand_on_slots(profiles[job], round(profiles[job].period_s / slot_s), slot_s)]
    ]
    gbps = [capacity for _, capacity in weights]
    problem = rotation_problem(demand, gbps, weight=list(weights.values()))
    found = solve_instance(*problem, **how)
    turned = zip(component, found.X.argmax(axis=1).tolist(), strict=True)
    rotations = none if found.status == "fallback" else dict(turned)
    return PartShifts(rotations, slot_s, sum(weights.values()), found)


def demand_on_slots(profile: CommunicationProfile, count: int, slot_s: float) -> Floats:
    """Return the mean demand in each of so many slots of the period, Gb/s."""
    edges = np.arange(count + 1) * slot_s
    total = np.zeros(count)
    for phase in profile.phases:
        for turn_s in (0.0, -profile.period_s):
            start_s = phase.start_s + turn_s
            sent_s = np.clip(edges - start_s, 0.0, phase.duration_s)
            total += phase.gbps * np.diff(sent_s) / slot_s
    return total.round(DIGITS)


def check_links(graph: AffinityGraph, profiles: Any, capacities: Any) -> None:
    """Check that jobs, links and numbers belong together.

    Raises
    ------
    InputError
        For a shared link without a capacity, and a job on one that has no profile.
    """
    for link, jobs in graph.jobs_of.items():
        if link not in capacities:
            raise unknown_name("link without a capacity", link, capacities)
        capacity_of(capacities[link])
        for job in jobs:
            if not isinstance(profiles.get(job), CommunicationProfile):
                raise InputError(f"The job {written(job)} has no CommunicationProfile.")


def _check_periods(
    component: tuple[Any, ...], profiles: Mapping[Any, CommunicationProfile], slot_s: float
) -> None:
    """Refuse periods that are no whole number of slots."""
    for job in component:
        if not whole_slots([profiles[job].period_s], slot_s):
            period = profiles[job].period_s / slot_s
            raise InputError(
                f"The period of job {written(job)} is {profiles[job].period_s:g} s, {period:g} "
                f"slots of {slot_s:g} s; it must be a whole number of them. Choose other slots; "
                "periods without a common divisor gain nothing by shifts."
            )


def whole_slots(periods_s: Iterable[float], slot_s: float) -> bool:
    """Whether all periods are whole numbers of slots, up to a millionth."""
    slots = [period_s / slot_s for period_s in periods_s]
    return all(abs(each - round(each)) <= TOLERANCE * max(1.0, each) for each in slots)
