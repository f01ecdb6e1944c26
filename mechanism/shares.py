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
    from apportion.types import Floats, Ints


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
        self.name, self._jobs, self._sharing = name, jobs, sharing
        self._active: Ints = NOBODY
        none = np.zeros((0, jobs.capacity.size))
        self._shares = Shares(none, NO_PAIRS, none)

    def take_over(self, past: Past) -> Ints:
        """Begin in the middle: nobody has devices, and shares are found at once."""
        self._sharing.take_over(past)
        return NOBODY

    def decide(self, event: Event) -> Decision:
        """Return the shares of the jobs that are here, found anew if that is due."""
        sharing, active = self._sharing, self._jobs.active
        if event.ran is not None:
            moved = sharing.observe(event.ran)
            sharing.changed |= bool(event.ran.done.size or moved.size)
        sharing.changed |= bool(event.arrived.size)
        resolved = event.now_s >= sharing.due_s
        if resolved:
            self._shares = sharing.solve(event.now_s)
        elif not np.array_equal(active, self._active):
            self._shares = self._of_those_here(active)
        self._active = active
        gangs = _lines(active, self._shares, self._jobs.scale)
        return Decision(gangs, np.ones(gangs.job.size, dtype=bool), resolved=resolved)

    def valid_for_s(self, now_s: float) -> float:
        """Return the time to the next solve."""
        return self._sharing.due_s - now_s

    def unchanged_until_s(self, now_s: float) -> float:
        """Return now: there is no time of its own at which it would repeat itself."""
        return now_s

    def _of_those_here(self, active: Ints) -> Shares:
        """Keep the shares of who is still here; who is new has none."""
        before, shares = self._active, self._shares
        alone = np.zeros((active.size, shares.alone.shape[1]))
        alone[np.isin(active, before)] = shares.alone[np.isin(before, active)]
        whole = np.isin(before[shares.pairs], active).all(axis=1)
        places = np.searchsorted(active, before[shares.pairs[whole]])
        return Shares(alone, places, shares.together[whole])


def _lines(active: Ints, shares: Shares, scale: Ints) -> Gangs:
    """Return a line for each job and type with a share, and two for each pair and type."""
    row, option = np.nonzero(shares.alone)
    pair, where = np.nonzero(shares.together)
    first, second = active[shares.pairs[pair]].T
    job, gpus = active[row], np.maximum(scale[first], scale[second])
    alone, lead = np.arange(job.size), job.size + np.arange(first.size)
    together = shares.together[pair, where]
    return Gangs(
        np.concatenate([job, first, second]),
        np.concatenate([alone, lead, lead]),
        np.concatenate([option, where, where]),
        np.concatenate([scale[job], gpus, gpus]),
        mate=np.concatenate([alone, lead + first.size, lead]) if len(shares.pairs) else None,
        share=np.concatenate([shares.alone[row, option], together, together]),
    )
