"""Placements and rotations by local search: where the program begins, and what is left of time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apportion.policies.whole.placed_problem import PlacedJobs
    from apportion.types import Floats


EQUAL = 1e-9
"""Sums of slowdowns that differ by less are one: additions in another order do."""

MOST_TRIED = 100_000
"""Candidates that are tried to find any that fit together."""


class PlacedSearch:
    """Where each job lies and when it begins, and what that costs.

    Iterated local search: jobs are moved one after the other to the candidate and the rotation
    with which the weighted sum of all slowdowns is least; then two are moved at random.

    Parameters
    ----------
    jobs
        Who, where, and over which links.
    candidates, rotations
        Of each job to begin with; the candidates must fit together.
    """

    def __init__(
        self, jobs: PlacedJobs, candidates: Sequence[int], rotations: Sequence[int]
    ) -> None:
        self._jobs = jobs
        self._turned = [jobs.turned(job) for job in range(len(jobs.demand))]
        self.place(candidates, rotations)

    def place(self, candidates: Sequence[int], rotations: Sequence[int]) -> None:
        """Put all jobs where they are to be."""
        jobs = self._jobs
        self.candidates, self.rotations = list(candidates), list(rotations)
        self._held = np.zeros((jobs.capacity.size, jobs.span))
        self._users: list[set[int]] = [set() for _ in range(jobs.capacity.size)]
        self._free = jobs.free.copy()
        for job in range(len(jobs.demand)):
            self._put(job)
        self._over = self._over_of(self._held, jobs.capacity[:, None])
        self._longer = np.zeros(len(jobs.demand))
        self._feel(range(len(jobs.demand)))

    @property
    def longer(self) -> Floats:
        """How much longer the iterations of each job take: its worst link, shape (jobs,)."""
        return self._longer

    @property
    def objective(self) -> float:
        """Weighted sum of the slowdowns."""
        return float(self._jobs.weight @ (1 + self._longer))

    @property
    def stuck(self) -> bool:
        """Whether no job has another candidate that fits beside what the others have."""
        for job, chosen in enumerate(self.candidates):
            free = self._free.copy()
            for machine, gpus in self._jobs.gpus[job][chosen]:
                free[machine] += gpus
            for candidate, own in enumerate(self._jobs.gpus[job]):
                if candidate != chosen and all(free[each] >= gpus for each, gpus in own):
                    return False
        return True

    def descend(self) -> None:
        """Move one job after the other to where the sum is least, until none gains."""
        while True:
            before = self.objective
            for job in range(len(self._turned)):
                self._improve(job)
            if self.objective >= before - EQUAL:
                return

    def search(self, kicks: int, seed: int = 0) -> None:
        """Descend, move two jobs at random, descend again, so many times; keep the best."""
        rng = np.random.default_rng(seed)
        least = float(self._jobs.weight.sum())
        self.descend()
        best = self.objective, list(self.candidates), list(self.rotations)
        for _ in range(kicks):
            if best[0] <= least + EQUAL:
                break
            self._kick(rng)
            self.descend()
            now = self.objective
            if now < best[0] - EQUAL:
                best = now, list(self.candidates), list(self.rotations)
            elif now > best[0] + 0.02 * (best[0] - least):
                self.place(*best[1:])
        self.place(*best[1:])

    def _kick(self, rng: np.random.Generator) -> None:
        """Move two jobs to candidates that fit and rotations that are drawn."""
        candidates, rotations = list(self.candidates), list(self.rotations)
        free = self._free.copy()
        for job in rng.permutation(len(self._turned))[:2].tolist():
            rotations[job] = int(rng.integers(self._jobs.demand[job].size))
            drawn = int(rng.integers(len(self._jobs.links[job])))
            own = self._jobs.gpus[job]
            for sign, candidate in ((1, candidates[job]), (-1, drawn)):
                for machine, gpus in own[candidate]:
                    free[machine] += sign * gpus
            if (free >= 0).all():
                candidates[job] = drawn
            else:
                for sign, candidate in ((-1, candidates[job]), (1, drawn)):
                    for machine, gpus in own[candidate]:
                        free[machine] += sign * gpus
        self.place(candidates, rotations)

    def _used(self, job: int) -> Sequence[int]:
        return self._jobs.links[job][self.candidates[job]]

    def _put(self, job: int, sign: float = 1.0) -> None:
        """Add a job to what links and machines hold, or take it away."""
        for link in self._used(job):
            self._held[link] += sign * self._turned[job][self.rotations[job]]
            (self._users[link].add if sign > 0 else self._users[link].discard)(job)
        for machine, gpus in self._jobs.gpus[job][self.candidates[job]]:
            self._free[machine] -= sign * gpus

    def _feel(self, jobs: Iterable[int]) -> None:
        """Work out anew how much longer the iterations of some jobs take."""
        for job in jobs:
            self._longer[job] = max((self._over[link] for link in self._used(job)), default=0.0)

    def _over_of(self, held: Floats, capacity: Floats) -> Floats:
        """Mean part by which demands exceed capacities, over the last axis."""
        over: Floats = (np.maximum(held - capacity, 0.0) / capacity).mean(axis=-1)
        return np.where(over < 1e-12, 0.0, over)

    def _settle(self, job: int, links: Iterable[int]) -> None:
        """Bring links and those who feel them up to date."""
        links = list(links)
        for link in links:
            self._over[link] = self._over_of(self._held[link], self._jobs.capacity[link])
        self._feel({job}.union(*(self._users[link] for link in links)))

    def _improve(self, job: int) -> None:
        """Move one job to its best option; it stays where that is as good."""
        jobs, before = self._jobs, (self.candidates[job], self.rotations[job])
        old = list(self._used(job))
        self._put(job, -1.0)
        self._settle(job, old)
        best, value = before, np.inf
        for candidate in sorted(range(len(jobs.links[job])), key=lambda each: each != before[0]):
            if any(self._free[machine] < gpus for machine, gpus in jobs.gpus[job][candidate]):
                continue
            total = self._added(job, candidate)
            if candidate == before[0]:
                value = total[before[1]]
            turn = int(total.argmin())
            if total[turn] < value - EQUAL:
                best, value = (candidate, turn), total[turn]
        self.candidates[job], self.rotations[job] = best
        self._put(job)
        self._settle(job, self._used(job))

    def _added(self, job: int, candidate: int) -> Floats:
        """Weighted delays that a job adds by a candidate, for each rotation, (rotations,)."""
        jobs = self._jobs
        used = list(jobs.links[job][candidate])
        held = self._held[used][:, None, :] + self._turned[job][None, :, :]
        met = self._over_of(held, jobs.capacity[used][:, None, None])  # (links, rotations)
        total: Floats = jobs.weight[job] * met.max(axis=0, initial=0.0)
        place = {link: number for number, link in enumerate(used)}
        for other in sorted(set().union(*(self._users[link] for link in used))):
            shared = [place[link] for link in self._used(other) if link in place]
            worst = np.maximum(self._longer[other], met[shared].max(axis=0))
            total = total + jobs.weight[other] * (worst - self._longer[other])
        return total


def other_fits(jobs: PlacedJobs) -> list[list[int]]:
    """Return choices that fit, one for each candidate of the job that has the most.

    On a full cluster no job can move by itself, so a search finds no way from one to another.
    """
    job = max(range(len(jobs.links)), key=lambda each: len(jobs.links[each]))
    found = []
    for number in range(len(jobs.links[job])):
        links, gpus = list(jobs.links), list(jobs.gpus)
        links[job], gpus[job] = [links[job][number]], [gpus[job][number]]
        choice = first_fit(replace(jobs, links=links, gpus=gpus))
        if choice is not None:
            choice[job] = number
            found.append(choice)
    return found


def first_fit(jobs: PlacedJobs) -> list[int] | None:
    """Return the first candidates that fit together; None if none are found."""
    tried, free = 0, jobs.free.copy()
    chosen: list[int] = []
    first = 0
    while len(chosen) < len(jobs.links):
        job = len(chosen)
        for candidate in range(first, len(jobs.links[job])):
            tried += 1
            if all(free[machine] >= gpus for machine, gpus in jobs.gpus[job][candidate]):
                for machine, gpus in jobs.gpus[job][candidate]:
                    free[machine] -= gpus
                chosen.append(candidate)
                first = 0
                break
        else:
            if not chosen or tried > MOST_TRIED:
                return None
            last = chosen.pop()
            for machine, gpus in jobs.gpus[job - 1][last]:
                free[machine] += gpus
            first = last + 1
    return chosen
