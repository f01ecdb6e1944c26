"""Shares of time, whoever finds them, and exact shares as a scheduler: had all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from apportion.mechanism.scheduler import NOBODY, Decision, Gangs
from apportion.ties import EXACT

if TYPE_CHECKING:
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import Event, GangProgress
    from apportion.mechanisms.past import Past
    from apportion.types import Bools, Floats, Ints


NO_PAIRS = np.empty((0, 2), dtype=np.intp)


class Shares(NamedTuple):
    """Shares of time of the active jobs, alone and in pairs.

    Attributes
    ----------
    alone
        Shape (active jobs, types).
    pairs
        Places of two active jobs each, shape (pairs, 2).
    together
        Shape (pairs, types).
    """

    alone: Floats
    pairs: Ints
    together: Floats

    @classmethod
    def none(cls, types: int) -> Shares:
        """No jobs."""
        return cls(np.zeros((0, types)), NO_PAIRS, np.zeros((0, types)))

    def arrive(self, jobs: int) -> Shares:
        """Append jobs without a share."""
        blank = np.zeros((jobs, self.alone.shape[1]))
        return Shares(np.vstack([self.alone, blank]), self.pairs, self.together)

    def keep(self, stay: Bools) -> Shares:
        """Drop jobs, and the pairs that they were in."""
        place = np.cumsum(stay) - 1
        whole = stay[self.pairs].all(axis=1)
        return Shares(self.alone[stay], place[self.pairs[whole]], self.together[whole])


class Resources(NamedTuple):
    """What jobs hold beside their GPUs while they run, and how much of it there is.

    A decision that ends by `until_s` keeps what is held within the capacities.

    Attributes
    ----------
    jobs
        Jobs, ascending, shape (jobs,).
    pairs
        Pairs of jobs that share devices, by their numbers, shape (pairs, 2).
    usage
        Units that a job, then a pair, holds on each type, shape (jobs + pairs, types, resources).
    capacity
        Units that there are of each resource, shape (resources,).
    until_s
        Until when all this is so if nobody comes or goes, seconds.
    """

    jobs: Ints
    pairs: Ints
    usage: Floats
    capacity: Floats
    until_s: float

    def left(self, held: Floats | None = None) -> Floats:
        """Return what is left of each, and a hair, beside what some hold, (holders, resources)."""
        room = self.capacity * (1 + EXACT)
        return room if held is None else room - held.sum(axis=0)


class Sharing(Protocol):
    """Finds the shares of the active jobs; policies are behind it, and what they believe.

    Attributes
    ----------
    changed
        Whether the jobs, or what is believed of them, are not those of the last shares.
    due_s
        From when on shares are to be found anew, seconds.
    """

    changed: bool

    @property
    def bounds(self) -> bool:
        """Whether the policy's own constraints say what gangs may hold at once (`resources`)."""
        ...

    @property
    def due_s(self) -> float:
        """From when on shares are to be found anew, seconds; infinite if they stand for good."""
        ...

    def solve(self, now_s: float) -> Shares:
        """Return shares of the jobs that are active now."""
        ...

    def resources(self, now_s: float, for_s: float, pairs: Ints = NO_PAIRS) -> Resources:
        """Return what the policy's own constraints let gangs hold at once.

        Parameters
        ----------
        now_s, for_s
            When a decision begins, and how long it may last, seconds.
        pairs
            Jobs that may share devices, two by two, shape (pairs, 2).
        """
        ...

    def speed(self, jobs: Ints) -> Floats:
        """Return how fast jobs are believed to be, by which the mechanism fills idle GPUs.

        Steps/s or any measure of it, 0 where they cannot run, shape (jobs, types).
        """
        ...

    def take_over(self, past: Past) -> None:
        """Begin in the middle: shares are to be found at once."""
        ...

    def observe(self, ran: GangProgress) -> Ints:
        """Learn from what ran; return the jobs whose believed speeds moved."""
        ...


class Exactly:
    """Gives each job its shares of time, all types at once; the bound of any mechanism.

    What a policy would achieve if time were divisible at will. Nobody has devices: a gang here is
    a job, or a pair of jobs, on a type for a share of the time. Implements
    `apportion.mechanism.scheduler.Scheduler`.

    Parameters
    ----------
    jobs
        What it is told of the jobs.
    sharing
        Finds the shares.
    name
        What messages call it.
    """

    event_driven = True

    def __init__(self, jobs: JobTable, sharing: Sharing, name: str) -> None:
        self.name = name
        self._jobs, self._sharing = jobs, sharing
        self._shares = Shares.none(jobs.capacity.size)
        self._active: Ints = jobs.active

    def take_over(self, past: Past) -> Ints:
        """Begin in the middle: nobody has devices, and shares are found at once."""
        self._active = self._jobs.active
        self._shares = self._shares.arrive(self._active.size)
        self._sharing.take_over(past)
        return NOBODY

    def decide(self, event: Event) -> Decision:
        """Return the shares of the jobs that are here, found anew if that is due."""
        sharing, done = self._sharing, event.ran is not None and bool(event.ran.done.size)
        if event.ran is not None:
            if done:
                self._shares = self._shares.keep(~np.isin(self._active, event.ran.done))
            moved = sharing.observe(event.ran)
            sharing.changed |= done or bool(moved.size)
        self._shares = self._shares.arrive(event.arrived.size)
        self._active = self._jobs.active
        sharing.changed |= bool(event.arrived.size)
        resolved = event.now_s >= sharing.due_s
        if resolved:
            self._shares = sharing.solve(event.now_s)
        gangs = _lines(self._active, self._shares, self._jobs.scale)
        return Decision(gangs, np.ones(gangs.job.size, dtype=bool), resolved=resolved)

    def valid_for_s(self, now_s: float) -> float:
        """Return the time to the next solve."""
        return self._sharing.due_s - now_s

    def unchanged_until_s(self, now_s: float) -> float:
        """Return now: there is no time of its own at which it would repeat itself."""
        return now_s


def _lines(active: Ints, shares: Shares, scale: Ints) -> Gangs:
    """Return a line for each job and type with a share, and two for each pair and type."""
    row, option = np.nonzero(shares.alone)
    share = shares.alone[row, option]
    job = active[row]
    alone = np.arange(job.size)
    if not len(shares.pairs):
        return Gangs(job, alone, option, scale[job], share=share)
    pair, where = np.nonzero(shares.together)
    first, second = active[shares.pairs[pair]].T
    gpus, count = np.maximum(scale[first], scale[second]), first.size
    lead, other = alone.size + np.arange(count), alone.size + count + np.arange(count)
    return Gangs(
        np.concatenate([job, first, second]),
        np.concatenate([alone, lead, lead]),
        np.concatenate([option, where, where]),
        np.concatenate([scale[job], gpus, gpus]),
        mate=np.concatenate([alone, other, lead]),
        share=np.concatenate([share, *[shares.together[pair, where]] * 2]),
    )
