"""Gangs that may lie in several places, for `solve`: where each lies, and when it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.annotations import explained
from apportion.checks import listed, mapping, number, seconds, whole
from apportion.errors import InfeasibleError, InputError, SolveError, unknown_name, written
from apportion.mechanism.time_shifts import CommunicationProfile
from apportion.mechanism.time_shifts.circle import PACE
from apportion.policies import solve_instance
from apportion.policies.whole.placed_problem import PlacedJobs, demands_of, placed_problem
from apportion.policies.whole.rotations import PlacementAndRotation
from apportion.sim.network.topology import check_gangs
from apportion.sim.network.topology.named import get_topology
from apportion.sim.shifts.gang_placement import FoundGangs, GangPlacement, gang_placement
from apportion.sim.shifts.meeting import slotted_jobs, slowdowns_of
from apportion.sim.shifts.placed_search import EQUAL, PlacedSearch, first_fit, other_fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.policies import Policy, Solution
    from apportion.sim.network.topology import Topology
    from apportion.sim.shifts.meeting import SlottedJobs

    Gpus = tuple[int, ...]

LARGEST = 2_000_000
"""Demands of options in slots up to which the program is posed; beyond it is searched only."""

MOST_KICKS, KICKS = 60, 600
"""Times that jobs are moved at random in the search: the second over the number of jobs."""

TIME_LIMIT_S = 60.0
"""For the proofs, unless another is given."""

SHORTEST_S = 0.01


@dataclass(frozen=True, eq=False)
class PlacedGangs:
    """What jobs send, and where each may lie: the problem of `placement_and_rotation`.

    Stands in `solve` where other policies have throughputs::

        gangs = {"a": [0, 1, 2], "b": [[3, 4], [6, 7]]}  # b may lie in two places
        ap.solve("placement_and_rotation", ap.PlacedGangs(profiles, gangs, "cassini"))

    Parameters
    ----------
    profiles
        `CommunicationProfile` of each job, by job.
    gangs
        Numbers of the GPUs of each job, or a list of several such candidates, by job.
    topology
        Name of a topology, a ``.toml`` file, or a `Topology`: which links a gang uses.
    slots
        Into which the shortest period is divided.
    pace
        Part by which iterations may be stretched so that jobs have a common period; 0 for none.
    weight
        What the slowdown of each job counts, by job; 1 for those that are not named.

    Raises
    ------
    InputError
        If a profile is missing, two gangs that have one place only have one GPU, or a number is out
        of range.
    """

    profiles: Mapping[Any, CommunicationProfile]
    gangs: Mapping[Any, Iterable[Any]]
    topology: Topology | str
    slots: int = 12
    pace: float = PACE
    weight: Mapping[Any, float] = field(default_factory=dict)

    @explained
    def __post_init__(self) -> None:
        whole("slots", self.slots, 2, 100)
        number("pace", self.pace, most=0.5)
        object.__setattr__(self, "topology", get_topology(self.topology))
        known = self.candidates
        profiles = mapping("profiles", self.profiles, "a mapping from jobs to profiles")
        for job in known:
            if not isinstance(profiles.get(job), CommunicationProfile):
                raise InputError(f"The job {written(job)} has no CommunicationProfile.")
        for job, weight in mapping("weight", self.weight).items():
            if job not in known:
                raise unknown_name("job with a weight", job, known)
            number(f"The weight of job {written(job)}", weight)
        check_gangs({job: places[0] for job, places in known.items() if len(places) == 1})

    @property
    def candidates(self) -> dict[Any, list[Gpus]]:
        """Where each job may lie, by job."""
        found = {}
        for job, given in mapping("gangs", self.gangs, "a mapping from jobs to GPUs").items():
            places = listed(f"The GPUs of job {written(job)}", given)
            if not places:
                raise InputError(f"The job {written(job)} has no place; give it GPUs.")
            if not all(isinstance(place, (list, tuple, set, np.ndarray)) for place in places):
                places = [places]
            if not all(len(place) for place in places):
                raise InputError(f"A place of job {written(job)} has no GPU.")
            found[job] = list(dict.fromkeys(self._members(job, place) for place in places))
        return found

    def _members(self, job: Any, place: Any) -> Gpus:
        gpus = listed(f"The GPUs of job {written(job)}", place)
        name, most = self._topology.name, self._topology.gpus - 1
        found = tuple(sorted(whole(f"A GPU of {name!r}", each, 0, most) for each in gpus))
        check_gangs({job: found})
        return found

    @property
    def _topology(self) -> Topology:
        assert not isinstance(self.topology, str)
        return self.topology

    def solved_by(self, policy: Policy, **how: Any) -> GangPlacement:
        """Return where gangs lie and when they start; called by `solve`.

        Raises
        ------
        InputError
            If the policy is another.
        InfeasibleError
            If no candidates fit together.
        """
        if not isinstance(policy, PlacementAndRotation):
            raise InputError(
                f"{policy!r} does not place gangs on links; that is for 'placement_and_rotation'."
            )
        candidates = self.candidates
        slotted = slotted_jobs([self.profiles[job] for job in candidates], self.slots, self.pace)
        placed, names = self._arrays(candidates, slotted)
        found = FoundGangs([0] * len(candidates), [0] * len(candidates), 0.0, 0.0, [])
        limit_s = how.pop("time_limit_s", None)
        if limit_s is None:
            limit_s = TIME_LIMIT_S
        seconds("time_limit_s", limit_s, strict=True, infinite=True)
        deadline = time.perf_counter() + limit_s
        for members, part in placed.parts():
            left_s = max(deadline - time.perf_counter(), SHORTEST_S)
            search, bound, solved = _of_part(part, time_limit_s=left_s, **how)
            found.take(members, search, bound, solved)
        return self._told(candidates, slotted, found, names)

    def _arrays(
        self, candidates: Mapping[Any, list[Gpus]], slotted: SlottedJobs
    ) -> tuple[PlacedJobs, list[str]]:
        """Write the problem in arrays, with the links and GPUs that two jobs or more may use."""
        topology, capacities = self._topology, self._topology.capacities
        used = {
            job: [topology.links_of(place) if self.profiles[job].phases else () for place in places]
            for job, places in candidates.items()
        }
        peak = dict(zip(candidates, (each.max() for each in slotted.demand), strict=True))
        wanted: dict[str, float] = {}
        wants: dict[int, int] = {}
        for job, places in candidates.items():
            for link in {link for links in used[job] for link in links}:
                wanted[link] = wanted.get(link, 0.0) + peak[job]
            for gpu in {gpu for place in places for gpu in place}:
                wants[gpu] = wants.get(gpu, 0) + 1
        names = [link for link, gbps in wanted.items() if gbps > capacities[link]]
        number_of = {link: place for place, link in enumerate(names)}
        wanted_gpus = sorted(gpu for gpu, jobs in wants.items() if jobs > 1)
        place_of = {gpu: place for place, gpu in enumerate(wanted_gpus)}
        placed = PlacedJobs(
            demand=slotted.demand,
            links=[
                [[number_of[link] for link in links if link in number_of] for links in used[job]]
                for job in candidates
            ],
            gpus=[
                [[(place_of[gpu], 1) for gpu in place if gpu in place_of] for place in places]
                for places in candidates.values()
            ],
            capacity=np.array([capacities[link] for link in names]),
            free=np.ones(len(wanted_gpus)),
            weight=np.array([float(self.weight.get(job, 1.0)) for job in candidates]),
            span=slotted.span,
        )
        return placed, names

    def _told(
        self,
        candidates: Mapping[Any, list[Gpus]],
        slotted: SlottedJobs,
        found: FoundGangs,
        names: Sequence[str],
    ) -> GangPlacement:
        """Put labels on what was found."""
        gangs = {
            job: places[chosen]
            for (job, places), chosen in zip(candidates.items(), found.candidates, strict=True)
        }
        shifts = {
            job: turn * slot_s
            for job, turn, slot_s in zip(gangs, found.rotations, slotted.slot_s, strict=True)
        }
        periods = dict(zip(gangs, slotted.periods_s, strict=True))
        scores, slowdowns = slowdowns_of(self._topology, gangs, self.profiles, shifts, periods)
        message = ""
        if not found.proved:
            message = f"Best known; no choice has less than {found.bound:.6g}."
        if not slotted.whole:
            message += (
                f" Not all jobs have a common circle within pace={self.pace:g}: on slots they are "
                f"looked at for {slotted.span} slots."
            )
        speed = {job: 1 / (self.profiles[job].period_s * slowdowns[job]) for job in gangs}
        return gang_placement(
            found,
            names,
            message.strip(),
            throughput=pd.Series(speed, dtype=float),
            gangs=pd.Series(gangs, dtype=object),
            shifts_s=pd.Series(shifts, dtype=float),
            periods_s=pd.Series(periods, dtype=float),
            slowdowns=pd.Series(slowdowns, dtype=float),
            scores=pd.Series(scores, dtype=float),
        )


def _rotated(part: PlacedJobs, choice: Sequence[int]) -> list[int]:
    """Return good rotations of jobs that lie where they are, found by those that meet."""
    chosen = list(zip(part.links, part.gpus, choice, strict=True))
    fixed = replace(
        part,
        links=[[links[at]] for links, _, at in chosen],
        gpus=[[gpus[at]] for _, gpus, at in chosen],
    )
    rotations = [0] * len(choice)
    for members, meeting in fixed.parts():
        search = PlacedSearch(meeting, [0] * len(members), [0] * len(members))
        search.search(max(2, min(MOST_KICKS, KICKS // len(members))))
        for job, rotation in zip(members, search.rotations, strict=True):
            rotations[job] = rotation
    return rotations


def _of_part(part: PlacedJobs, **how: Any) -> tuple[PlacedSearch, float, Solution | None]:
    """Search, then prove or better it by the program; return a bound, and what was solved.

    Raises
    ------
    InfeasibleError
        If no candidates fit together.
    """
    first = first_fit(part)
    if first is None:
        raise InfeasibleError(
            "No candidates of the gangs fit together: each GPU is for one gang. Give some of them "
            "more places."
        )
    search = PlacedSearch(part, first, [0] * len(first))
    kicks, least = max(2, min(MOST_KICKS, KICKS // len(first))), float(part.weight.sum())
    search.search(kicks)
    best = search.objective, search.candidates, search.rotations
    for choice in other_fits(part) if search.stuck else ():
        if best[0] <= least + EQUAL:
            break
        search.place(choice, _rotated(part, choice))
        search.search(2)
        if search.objective < best[0] - EQUAL:
            best = search.objective, search.candidates, search.rotations
    search.place(*best[1:])
    if search.objective <= least * (1 + 1e-12) or demands_of(part) > LARGEST:
        return search, least, None
    start = search.candidates, search.rotations
    problem = placed_problem(part, start)
    try:
        found = solve_instance(problem.policy, problem.instance, group=False, **how)
    except SolveError:  # the seconds did not suffice for more than what is known
        return search, least, None
    before = search.objective
    candidates, rotations = problem.choice(found.X)
    search.place(candidates.tolist(), rotations.tolist())
    if search.objective > before:
        search.place(*start)
    bound = found.objective - found.gap * abs(found.objective)
    return search, max(least, bound), found
