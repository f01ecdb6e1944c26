"""What a run under leases tells besides: intervals of its own, tiers, and exposed communication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import TIERS
from apportion.mechanism.scheduler import tier_of
from apportion.mechanisms.settings import TICK_S
from apportion.sim.record import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.mechanism.decider import About
    from apportion.mechanism.leases.timers import DelayTimers
    from apportion.mechanism.scheduler import Decision, GangProgress
    from apportion.sim.engine.true_state import TrueState
    from apportion.types import Floats


_COLUMNS = ("start_s", "end_s", "active_jobs", "running_jobs", "preemptions", "resolved")


class IntervalLog:
    """One row for each interval between events, or for several that fill no more than a lease.

    Parameters
    ----------
    accelerators
        Names of the accelerator types, for their ``_busy`` columns.
    lease_s
        Least length of a row that holds several intervals, seconds.
    start_s
        When the first row begins, seconds.

    Attributes
    ----------
    counts
        From now on: jobs in the cluster, jobs that hold GPUs, and GPUs held at each option, type by
        type and tier by tier.
    preemptions, offered
        Jobs stopped or moved in this row, and whether GPUs have been offered.
    """

    def __init__(self, accelerators: Sequence[str], lease_s: float, start_s: float) -> None:
        busy = (f"{name}_busy" for name in accelerators)
        self._names = [*_COLUMNS, *busy, *(f"{tier}_gpus" for tier in TIERS)]
        self._lease_s, self._start_s, self._now_s = lease_s, start_s, start_s
        self._rows: list[tuple[float, ...]] = []
        self.counts = np.zeros(2 + len(TIERS) * len(accelerators))
        self._sums, self.preemptions, self.offered = self.counts * 0.0, 0, False

    def advance(self, now_s: float) -> None:
        """Let time pass in which nothing changed."""
        if now_s == self._now_s:
            return
        self._sums += self.counts * (now_s - self._now_s)
        self._now_s = now_s
        if now_s - self._start_s >= self._lease_s:
            self._close()

    def _close(self) -> None:
        """End the present row."""
        jobs, gpus = self._sums[:2], self._sums[2:].reshape(-1, len(TIERS))
        means = (jobs / (self._now_s - self._start_s)).tolist()
        sums = (*gpus.sum(axis=1).tolist(), *gpus.sum(axis=0).tolist())
        row = (self._start_s, self._now_s, *means, self.preemptions, self.offered, *sums)
        self._rows.append(row)
        self._start_s = self._now_s
        self._sums, self.preemptions, self.offered = self.counts * 0.0, 0, False

    def table(self) -> pd.DataFrame:
        """Return the rounds table; numbers of jobs are means over the row, GPUs GPU-seconds."""
        if self._now_s > self._start_s:
            self._close()
        index = pd.RangeIndex(len(self._rows), name="round")
        rows = pd.DataFrame(self._rows, columns=self._names, index=index)
        return rows.astype({"preemptions": int, "resolved": bool})


class TimerLog(Columns):
    """A row whenever a delay timer has changed.

    Parameters
    ----------
    book
        The timers.
    finish
        Brings them to the end of the run, when all jobs are done.
    """

    def __init__(self, book: DelayTimers, finish: Callable[[], None]) -> None:
        self._book, self._finish = book, finish
        self._rows: list[tuple[float, int, float, float]] = []
        self._last: dict[int, tuple[float, float]] = {}

    def note(self, now_s: float, scale_factor: int) -> None:
        """Write down the timers of one size, if they are not what they were."""
        timers = self._book.of_size(scale_factor)
        if self._last.get(scale_factor) != timers:
            self._last[scale_factor] = timers
            self._rows.append((now_s, scale_factor, *timers))

    def tables(self, schedule: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
        """Return the timers table: time, GPUs of the gang, machine and rack timer, in seconds."""
        self._finish()
        names = ["time_s", "scale_factor", "machine_s", "rack_s"]
        return {"timers": pd.DataFrame(self._rows, columns=names)}


class LeaseColumns(Columns):
    """Rounds by interval, and by job what it computed, sent, and at which tiers it held GPUs.

    Parameters
    ----------
    truth
        Steps, completions.
    told
        In which machines and racks devices are.
    lease_s
        Least length of a row of the rounds table that holds several intervals, seconds.

    Attributes
    ----------
    compute_s, communication_s
        Seconds that each job has computed, on whatever type, and in which communication was
        exposed, shape (jobs,).
    tier_s
        Seconds that it has held GPUs in each tier, checkpoints included, shape (jobs, tiers).
    """

    in_place = True

    def __init__(self, truth: TrueState, told: About, lease_s: float) -> None:
        self._truth, self._place = truth, told.layout.placement
        self._log = IntervalLog(told.cluster.accelerators, lease_s, truth.next_arrival_s)
        self._types = truth.capacity.size
        self._fastest: Floats = truth.speed.max(axis=1)
        # What a job had to do is done when it completes, whatever the rounding of the sum. It is
        # counted on its fastest type, and what slower ones took beyond that by itself.
        self._left_s: Floats = truth.remaining / self._fastest
        self._compute_s = self._left_s.copy()
        self._beyond_s = np.zeros(truth.jobs)
        self._option = np.full(truth.jobs, -1, dtype=np.intp)  # type * 3 + tier; -1: it has no GPUs
        # Jobs and rates of the last stretch, and their cells of `tier_s`, speeds, and slowdowns.
        self._of: tuple[Any, ...] = (None, None)
        self.communication_s = np.zeros(truth.jobs)
        self.tier_s = np.zeros((truth.jobs, len(TIERS)))

    @property
    def compute_s(self) -> Floats:
        """Seconds that each job has computed, shape (jobs,)."""
        done_s: Floats = self._compute_s - self._left_s + self._beyond_s
        return done_s

    def changed(self, now_s: float, decision: Decision) -> None:
        """Write down how many GPUs are held at which tier from now on."""
        gangs, log = decision.gangs, self._log
        log.advance(now_s)
        log.preemptions += decision.stop.size
        log.offered |= decision.resolved
        # Where nobody ran, everyone is new: in the middle of things some go on who never started.
        lines = decision.starts.nonzero()[0] if log.counts[1] else np.arange(gangs.job.size)
        log.counts[:2] = self._truth.active.size, gangs.job.size
        if lines.size or decision.stop.size:
            self._of = (None, None)
        for job in decision.stop.tolist():
            self._count(job, -1)
        for job, line in zip(gangs.job[lines].tolist(), lines.tolist(), strict=True):
            kind, devices = gangs.devices[line]
            self._count(job, len(TIERS) * kind + tier_of(self._place((kind, devices))))

    def _count(self, job: int, option: int) -> None:
        """Count the GPUs of a job at an option, -1 for none, and no more where they were."""
        for each, sign in ((self._option.item(job), -1), (option, 1)):
            if each >= 0:
                self._log.counts[2 + each] += sign * self._truth.scale.item(job)
        self._option[job] = option

    def ran(self, now_s: float, end_s: float, ran: GangProgress, active: int) -> None:
        """Book the time that jobs had their GPUs, and what they did with it."""
        job = ran.gangs.job
        if job is not self._of[0] or ran.rate is not self._of[1]:
            speed = self._truth.speed[job, ran.gangs.option]
            cell = job * len(TIERS) + self._option[job] % len(TIERS)
            self._of = job, ran.rate, cell, speed, speed / ran.rate
        _, _, cell, speed, slowdown = self._of
        self._log.advance(end_s)
        self.tier_s.reshape(-1)[cell] += ran.held_s
        compute_s = ran.worked_s / slowdown
        least_s = compute_s * (speed / self._fastest[job]) if self._types > 1 else compute_s
        self._beyond_s[job] += compute_s - least_s
        self._left_s[job] -= least_s
        self.communication_s[job] += compute_s * (slowdown - 1)
        if ran.done.size:
            self._finish(ran)

    def _finish(self, ran: GangProgress) -> None:
        """Write down completions, and what rounding has left of the work."""
        lines = np.flatnonzero(np.isin(ran.gangs.job, ran.done))
        job, option = ran.gangs.job[lines], ran.gangs.option[lines]
        speed, left_s = self._truth.speed[job, option], self._left_s[job]
        compute_s = left_s * self._fastest[job] / speed
        self.communication_s[job] += compute_s * (speed / ran.rate[lines] - 1)
        self._beyond_s[job] += compute_s - left_s
        self._left_s[job] = 0.0
        for each in job.tolist():
            self._count(each, -1)
        self._log.counts[:2] = self._truth.active.size, self._log.counts[1] - job.size

    def of_jobs(self, jobs: pd.DataFrame) -> dict[str, Any]:
        """Return the columns that only racks have, all in seconds."""
        # A job that arrives between two ticks has its GPUs at the next one and has not waited.
        waited = jobs["queueing_s"] > TICK_S
        return {
            "queueing_s": jobs["queueing_s"].where(waited, 0.0),
            "communication_s": self.communication_s,
            "compute_s": self.compute_s,
            **{f"{name}_s": self.tier_s[:, k] for k, name in enumerate(TIERS)},
        }

    def tables(self, schedule: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
        """Return the rounds table."""
        return {"rounds": self._log.table()}
