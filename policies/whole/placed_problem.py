"""From candidate placements and demands over time to the choice of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from apportion.policies.instance import Instance
from apportion.policies.whole.rotations import PlacementAndRotation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class PlacedJobs:
    """Jobs that are to be placed and turned, in arrays.

    Attributes
    ----------
    demand
        Of each job the demand in each slot of its period, Gb/s, shape (slots of the period,).
    links
        Of each job, for each candidate placement, the links that it uses there.
    gpus
        The same of the hard resources that it holds there, and how many of each.
    capacity
        Gb/s of each link, shape (links,).
    free
        Of each hard resource, shape (resources,).
    weight
        Of the slowdown of each job, shape (jobs,).
    span
        Slots over which links are looked at: a multiple of all periods, or as many as will do.
    """

    demand: Sequence[Floats]
    links: Sequence[Sequence[Sequence[int]]]
    gpus: Sequence[Sequence[Sequence[tuple[int, int]]]]
    capacity: Floats
    free: Floats
    weight: Floats
    span: int

    def turned(self, job: int) -> Floats:
        """Demand of a job in every slot of the span for each rotation, (rotations, span), Gb/s."""
        own = self.demand[job]
        slot = np.arange(self.span)[None, :] - np.arange(own.size)[:, None]
        turned: Floats = own[slot % own.size]
        return turned

    def parts(self) -> list[tuple[list[int], PlacedJobs]]:
        """Return the jobs that links or hard resources connect, each part with its problem."""
        links, machines = self.capacity.size, self.free.size
        reach = np.zeros((len(self.demand), links + machines), dtype=bool)
        for job, (places, held) in enumerate(zip(self.links, self.gpus, strict=True)):
            reach[job, [link for used in places for link in used]] = True
            reach[job, [links + number for each in held for number, _ in each]] = True
        beside = sparse.csr_array(reach.astype(float))
        _, part = connected_components(beside @ beside.T, directed=False)
        found = []
        for number in range(part.max(initial=-1) + 1):
            members = np.flatnonzero(part == number)
            touched = np.asarray(reach[members].any(axis=0))
            found.append((members.tolist(), self._part(members, touched)))
        return found

    def _part(self, jobs: Ints, touched: NDArray[np.bool_]) -> PlacedJobs:
        """Return the problem of some jobs, with the links and hard resources that they touch."""
        links, machines = np.split(touched, [self.capacity.size])
        link, machine = (np.cumsum(each) - 1 for each in (links, machines))
        return PlacedJobs(
            demand=[self.demand[job] for job in jobs],
            links=[
                [[int(link[each]) for each in used] for used in self.links[job]] for job in jobs
            ],
            gpus=[
                [[(int(machine[number]), gpus) for number, gpus in each] for each in self.gpus[job]]
                for job in jobs
            ],
            capacity=self.capacity[links],
            free=self.free[machines],
            weight=self.weight[jobs],
            span=self.span,
        )


class PlacedProblem(NamedTuple):
    """A policy and the instance to solve it on: ``solve_instance(*problem)``.

    Option ``candidate * rotations + rotation`` is a candidate placement with a rotation.
    """

    policy: PlacementAndRotation
    instance: Instance
    rotations: int

    def choice(self, X: Floats) -> tuple[Ints, Ints]:
        """Return candidate and rotation of each job."""
        candidate, rotation = np.divmod(X.argmax(axis=1), self.rotations)
        return candidate, rotation


def demands_of(jobs: PlacedJobs) -> int:
    """Count the demands of options in slots, by which the program grows."""
    return sum(
        int(np.count_nonzero(own)) * jobs.span * sum(map(len, links))
        for own, links in zip(jobs.demand, jobs.links, strict=True)
    )


def placed_problem(
    jobs: PlacedJobs, start: tuple[Sequence[int], Sequence[int]] | None = None
) -> PlacedProblem:
    """Pose the choice of placements and rotations.

    Parameters
    ----------
    jobs
        Who, where, and over which links.
    start
        Candidate and rotation of each job to begin from. The first job keeps its rotation: all
        could turn together.
    """
    rotations = max((each.size for each in jobs.demand), default=1)
    candidates = max((len(each) for each in jobs.links), default=1)
    count = len(jobs.demand)
    possible = np.zeros((count, candidates * rotations))
    for job, own in enumerate(jobs.demand):
        turns = range(own.size)
        if job == 0:
            turns = range(1) if start is None else range(start[1][0], start[1][0] + 1)
        for candidate in range(len(jobs.links[job])):
            possible[job, [candidate * rotations + turn for turn in turns]] = 1.0
    current = np.full(count, -1.0)
    if start is not None:
        current = np.array(start[0]) * float(rotations) + np.array(start[1])
    present = sorted({link for job in jobs.links for used in job for link in used})
    slots = [f"link {link} slot {slot}" for link in present for slot in range(jobs.span)]
    hard = [f"machine {number}" for number in range(jobs.free.size)]
    instance = Instance.of_options(
        possible,
        np.zeros(candidates * rotations),
        [1.0],
        columns={"weight": jobs.weight, "current_option": current},
        usage=_usage(jobs, possible, present, rotations),
        resource_capacity=np.concatenate([jobs.free, np.full(len(slots), np.inf)]),
        resource_names=("gpu", *hard, *slots),
    )
    link_of = {name: name.rpartition(" slot ")[0] for name in slots}
    return PlacedProblem(PlacementAndRotation(link_of), instance, rotations)


def _usage(
    jobs: PlacedJobs, possible: Floats, present: Sequence[int], rotations: int
) -> sparse.csr_array:
    """Return what jobs hold under options, of machines and of slots of links."""
    machines, span = jobs.free.size, jobs.span
    total = machines + len(present) * span
    first = {link: machines + place * span for place, link in enumerate(present)}
    rows, columns, values = [], [], []
    for job in range(len(jobs.demand)):
        turned = jobs.turned(job)
        turn, slot = np.nonzero(turned)
        for candidate, used in enumerate(jobs.links[job]):
            options = np.flatnonzero(possible[job, candidate * rotations :][:rotations])
            option = candidate * rotations + options
            for machine, gpus in jobs.gpus[job][candidate]:
                columns.append(option * total + machine)
                values.append(np.full(option.size, float(gpus)))
                rows.append(np.full(option.size, job))
            kept = np.isin(turn, options)
            for link in used:
                columns.append(
                    (candidate * rotations + turn[kept]) * total + first[link] + slot[kept]
                )
                values.append(turned[turn[kept], slot[kept]] / jobs.capacity[link])
                rows.append(np.full(int(kept.sum()), job))
    empty = [np.empty(0)]
    row, column = (np.concatenate(each or empty).astype(np.int64) for each in (rows, columns))
    shape = (len(jobs.demand), possible.shape[1] * total)
    return sparse.csr_array((np.concatenate(values or empty), (row, column)), shape=shape)
