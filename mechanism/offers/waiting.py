"""The jobs that wait for GPUs at one moment, as orders and rules see them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from apportion.cluster import TIERS
from apportion.mechanism.scheduler import NETWORK, RACK
from apportion.mechanisms.settings import TICK_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.offers.leased_jobs import LeasedJobs
    from apportion.mechanism.offers.timer_book import TimerBook
    from apportion.types import Bools, Floats

    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ClusterSize:
    """GPUs of one machine, of the largest rack, and of the largest gang: all of one type.

    And those of each type, by default of one; of its largest machine and rack by default as many.
    """

    gpus_per_machine: int
    gpus_per_rack: int
    gpus: int
    gpus_of_type: tuple[int, ...] = ()
    machine_of_type: tuple[int, ...] = ()
    rack_of_type: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, gpus: Sequence[Ints], gpus_per_machine: int, gpus_per_rack: int | None
    ) -> ClusterSize:
        """Return that of machines by type, each of shape (racks, machines per rack).

        There is one rack of each type if it is not told how many GPUs one has.
        """
        of_type = tuple(int(each.sum()) for each in gpus)
        machines = tuple(int(each.max()) for each in gpus)
        racks = tuple(int(each.sum(axis=1).max()) for each in gpus) if gpus_per_rack else of_type
        of_cluster = gpus_per_machine, gpus_per_rack or max(of_type), max(of_type)
        return cls(*of_cluster, of_type, machines, racks)

    def __post_init__(self) -> None:
        if not self.gpus_of_type:
            object.__setattr__(self, "gpus_of_type", (self.gpus,))

    @cached_property
    def alike(self) -> bool:
        """Whether machines and racks of all types are as large."""
        return len({*self.machine_of_type}) < 2 and len({*self.rack_of_type}) < 2

    @cached_property
    def consolidated_s(self) -> Floats:
        """0 for the tightest tier that holds so many GPUs of one type, infinite for tighter ones.

        By number of GPUs, shape (GPUs + 1, tiers).
        """
        gpus, until_s = np.arange(self.gpus + 1), np.zeros((self.gpus + 1, len(TIERS)))
        until_s[gpus <= self.gpus_per_machine, RACK] = np.inf
        until_s[gpus <= self.gpus_per_rack, NETWORK] = np.inf
        return until_s

    def beyond(self, gpus: Ints, runs: Bools) -> Ints:
        """Tell which gangs no machine holds, 1, and no rack, 2, of the types on which they run.

        Parameters
        ----------
        gpus
            Of each gang, shape (gangs,).
        runs
            On which types each can run, shape (gangs, types).
        """
        machine = np.where(runs, self.machine_of_type, 0).max(axis=1)
        rack = np.where(runs, self.rack_of_type, 0).max(axis=1)
        found: Ints = np.add(gpus > machine, gpus > rack, dtype=np.int64)
        return found


@dataclass(eq=False)  # not frozen: one is made for every question, and that takes a while
class WaitingJobs:
    """Waiting jobs in arrays of shape (waiting,), and what is free; not to be changed.

    Parameters
    ----------
    job
        Numbers of the jobs, ascending.
    records
        Entries of all jobs, those that run included.
    timers
        Delay timers in force.
    size
        GPUs per machine, per rack and in all.
    room
        Most GPUs that one gang can have free at each option, length (options,): a
        `apportion.mechanism.scheduler.Room`, or one for each accelerator type behind each other.
    held_option
        Option at which each job may keep the GPUs that it has, whatever its rule; -1 for none.
        ``None`` if no job may.
    declined
        Accelerator types on which the placement has no place for a job now, shape (waiting,
        types); ``None`` for none.

    Attributes
    ----------
    scale_factor
        GPUs of each gang.
    """

    job: Ints
    records: LeasedJobs
    timers: TimerBook
    size: ClusterSize
    room: Sequence[int]
    held_option: Ints | None = None
    declined: Bools | None = None

    def __post_init__(self) -> None:
        self.scale_factor: Ints = self.records.told.scale[self.job]
        self._fits: Bools | None = None

    def at(self, positions: NDArray[np.intp]) -> WaitingJobs:
        """Return the jobs at some positions."""
        held = None if self.held_option is None else self.held_option[positions]
        declined = None if self.declined is None else self.declined[positions]
        parts = (self.records, self.timers, self.size, self.room)
        return WaitingJobs(self.job[positions], *parts, held, declined)

    @property
    def arrival_s(self) -> Floats:
        """When each job arrived, seconds."""
        return self.records.told.arrival_s[self.job]

    @property
    def facts(self) -> dict[str, Floats]:
        """Further columns of the jobs table, those of one's own included."""
        return {name: values[self.job] for name, values in self.records.told.facts.items()}

    @property
    def released_s(self) -> Floats:
        """When its wait began, seconds."""
        return self.records.released_s[self.job]

    @property
    def ideal_s(self) -> Floats:
        """Compute time from start to completion, seconds."""
        return self.records.ideal_s(self.job)

    @property
    def compute_s(self) -> Floats:
        """Compute time of the steps done, seconds."""
        return self.records.compute_s[self.job]

    @property
    def run_s(self) -> Floats:
        """Seconds that each job has run, communication included."""
        run_s = np.asfortranarray(self.records.run_s.take(self.job, axis=0))  # goes along the jobs
        total: Floats = np.add.reduce(run_s, axis=1)
        return total

    @cached_property
    def beyond(self) -> Ints:
        """1 where no machine holds the gang, of the types on which it runs, 2 where no rack."""
        return self.size.beyond(self.scale_factor, self.records.runs_on(self.job))

    @property
    def larger_than_machine(self) -> Bools:
        """Whether no machine holds the gang."""
        alike, gpus = self.size.alike, self.scale_factor
        return gpus > self.size.gpus_per_machine if alike else self.beyond > 0

    @property
    def larger_than_rack(self) -> Bools:
        """Whether no rack holds it."""
        alike, gpus = self.size.alike, self.scale_factor
        return gpus > self.size.gpus_per_rack if alike else self.beyond > 1

    @property
    def types(self) -> int:
        """Number of accelerator types."""
        return len(self.room) // len(TIERS)

    @property  # a cached one takes two calls and a lock
    def fits(self) -> Bools:
        """Whether there are GPUs free on which each job can run, shape (waiting, options).

        Option ``type * 3 + tier`` is a tier of an accelerator type.
        """
        if self._fits is not None:
            return self._fits
        enough: Bools = (self.scale_factor <= np.array(self.room)[:, None]).T
        if self.types > 1:
            runs = self.records.runs_on(self.job)
            if self.declined is not None:
                runs = runs & ~self.declined
            enough &= np.repeat(runs, len(TIERS), axis=1)
        self._fits = enough
        return enough


def on_tick(time_s: Floats) -> Floats:
    """Round times to multiples of `TICK_S`; infinite ones stay."""
    ticks: Floats = np.rint(time_s / TICK_S)
    ticks *= TICK_S
    return ticks
