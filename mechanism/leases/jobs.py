"""Jobs under leases: what they did where, who waits since when, and how fast each is at which tier.

Option ``type * 3 + tier`` is a tier of an accelerator type. Times are seconds and, at decisions,
multiples of `apportion.mechanisms.settings.TICK_S`: sums and differences of them are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.cluster import TIERS
from apportion.errors import InputError, written
from apportion.mechanism.scheduler import MACHINE, NETWORK, RACK
from apportion.mechanisms.settings import TICK_S
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.mechanism.decider import About
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.leases.timers import DelayTimers
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.scheduler import GangProgress
    from apportion.types import Bools, Floats, Ints


def on_tick(time_s: Any) -> Any:
    """Round times to multiples of `TICK_S`; infinite ones stay."""
    return np.rint(np.asarray(time_s) / TICK_S) * TICK_S


@dataclass(eq=False)
class GangClass:
    """Gangs of one size, model and speeds, which accept the same after the same wait.

    Attributes
    ----------
    gpus, model
        GPUs of each gang, and what it trains.
    step_times
        Compute time of a step on each type over that on the fastest one; infinite for never.
    slowdown
        Time of a step on the best placement at each option, all being free, over its compute time
        on the fastest type; infinite where no such gang can be.
    best
        Least time of a step anywhere, and its tier.
    runs_at
        Whether it runs on the type of each option, at some tier.
    machine_gpus, rack_gpus
        GPUs of the largest machine and rack of the types on which such a gang runs.
    wider_faster
        Options of one type of which the second is at a wider tier, and faster.
    waits_s
        Wait after which it accepts each option, as `CandidateOrder` was told last.
    turns
        Turns of those that wait, ascending.
    """

    gpus: int
    model: str
    step_times: list[float]
    slowdown: list[float]
    best: tuple[float, int]
    runs_at: list[bool]
    machine_gpus: int
    rack_gpus: int
    wider_faster: list[tuple[int, int]]
    waits_s: list[float] = field(default_factory=list)
    turns: list[tuple[float, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, gpus: int, model: str, speeds: Sequence[float], placer: Placer) -> GangClass:
        """Return the class of gangs with these speeds on the types of a cluster."""
        times = [max(speeds) / each if each > 0 else inf for each in speeds]
        types = list(zip(times, placer.placings, placer.pools, strict=True))
        slowdown = [own * each for own, on, _ in types for each in on.slowdowns(model, gpus)]
        least = [(own, *on.least_worth(model, gpus)) for own, on, _ in types]
        best = min((significant(own * slow), tier) for own, slow, tier in least)
        runs_at = [min(slowdown[k - k % 3 :][:3]) < inf for k in range(len(slowdown))]
        machines = [
            pool.gpus for (_, _, pool), runs in zip(types, runs_at[::3], strict=True) if runs
        ]
        machine = max((int(each.max()) for each in machines), default=0)
        rack = max((int(each.sum(axis=1).max()) for each in machines), default=0)
        faster = [
            (first + tight, first + wide)
            for first in range(0, len(slowdown), len(TIERS))
            for tight, wide in ((MACHINE, RACK), (MACHINE, NETWORK), (RACK, NETWORK))
            if slowdown[first + wide] < slowdown[first + tight] < inf
        ]
        return cls(gpus, model, times, slowdown, best, runs_at, machine, rack, faster)


class LeasedJobs:
    """What leases know of each job beside the job table.

    Parameters
    ----------
    about
        The job table, with room for all jobs of a run, and the devices.

    Attributes
    ----------
    table
        The job table.
    gang_class
        Size, model and speeds of each job that has arrived.
    run_s
        Seconds that each job has run at each option, shape (jobs, options).
    option
        Option at which a job has its GPUs, or had them last, shape (jobs,), as those that follow.
    runs_at
        Options of types on which a job runs, shape (jobs, options).
    waiting, released_s
        Whether a job waits, and when its present wait began: as it came, or as its lease ended.
    """

    def __init__(self, about: About) -> None:
        self.table, self._placer = about.jobs, about.devices
        jobs, options = self.table.jobs, len(TIERS) * len(about.devices.pools)
        self.gpus: list[int] = self.table.scale.tolist()
        self.fastest: Floats = self.table.speed.max(axis=1)
        self.gpus_of_type = [int(pool.gpus.sum()) for pool in about.devices.pools]
        self.gang_class: dict[int, GangClass] = {}
        self.classes: dict[Any, GangClass] = {}
        self.run_s: Floats = np.zeros((jobs, options))
        self.runs_at: Bools = np.zeros((jobs, options), dtype=bool)
        self.option: Ints = np.zeros(jobs, dtype=np.intp)
        self.waiting: Bools = np.zeros(jobs, dtype=bool)
        self.released_s: Floats = np.zeros(jobs)

    def compute_s(self, jobs: Ints) -> Floats:
        """Compute time of the steps done on the fastest types of some jobs, seconds."""
        done = self.table.total[jobs] - self.table.remaining[jobs]
        return np.asarray(done / self.fastest[jobs])

    def book(self, ran: GangProgress) -> None:
        """Add how long jobs ran."""
        self.run_s[ran.gangs.job, self.option[ran.gangs.job]] += ran.worked_s

    def arrive(self, job: int) -> None:
        """Let in a job that has arrived in the job table.

        Raises
        ------
        InputError
            If no type on which it runs has as many GPUs.
        """
        speeds, model = self.table.speed[job].tolist(), self.table.job_type[job]
        key = self.gpus[job], model, tuple(speeds)
        known = self.classes.get(key)
        if known is None:
            known = self.classes[key] = GangClass.of(*key, self._placer)
        if min(known.slowdown) == inf:
            raise InputError(
                f"Job {job} ({written(model)}) has scale factor {known.gpus}; no type on which it "
                f"runs has so many GPUs, the largest has {max(self.gpus_of_type)}."
            )
        self.gang_class[job] = known
        self.runs_at[job] = known.runs_at


@dataclass(eq=False)
class WaitingJobs:
    """Waiting jobs in arrays of shape (waiting,), as orders and rules see them.

    Parameters
    ----------
    job
        Numbers of the jobs.
    records
        All jobs, those that run included.
    timers
        Delay timers in force.
    room
        Most GPUs that one gang can have free at each option.
    """

    job: Ints
    records: LeasedJobs
    timers: DelayTimers
    room: Sequence[int]

    @property
    def table(self) -> JobTable:
        """The job table, of all jobs."""
        return self.records.table

    @property
    def scale_factor(self) -> Ints:
        """GPUs of each gang."""
        return self.table.scale[self.job]

    @property
    def arrival_s(self) -> Floats:
        """When each job arrived, seconds."""
        return self.table.arrival_s[self.job]

    @property
    def facts(self) -> Mapping[str, Floats]:
        """Further columns of the jobs table, those of one's own included."""
        return {name: values[self.job] for name, values in self.table.facts.items()}

    @property
    def released_s(self) -> Floats:
        """When its wait began, seconds."""
        return self.records.released_s[self.job]

    @property
    def ideal_s(self) -> Floats:
        """Compute time from start to completion, seconds."""
        seconds: Floats = self.table.total[self.job] / self.records.fastest[self.job]
        return seconds

    @property
    def compute_s(self) -> Floats:
        """Compute time of the steps done, seconds."""
        return self.records.compute_s(self.job)

    @property
    def run_s(self) -> Floats:
        """Seconds that each job has run, communication included."""
        total: Floats = self.records.run_s[self.job].sum(axis=1)
        return total

    @property
    def gang_classes(self) -> list[GangClass]:
        """Size, model and speeds of each job."""
        return [self.records.gang_class[job] for job in self.job.tolist()]

    @property
    def slowdown(self) -> Floats:
        """Time of a step at each option over the least compute time, shape (waiting, options)."""
        return np.array([each.slowdown for each in self.gang_classes]).reshape(self.job.size, -1)

    @property
    def larger_than_machine(self) -> Bools:
        """Whether no machine of the types on which it runs holds the gang."""
        return np.array([each.gpus > each.machine_gpus for each in self.gang_classes], dtype=bool)

    @property
    def larger_than_rack(self) -> Bools:
        """Whether no rack of them holds it."""
        return np.array([each.gpus > each.rack_gpus for each in self.gang_classes], dtype=bool)

    @property
    def types(self) -> int:
        """Number of accelerator types."""
        return len(self.records.gpus_of_type)

    @property
    def fits(self) -> Bools:
        """Whether so much is free that each job could run there, shape (waiting, options)."""
        enough = self.scale_factor[:, None] <= np.array(self.room)
        return np.asarray(enough & self.records.runs_at[self.job])
