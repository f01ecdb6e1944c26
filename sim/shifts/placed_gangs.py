"""Gangs that may lie in several places, for `solve`: where each lies, and when it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.allocation import Allocation
from apportion.annotations import explained
from apportion.checks import listed, mapping, number, whole
from apportion.errors import InfeasibleError, InputError, SolveError, unknown_name, written
from apportion.mechanism.time_shifts import CommunicationProfile
from apportion.mechanism.time_shifts.pacing import PACE
from apportion.policies import solve_instance
from apportion.policies.whole.placed_problem import PlacedJobs, demands_of, placed_problem
from apportion.policies.whole.placement_and_rotation import PlacementAndRotation
from apportion.sim.network.topology import check_gangs
from apportion.sim.network.topology.named import get_topology
from apportion.sim.shifts.law import slowdowns_of
from apportion.sim.shifts.on_slots import slotted_jobs
from apportion.sim.shifts.placed_search import PlacedSearch, first_fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.policies import Policy, Solution
    from apportion.sim.network.topology import Topology
    from apportion.sim.shifts.on_slots import SlottedJobs

    Gpus = tuple[int, ...]

__all__ = ["GangPlacement", "PlacedGangs"]

LARGEST = 2_000_000
"""Demands of options in slots up to which the program is posed; beyond it is searched only."""

MOST_KICKS, KICKS = 60, 600
"""Times that jobs are moved at random in the search: the second over the number of jobs."""

TIME_LIMIT_S = 60.0
"""For the proofs, unless another is given."""

SHORTEST_S = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class GangPlacement(Allocation):
    """Where gangs lie and when they start: an `Allocation` whose options are (candidate, slots).

    The objective is the weighted sum of the jobs' slowdowns as they are on slots of time; its gap
    is that to the best bound that is known. `throughput` are iterations per second with the
    slowdowns that the law of the score tells, exactly and not on slots.

    Attributes
    ----------
    gangs
        GPUs of each job, by job.
    shifts_s, periods_s
        Seconds by which each job starts later, and the period to which it is paced, by job.
    slowdowns
        Iterations over those alone, by job, pacing counted.
    scores
        Compatibility of each link with several jobs, by link.
    """

    gangs: pd.Series = field(default_factory=lambda: pd.Series(dtype=object))
    shifts_s: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    periods_s: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    slowdowns: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    scores: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))

    @property
    def table(self) -> pd.DataFrame:
        """A row for each job: its GPUs, candidate, shift, pace, and slowdown."""
        return pd.DataFrame(
            {
                "gpus": self.gangs,
                "candidate": [candidate for candidate, _ in self.choice],
                "shift_s": self.shifts_s,
                "period_s": self.periods_s,
                "slowdown": self.slowdowns,
            }
        )

    def __repr__(self) -> str:
        head = (
            f"{self.policy}: {self.status}, objective {self.objective:.6g} {self.unit}, "
            f"gap {self.gap:.1e}"
        )
        told = self.table.to_string(max_rows=20, float_format=lambda value: f"{value:.4g}")
        return "\n".join([head, told, *([self.message] if self.message else [])])

    def _repr_html_(self) -> str:
        return f"<p>{repr(self).splitlines()[0]}</p>{self.table.to_html(max_rows=20)}"


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
        found = _Found([0] * len(candidates), [0] * len(candidates), 0.0, 0.0, [])
        limit_s = how.pop("time_limit_s", None) or TIME_LIMIT_S
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
            job: [topology.links_of(place) for place in places]
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
        found: _Found,
        names: Sequence[str],
    ) -> GangPlacement:
        """Put labels on what was found."""
        jobs = pd.Index(list(candidates), tupleize_cols=False)
        gangs = {
            job: places[chosen]
            for (job, places), chosen in zip(candidates.items(), found.candidates, strict=True)
        }
        shifts = {
            job: turn * slot_s
            for job, turn, slot_s in zip(jobs, found.rotations, slotted.slot_s, strict=True)
        }
        periods = dict(zip(jobs, slotted.periods_s, strict=True))
        scores, slowdowns = slowdowns_of(self._topology, gangs, self.profiles, shifts, periods)
        lacks = max(0.0, found.objective - found.bound)
        gap = lacks / found.objective if found.objective else 0.0
        proved = gap <= 1e-6
        message = ""
        if not proved:
            message = f"Best known; no choice has less than {found.bound:.6g}."
        if not slotted.whole:
            message += (
                f" Not all jobs have a common circle within pace={self.pace:g}: on slots they are "
                f"looked at for {slotted.span} slots."
            )
        options = list(zip(found.candidates, found.rotations, strict=True))
        columns = sorted(set(options)) or [(0, 0)]
        X = np.array([[float(each == option) for option in columns] for each in options])
        return GangPlacement(
            X=pd.DataFrame(
                X.reshape(len(jobs), len(columns)),
                jobs,
                pd.MultiIndex.from_tuples(columns, names=["candidate", "slots"]),
            ),
            throughput=pd.Series(
                {job: 1 / (self.profiles[job].period_s * slowdowns[job]) for job in jobs},
                dtype=float,
            ),
            prices=pd.Series(np.nan, index=list(names), name="price", dtype=float),
            objective=found.objective,
            gap=gap,
            status="optimal" if proved else "time_limit",
            policy=repr(PlacementAndRotation()),
            unit="(sum of slowdowns)",
            integral=True,
            message=message.strip(),
            stats={
                "jobs": len(jobs),
                "links": len(names),
                "proved_by": ", ".join(sorted({each for each, _ in found.proofs})),
                "solve_s": sum(solve_s for _, solve_s in found.proofs),
            },
            gangs=pd.Series(gangs, dtype=object),
            shifts_s=pd.Series(shifts, dtype=float),
            periods_s=pd.Series(periods, dtype=float),
            slowdowns=pd.Series(slowdowns, dtype=float),
            scores=pd.Series(scores, dtype=float),
        )


@dataclass
class _Found:
    """What was found, part by part.

    Attributes
    ----------
    candidates, rotations
        Of each job.
    objective, bound
        Sums over the parts.
    proofs
        What proved each part, and the seconds it took.
    """

    candidates: list[int]
    rotations: list[int]
    objective: float
    bound: float
    proofs: list[tuple[str, float]]

    def take(
        self, members: Sequence[int], search: PlacedSearch, bound: float, solved: Solution | None
    ) -> None:
        """Take down what was found for some jobs."""
        for job, candidate, turn in zip(members, search.candidates, search.rotations, strict=True):
            self.candidates[job], self.rotations[job] = candidate, turn
        self.objective += search.objective
        self.bound += min(bound, search.objective)
        by = "search" if bound >= search.objective * (1 - 1e-12) else "nobody"
        proof = (by, 0.0)
        if solved is not None:
            proof = solved.stats.get("proved_by") or "nobody", solved.stats.get("solve_s", 0.0)
        self.proofs.append(proof)


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
    search.search(max(2, min(MOST_KICKS, KICKS // len(first))))
    least = float(part.weight.sum())
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
