"""The program `placement_and_rotation`, as placements ask it whenever gangs get GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import SolveError
from apportion.policies import solve_instance
from apportion.policies.whole.placed_problem import PlacedJobs, demands_of, placed_problem
from apportion.sim.shifts.meeting import connected, slotted_jobs
from apportion.sim.shifts.placed_search import PlacedSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.scheduler import Placement
    from apportion.mechanism.time_shifts import CommunicationProfile, LinkScores

    Trained = tuple[str, int]
    Links = Callable[[Placement], Mapping[Any, float]]

SLOTS, KICKS = 12, 8

MOST_PROVED = 4
"""Jobs up to which what the search finds is also proved, or made better, by branch and bound."""

LARGEST = 4_000
"""Demands of options in slots up to which it is."""

TIME_LIMIT_S = 60.0
"""Of the proof: far more than it takes, so that results do not hang on the machine."""

EQUAL = 1e-9
"""Sums of slowdowns that differ by less are one: additions in another order do."""

WORTH = 0.01
"""Of an iteration: what a gang that comes elsewhere than the host puts it must gain in all."""


class PlacementProgram:
    """Chooses where gangs lie so that the sum of all slowdowns is least.

    Parameters
    ----------
    profile
        The communication profile of a model that is trained on so many GPUs.
    scores
        What the network makes of a placement: by it the choice is held against the host's.
    pace
        Part by which iterations may be stretched so that jobs have a common circle.
    """

    def __init__(
        self, profile: Callable[[str, int], CommunicationProfile], scores: LinkScores, pace: float
    ) -> None:
        self._profile, self._scores, self._pace = profile, scores, pace

    def placed(
        self,
        candidates: Sequence[Mapping[int, Placement]],
        others: Mapping[int, Placement],
        trained: Mapping[int, Trained],
        free: Mapping[tuple[int, int], int],
        links_of: Links,
        *,
        keeps_room: bool = False,
    ) -> dict[int, Placement]:
        """Return where each gang is to be.

        Parameters
        ----------
        candidates
            Where gangs may be, by job; the host's own choice first. Each gang may be where any of
            them has it.
        others
            Where the gangs are that stay, by job.
        trained
            Model and GPUs of each job.
        free
            GPUs of each machine, (rack, machine), that nobody else has.
        links_of
            Links that a placement uses, with their Gb/s.
        keeps_room
            Whether machines and racks must have room for as many gangs of each size that there is
            as beside the host's own choice: others may wait for it.
        """
        host = dict(candidates[0])
        silent = {
            job for job in (*host, *others) if not self._profile(*trained[job]).phases
        }  # who sends nothing slows nobody and waits for nobody
        options = {job: list(dict.fromkeys(each[job] for each in candidates)) for job in host}
        used = {
            job: [{} if job in silent else links_of(where) for where in places]
            for job, places in {**options, **{job: [at] for job, at in others.items()}}.items()
        }
        jobs = _meeting(used, host)
        if not jobs or all(len(options[job]) == 1 for job in host):
            return host
        every = [links for each in used.values() for links in each]
        gbps = {link: float(many) for links in every for link, many in links.items()}

        def lost(where: Mapping[int, Placement]) -> float:
            moved = sum(where[job] != host[job] for job in host)
            senders = {job: at for job, at in {**others, **where}.items() if job not in silent}
            return WORTH * moved + self._lost(senders, trained, gbps, links_of)

        before = lost(host)
        if before <= EQUAL:
            return host
        left = _less(free, [host[job] for job in host.keys() - set(jobs)])  # who is on no link
        found = self._solved(jobs, {job: used[job] for job in jobs}, options, trained, left, gbps)
        chosen = {job: options[job][found[job]] if job in found else host[job] for job in host}
        allowed = _allowed(host, free, trained, keeps_room)
        others_to_try = [each for each in (chosen, *candidates[1:]) if allowed(each)]
        starts = [(before, host), *((lost(each), each) for each in others_to_try)]
        start = min(starts, key=lambda each: each[0])
        return self._descended(start, options, allowed, lost)

    def _descended(
        self,
        start: tuple[float, Mapping[int, Placement]],
        options: Mapping[int, Sequence[Placement]],
        allowed: Callable[[Mapping[int, Placement]], bool],
        lost: Callable[[Mapping[int, Placement]], float],
    ) -> dict[int, Placement]:
        """Move one gang after the other where that gains by the law itself, and not on slots."""
        least, where = start[0], dict(start[1])
        gained = True
        while gained:
            gained = False
            for job, places in options.items():
                for place in places:
                    moved = {**where, job: place}
                    if (
                        place != where[job]
                        and allowed(moved)
                        and (now := lost(moved)) < least - EQUAL
                    ):
                        least, where, gained = now, moved, True
        return where

    def _solved(
        self,
        jobs: Sequence[int],
        used: Mapping[int, Sequence[Mapping[Any, float]]],
        options: Mapping[int, Sequence[Placement]],
        trained: Mapping[int, Trained],
        free: Mapping[tuple[int, int], int],
        gbps: Mapping[Any, float],
    ) -> dict[int, int]:
        """Return the candidate of each gang that may move."""
        profiles = [self._profile(*trained[job]) for job in jobs]
        slotted = slotted_jobs(profiles, SLOTS, self._pace)
        names = list(gbps)
        number = {link: place for place, link in enumerate(names)}
        machines = {machine: place for place, machine in enumerate(free)}
        placed = PlacedJobs(
            demand=slotted.demand,
            links=[[[number[link] for link in links] for links in used[job]] for job in jobs],
            gpus=[
                [
                    [(machines[rack, machine], gpus) for rack, machine, gpus in where]
                    for where in options.get(job, [()])
                ]
                for job in jobs
            ],
            capacity=np.array([gbps[link] for link in names]),
            free=np.array([float(count) for count in free.values()]),
            weight=np.ones(len(jobs)),
            span=slotted.span,
        )
        none = [0] * len(jobs)
        search = PlacedSearch(placed, none, none)
        search.search(KICKS)
        candidates = search.candidates
        small = len(jobs) <= MOST_PROVED and demands_of(placed) <= LARGEST
        if small and search.objective > len(jobs) * (1 + 1e-9):
            problem = placed_problem(placed, (search.candidates, search.rotations))
            try:
                solution = solve_instance(
                    problem.policy, problem.instance, group=False, time_limit_s=TIME_LIMIT_S
                )
                candidates = problem.choice(solution.X)[0].tolist()
            except SolveError:
                pass
        chosen = dict(zip(jobs, candidates, strict=True))
        return {job: each for job, each in chosen.items() if job in options}

    def _lost(
        self,
        places: Mapping[int, Placement],
        trained: Mapping[int, Trained],
        gbps: Mapping[Any, float],
        links_of: Links,
    ) -> float:
        """Sum of what all jobs lose by their worst links, as the network tells it."""
        jobs_of: dict[Any, list[int]] = {}
        for job, where in places.items():
            for link in links_of(where):
                jobs_of.setdefault(link, []).append(job)
        worst = dict.fromkeys(places, 1.0)
        for link, score in self._scores.of_links(jobs_of, trained, gbps).items():
            worst |= {job: min(worst[job], score) for job in jobs_of[link]}
        return sum(1 - score for score in worst.values())


def _meeting(
    used: Mapping[int, Sequence[Mapping[Any, float]]], host: Mapping[int, Placement]
) -> list[int]:
    """Return the jobs that gangs of the host may share links with, themselves included."""
    users: dict[Any, list[int]] = {}
    for job, each in used.items():
        for link in dict.fromkeys(link for links in each for link in links):
            users.setdefault(link, []).append(job)
    near = [jobs for jobs, _ in connected(users) if not host.keys().isdisjoint(jobs)]
    return [job for part in near for job in part]


def _allowed(
    host: Mapping[int, Placement],
    free: Mapping[tuple[int, int], int],
    trained: Mapping[int, Trained],
    keeps_room: bool,
) -> Callable[[Mapping[int, Placement]], bool]:
    """Return what tells whether gangs may be somewhere, see `PlacementProgram.placed`."""
    sizes = sorted({gpus for _, gpus in trained.values()})
    room = _room(host, free, sizes) if keeps_room else None

    def allowed(where: Mapping[int, Placement]) -> bool:
        if not _fit(where, free):
            return False
        return room is None or bool((_room(where, free, sizes) >= room).all())

    return allowed


def _less(
    free: Mapping[tuple[int, int], int], places: Iterable[Placement]
) -> dict[tuple[int, int], int]:
    """Return what is free of each machine beside gangs at some places."""
    left = dict(free)
    for place in places:
        for rack, machine, gpus in place:
            left[rack, machine] -= gpus
    return left


def _room(
    where: Mapping[int, Placement], free: Mapping[tuple[int, int], int], sizes: Sequence[int]
) -> NDArray[np.int64]:
    """Count the gangs of each size that machines, and that racks, have room for beside others."""
    left = _less(free, where.values())
    left_in = dict[int, int]()
    for (rack, _), gpus in left.items():
        left_in[rack] = left_in.get(rack, 0) + gpus
    return np.array(
        [sum(now // size for now in each.values()) for each in (left, left_in) for size in sizes]
    )


def _fit(where: Mapping[int, Placement], free: Mapping[tuple[int, int], int]) -> bool:
    """Whether machines have what gangs take of them."""
    taken: dict[tuple[int, int], int] = {}
    for place in where.values():
        for rack, machine, gpus in place:
            taken[rack, machine] = taken.get((rack, machine), 0) + gpus
    return all(gpus <= free[machine] for machine, gpus in taken.items())
