"""Which jobs the rows of the core hold (every active job, pairs that have a share), its rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.mechanism.scheduler import Gangs
from apportion.mechanism.shares import NO_PAIRS
from apportion.mechanisms.past import told_otherwise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.core import RoundCore
    from apportion.mechanism.shares import Resources, Shares
    from apportion.mechanisms.past import Past
    from apportion.types import Bools, Floats, Ints


_NOBODY = -1
_MOST_JOBS = 2**31


class CoreRows:
    """Keeps the rows of a `RoundCore` in step with the jobs of a simulation.

    Rows of single jobs come in the order of submission; rows of pairs lie between them. A pair
    that still runs but has no share any more stays until its devices are handed on.

    Attributes
    ----------
    second
        Second job of each row, by its number in the job table; -1 for a single job.
    """

    def __init__(self, core: RoundCore) -> None:
        self.core = core
        self.second = np.empty(0, dtype=np.intp)

    @property
    def first(self) -> Ints:
        """First job of each row, by its number in the job table."""
        return self.core.number

    def arrive(self, jobs: Ints, speed: Floats, scale: Ints) -> None:
        """Append a row for each new job."""
        self.core.append(speed, scale, jobs)
        self.second = np.concatenate((self.second, np.zeros(jobs.size, dtype=np.intp) + _NOBODY))
        self._describe()

    def take_over(self, past: Past, held_s: Floats, models: Sequence[str]) -> None:
        """Begin in the middle: who runs, for how long each has run, and what is owed.

        `held_s` are the seconds that jobs had devices by type, and `models` what all of them train.

        Raises
        ------
        InputError
            If what is owed is told by other options than shares are of.
        """
        core = self.core
        row_of = {job: row for row, job in enumerate(self.first.tolist())}
        core.served += held_s[self.first].sum(axis=1)
        owed = past.owed_s[self.first]
        if not owed.any():
            owed = np.zeros_like(core.received)
        if owed.shape != core.received.shape:
            raise told_otherwise("owed", core.kind.size > core.capacity.size)
        core.received -= owed  # what the first shares begin with
        for job, (kind, devices) in past.held.items():
            row = row_of[job]
            gang, columns = int(core.ids[row]), core.kind.size // core.capacity.size
            core.placer.devices.hold(gang, kind, devices)
            core.placer.remember(gang, models[job])
            tier = core.placer.devices.tier(gang) if columns > 1 else 0
            core.last_type[row] = kind * columns + tier

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
        self.core.append(blank, scale[pairs[new]].max(axis=1, initial=0), pairs[new, 0])
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

    @property
    def pairs(self) -> Ints:
        """Jobs of the pairs that have a share, by their numbers, shape (pairs, 2)."""
        if not self._has_pairs:
            return NO_PAIRS
        shared = (self.second != _NOBODY) & (self.core.target > 0).any(axis=1)
        return np.column_stack([self.first[shared], self.second[shared]])

    def hold(self, resources: Resources) -> None:
        """Say what rows hold beside GPUs, and how much there is, in the next round.

        Pairs of which nothing is said have no share, and do not run.
        """
        usage = np.full((self.first.size, *resources.usage.shape[1:]), np.inf)
        places = self._keys(self.first, self.second)
        pairs = resources.pairs
        told = self._keys(
            np.append(resources.jobs, pairs[:, 0]),
            np.append(np.full(resources.jobs.size, _NOBODY), pairs[:, 1]),
        )
        order = np.argsort(places)
        usage[order[np.searchsorted(places, told, sorter=order)]] = resources.usage
        self.core.resources = usage, resources.left()

    def complete(self, done: Ints) -> None:
        """Drop completed jobs and pairs; a pair of which one job goes on is wound up."""
        if not self._has_pairs:
            gone = np.zeros(self.first.size, dtype=bool)
            gone[self.first.searchsorted(done)] = True  # the order of submission is sorted
            self._keep(~gone)
            return
        gone = np.column_stack([np.isin(self.first, done), np.isin(self.second, done)])
        broken = gone.any(axis=1)
        self.core.target[broken] = self.core.speed[broken] = 0.0
        survivor = (self.second != _NOBODY) & ~gone.all(axis=1) & (self.core.last_type >= 0)
        self._keep(~broken | survivor)
        self._describe()

    def tell(self, jobs: Ints, speed: Floats) -> None:
        """Correct how fast active jobs are believed to be, shape (jobs, types)."""
        rows = (self.second == _NOBODY).nonzero()[0]
        self.core.correct(rows[np.searchsorted(self.first[rows], jobs)], speed)

    def lines(self, chosen: GangRound) -> tuple[Gangs, Bools]:
        """Return the gangs of a round, a line for each of their jobs, and which of them start."""
        rows, core = chosen.rows, self.core
        names, first = core.ids[rows], core.number[rows]
        held = core.placer.held_by(names)
        gangs = Gangs(first, names, chosen.types, core.scale[rows], devices=held)
        second = self.second[rows]
        paired = (second != _NOBODY).nonzero()[0]
        if not paired.size:
            return gangs, chosen.starts[:, 0]
        mate = np.arange(rows.size + paired.size)
        mate[paired], mate[rows.size :] = mate[rows.size :], paired
        gang, option, gpus = (np.append(each, each[paired]) for each in gangs[1:4])
        held = [*held, *map(held.__getitem__, paired.tolist())]
        jobs = np.append(first, second[paired])
        both = Gangs(jobs, gang, option, gpus, mate, devices=held)
        return both, np.append(chosen.starts[:, 0], chosen.starts[paired, 1])

    def stopped(self, chosen: GangRound) -> Ints:
        """Return the jobs that ran in the round before and have lost their devices."""
        return self.first[chosen.stopped] if chosen.stopped.size else chosen.stopped

    @property
    def _has_pairs(self) -> bool:
        return bool((self.second != _NOBODY).nonzero()[0].size)

    def _keep(self, mask: Bools) -> None:
        self.core.keep(mask)
        self.second = self.second[mask]

    def _keys(self, first: Ints, second: Ints) -> Ints:
        """One number for each row."""
        return first * _MOST_JOBS + second

    def _describe(self) -> None:
        """Tell the core which rows have jobs in common."""
        single = (self.second == _NOBODY).nonzero()[0]
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


class GangRound(NamedTuple):
    """The gangs of one round.

    rows, types
        Row and accelerator type of each gang, shape (gangs,).
    starts
        Whether each job of a gang starts: it did not run on these devices in the round before, be
        they new to the gang or to this job of it; shape (gangs, members).
    stopped
        Jobs, by slot, that ran in the round before and lost their devices: they wait or have moved.
    declined
        Whether the placement had no devices for some gang that was to run.
    columns
        Columns of the core at which the time of each gang counts; its types unless there are tiers.
    """

    rows: Ints
    types: Ints
    starts: Bools
    stopped: Ints
    declined: bool = False
    columns: Ints | None = None
