"""Jobs on shared links, for `solve`: what each sends, and when each had better start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd

from apportion.allocation import Allocation
from apportion.annotations import explained
from apportion.checks import mapping, number, whole
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.time_shifts import AffinityGraph, CommunicationProfile, score_of
from apportion.mechanism.time_shifts.link_compatibility import capacity_of
from apportion.policies import Rotations, solve_instance
from apportion.policies.rotations import rotation_problem
from apportion.sim.network.topology import jobs_on_links
from apportion.sim.network.topology.named import get_topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.policies import Policy, Solution
    from apportion.sim.network.topology import Topology
    from apportion.types import Floats

TOLERANCE = 1e-6
"""Part of a slot by which a period may miss a whole number of them."""

DIGITS = 9
"""Of Gb/s in a slot: what rounding leaves of a phase is no demand, and spoils programs."""


@dataclass(frozen=True, eq=False, repr=False)
class LinkShifts(Allocation):
    """When each job starts its iterations: an `Allocation` whose options are rotations.

    X has a column for each number of slots by which a job may start later. The objective is 1 less
    the mean score of the shared links, as it is on slots of time; its gap proves it. `throughput`
    are iterations per second of jobs that have their links for themselves. Links have no prices.

    Attributes
    ----------
    shifts_s
        Seconds by which each job starts later, by job; 0 for a job that shares no link.
    scores, unshifted_scores
        Compatibility of each shared link with these shifts, and with none, by link; exact, not on
        slots.
    """

    shifts_s: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    scores: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    unshifted_scores: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))

    def _tables(self) -> list[pd.DataFrame]:
        """When jobs start, and how well they suit each other on links."""
        jobs = pd.DataFrame({"shift_s": self.shifts_s, "period_s": 1 / self.throughput})
        links = pd.DataFrame({"score": self.scores, "unshifted": self.unshifted_scores})
        return [each for each in (jobs, links) if len(each)]


@dataclass(frozen=True, eq=False)
class SharedLinks:
    """What jobs send, and which of them share which links: the problem of the policy `rotations`.

    Stands in `solve` where other policies have throughputs::

        ap.solve("rotations", ap.SharedLinks(profiles, {"uplink": ["a", "b"]}, 50.0))

    Parameters
    ----------
    profiles
        `CommunicationProfile` of each job, by job.
    jobs_of
        Jobs on each link, by link; `apportion.sim.network.jobs_on_links` makes it of a topology.
    capacities
        Gb/s of each link, by link, as a topology has them; or one number for all.
    slots
        Into which the shortest period of jobs that links connect is divided; every other must be a
        whole number of them.

    Raises
    ------
    InputError
        If a profile or a capacity is missing, or a number is out of range.
    """

    profiles: Mapping[Any, CommunicationProfile]
    jobs_of: Mapping[Any, Iterable[Any]]
    capacities: Mapping[Any, float] | float
    slots: int = 24

    @explained
    def __post_init__(self) -> None:
        what = "a mapping from jobs to their CommunicationProfile"
        for job, profile in mapping("profiles", self.profiles, what).items():
            if not isinstance(profile, CommunicationProfile):
                raise InputError(
                    f"The profile of job {written(job)} is {written(profile)}; it must be a "
                    f"CommunicationProfile."
                )
        whole("slots", self.slots, 1)
        _check_links(self._graph, self.profiles, self._gbps)

    @classmethod
    def of_gangs(
        cls,
        profiles: Mapping[Any, CommunicationProfile],
        gangs: Mapping[Any, Iterable[int]],
        topology: Topology | str,
        *,
        slots: int = 24,
    ) -> Self:
        """Pose the problem of gangs whose GPUs are known.

        Parameters
        ----------
        profiles, slots
            As of the class.
        gangs
            Numbers of the GPUs of each job, by job.
        topology
            Name of a topology, a ``.toml`` file, or a `Topology`.

        Raises
        ------
        InputError
            As the class, and for a GPU of two gangs.
        """
        known = get_topology(topology)
        return cls(profiles, jobs_on_links(known, gangs), known.capacities, slots)

    @property
    def _graph(self) -> AffinityGraph:
        return AffinityGraph(self.jobs_of)

    @property
    def _gbps(self) -> Mapping[Any, float]:
        if isinstance(self.capacities, (int, float, np.number)):
            gbps = number("capacities", self.capacities, strict=True)
            return dict.fromkeys(self.jobs_of, gbps)
        return mapping("capacities", self.capacities, "Gb/s, one number or by link")

    def solved_by(self, policy: Policy, **how: Any) -> LinkShifts:
        """Return the shifts that a policy chooses; called by `solve`.

        Raises
        ------
        InputError
            If it is not `rotations`, or a period is no whole number of slots.
        """
        if not isinstance(policy, Rotations):
            raise InputError(
                f"{policy!r} shares out GPUs; jobs on shared links are for the policy 'rotations'."
            )
        if policy.weights:
            raise InputError(f"{policy!r} weighs slots; here each shared link counts alike.")
        graph, gbps = self._graph, self._gbps
        parts = [
            _part_shifts(graph, component, self.profiles, gbps, self.slots, **how)
            for component in graph.components
        ]
        shifts = pd.Series(dict.fromkeys(self.profiles, 0.0), name="shift_s", dtype=float)
        rotations = dict.fromkeys(self.profiles, 0)
        for part in parts:
            rotations |= part.rotations
            for job, shift_s in part.shifts_s.items():
                shifts.at[job] = shift_s
        scores, before = self._scores(shifts), self._scores(0 * shifts)
        proof = _proof(parts, len(graph.jobs_of))
        if scores.sum() < before.sum() - 1e-9:
            proof["message"] += (
                f"Slots are too coarse: the mean score is {scores.mean():.4g}, and "
                f"{before.mean():.4g} without shifts; give more than slots={self.slots}."
            )
        return LinkShifts(
            X=_one_hot(rotations),
            throughput=pd.Series({job: 1 / p.period_s for job, p in self.profiles.items()}),
            prices=pd.Series(np.nan, index=list(graph.jobs_of), name="price", dtype=float),
            policy=repr(policy),
            unit="(1 - mean score)",
            integral=True,
            shifts_s=shifts,
            scores=scores,
            unshifted_scores=before,
            **proof,
        )

    def _scores(self, shifts_s: pd.Series) -> pd.Series:
        """Return the score of each shared link with some shifts."""
        found = {
            link: score_of(
                [self.profiles[job] for job in jobs],
                self._gbps[link],
                [float(each) for each in shifts_s.loc[list(jobs)]],
            )
            for link, jobs in self._graph.jobs_of.items()
        }
        return pd.Series(found, name="score", dtype=float)


def _one_hot(rotations: Mapping[Any, int]) -> pd.DataFrame:
    """Return X: the rotation of each job, in slots."""
    slots = np.arange(max(rotations.values(), default=0) + 1)
    X = np.array([turn == slots for turn in rotations.values()], dtype=float)
    jobs = pd.Index(list(rotations), tupleize_cols=False)
    return pd.DataFrame(X.reshape(len(jobs), slots.size), jobs, pd.Index(slots, name="slots"))


def _proof(parts: Sequence[PartShifts], links: int) -> dict[str, Any]:
    """Return objective, gap, status, message and figures of all parts together."""
    solved = [(part.links, part.solution) for part in parts if part.solution is not None]
    value = sum(count * found.objective for count, found in solved)
    bad = [found for _, found in solved if found.status != "optimal"]
    return {
        "objective": round(value / links, 12) if links else 0.0,
        "gap": max((found.gap for _, found in solved), default=0.0),
        "status": bad[0].status if bad else "optimal",
        "message": bad[0].message if bad else "",
        "stats": {
            "jobs": sum(len(part.rotations) for part in parts),
            "links": links,
            "parts": len(parts),
            "solve_s": sum(found.stats.get("solve_s", 0.0) for _, found in solved),
        },
    }


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


def _part_shifts(
    graph: AffinityGraph,
    component: tuple[Any, ...],
    profiles: Mapping[Any, CommunicationProfile],
    capacities: Mapping[Any, float],
    slots: int,
    **how: Any,
) -> PartShifts:
    """Solve the policy `rotations` for one connected part.

    Links on which the same jobs meet are one link of more weight.

    Parameters
    ----------
    graph, component
        Jobs and shared links, and the jobs of the part.
    profiles, capacities, slots
        As of `SharedLinks`; Gb/s of each link.
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
        for own in [_demand_on_slots(profiles[job], round(profiles[job].period_s / slot_s), slot_s)]
    ]
    gbps = [capacity for _, capacity in weights]
    problem = rotation_problem(demand, gbps, weight=list(weights.values()))
    found = solve_instance(*problem, **how)
    turned = zip(component, found.X.argmax(axis=1).tolist(), strict=True)
    rotations = none if found.status == "fallback" else dict(turned)
    return PartShifts(rotations, slot_s, sum(weights.values()), found)


def _check_periods(
    component: tuple[Any, ...], profiles: Mapping[Any, CommunicationProfile], slot_s: float
) -> None:
    """Refuse periods that are no whole number of slots."""
    for job in component:
        period = profiles[job].period_s / slot_s
        if abs(period - round(period)) > TOLERANCE * max(1.0, period):
            raise InputError(
                f"The period of job {written(job)} is {profiles[job].period_s:g} s, {period:g} "
                f"slots of {slot_s:g} s; it must be a whole number of them. Choose other slots; "
                "periods without a common divisor gain nothing by shifts."
            )


def _demand_on_slots(profile: CommunicationProfile, count: int, slot_s: float) -> Floats:
    """Return the mean demand in each of so many slots of the period, Gb/s."""
    edges = np.arange(count + 1) * slot_s
    total = np.zeros(count)
    for phase in profile.phases:
        for turn_s in (0.0, -profile.period_s):
            start_s = phase.start_s + turn_s
            sent_s = np.clip(edges - start_s, 0.0, phase.duration_s)
            total += phase.gbps * np.diff(sent_s) / slot_s
    return total.round(DIGITS)


def _check_links(graph: AffinityGraph, profiles: Any, capacities: Any) -> None:
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
