"""Which jobs the rows of the mechanism hold: every active job, and pairs that have a share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.core import GangRound, RoundCore
    from apportion.sim.engine.truth import Truth
    from apportion.sim.sharing import Shares

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["Roster", "Running"]

_NOBODY = -1
_MOST_JOBS = 2**31


class Running(NamedTuple):
    """The jobs that run in a round, arrays of shape (running jobs,).

    job, gang
        Its number in the workload, and which gang of the round it is in; a slice of them all
        where every gang has one job.
    rate
        Steps/s.
    starts
        Whether it did not run on these devices in the round before.
    """

    job: Ints
    gang: Ints | slice
    rate: Floats
    starts: Bools


class Roster:
    """Keeps the rows of a `RoundCore` in step with the jobs of a simulation.

    Rows of single jobs come in the order of submission; rows of pairs lie between them. A pair
    that still runs but has no share any more stays until its devices are handed on.

    Attributes
    ----------
    first, second
        Jobs of each row, by their number in the workload; `second` is -1 for a single job.
    misfits
        Whether, in the last round, two jobs turned out not to fit one GPU.
    """

    def __init__(self, core: RoundCore) -> None:
        self.core = core
        self.first = np.empty(0, dtype=np.intp)
        self.second = np.empty(0, dtype=np.intp)
        self.misfits = False

    def arrive(self, jobs: Ints, speed: Floats, scale: Ints) -> None:
        """Append a row for each new job."""
        self.core.append(speed, scale)
        self.first = np.append(self.first, jobs)
        self.second = np.append(self.second, np.full(jobs.size, _NOBODY))
        self._describe()

    def aim(self, active: Ints, shares: Shares, scale: Ints) -> None:
        """Set the shares of the active jobs and of pairs of them; `scale` is of all jobs."""
        if not (len(shares.pairs) or self._has_pairs):
            self.core.aim(shares.alone.copy())
            return
        pairs = np.sort(active[shares.pairs], axis=1)
        wanted = self._keys(pairs[:, 0], pairs[:, 1])
        running = self.core.last_type >= 0
        there = self._keys(self.first, self.second)
        self._keep((self.second == _NOBODY) | running | np.isin(there, wanted))
        new = ~np.isin(wanted, self._keys(self.first, self.second))
        blank = np.zeros((int(new.sum()), self.core.capacity.size))
        self.core.append(blank, scale[pairs[new]].max(axis=1, initial=0))
        self.first = np.append(self.first, pairs[new, 0])
        self.second = np.append(self.second, pairs[new, 1])
        there = self._keys(self.first, self.second)
        order = np.argsort(there)
        rows = order[np.searchsorted(there, wanted, sorter=order)]
        single = self.second == _NOBODY
        target = np.zeros_like(self.core.target)
        target[single], target[rows] = shares.alone, shares.together
        self.core.speed[~single] = 0.0
        self.core.speed[rows] = (shares.together > 0).astype(float)
        self.core.aim(target)
        self._describe()

    def complete(self, done: Ints) -> None:
        """Drop completed jobs and pairs; a pair of which one job goes on is wound up."""
        if not self._has_pairs:
            stay = np.ones(self.first.size, dtype=bool)
            stay[np.searchsorted(self.first, done)] = False  # the order of submission is sorted
            self._keep(stay)
            return
        gone = np.column_stack([np.isin(self.first, done), np.isin(self.second, done)])
        broken = gone.any(axis=1)
        self.core.target[broken] = self.core.speed[broken] = 0.0
        survivor = (self.second != _NOBODY) & ~gone.all(axis=1) & (self.core.last_type >= 0)
        self._keep(~broken | survivor)
        self._describe()

    def runs(self, gangs: GangRound, ledger: Truth) -> Running:
        """Return who makes progress in a round."""
        first = self.first[gangs.rows]
        self.misfits = False
        rate = ledger.speed[first, gangs.types]
        second = self.second[gangs.rows]
        paired = (second != _NOBODY).nonzero()[0]
        if not paired.size or ledger.beside is None:
            return Running(first, slice(None), rate, gangs.starts[:, 0])
        one, other, types = first[paired], second[paired], gangs.types[paired]
        self.misfits = ledger.beside.measure(one, other, types)
        pick = np.arange(paired.size)
        rate[paired] = ledger.beside.beside(one, other)[pick, types]
        return Running(
            np.append(first, other),
            np.append(np.arange(first.size), paired),
            np.append(rate, ledger.beside.beside(other, one)[pick, types]),
            np.append(gangs.starts[:, 0], gangs.starts[paired, 1]),
        )

    def split(self, gangs: GangRound) -> Bools:
        """Tell which gangs have devices in more than one machine, shape (gangs,)."""
        return self.core.placer.is_split(self.core.ids[gangs.rows])

    def stopped(self, gangs: GangRound) -> Ints:
        """Return the jobs that ran in the round before and have lost their devices."""
        return self.first[gangs.stopped] if gangs.stopped.size else gangs.stopped

    @property
    def _has_pairs(self) -> bool:
        return bool((self.second != _NOBODY).any())

    def _keep(self, mask: Bools) -> None:
        self.core.keep(mask)
        self.first, self.second = self.first[mask], self.second[mask]

    def _keys(self, first: Ints, second: Ints) -> Ints:
        """One number for each row."""
        return first * _MOST_JOBS + second

    def _describe(self) -> None:
        """Tell the core which rows have jobs in common."""
        single = np.flatnonzero(self.second == _NOBODY)
        if single.size == self.second.size:
            return
        jobs = self.first[single]  # in the order of submission, so sorted
        slots = np.empty((self.first.size, 2), dtype=np.intp)
        for column, job in enumerate((self.first, self.second)):
            place = np.minimum(np.searchsorted(jobs, job), jobs.size - 1)
            slots[:, column] = np.where(jobs[place] == job, single[place], -1)
        missing = slots < 0
        slots[missing] = slots[:, ::-1][missing]
        self.core.combine(slots)
