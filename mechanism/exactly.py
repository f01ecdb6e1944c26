"""Exact shares as a scheduler: every share is had all the time, without rounds or devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.scheduler import NOBODY, Decision, Gangs
from apportion.mechanism.shares import Shares
from apportion.resumable import Resumable

if TYPE_CHECKING:
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import Event
    from apportion.mechanism.shares import Sharing
    from apportion.mechanisms.past import Past
    from apportion.types import Ints


class Exactly(Resumable):
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

    kept = ("_active", "_sharing", "_shares")

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
