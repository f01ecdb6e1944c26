"""Shares of time, and whoever finds them: what rounds and exact shares carry out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from apportion.resumable import Resumable
from apportion.ties import EXACT

if TYPE_CHECKING:
    from apportion.mechanism.scheduler import GangProgress
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


class Sharing(Resumable, Protocol):
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
