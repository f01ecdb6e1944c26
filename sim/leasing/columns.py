"""What a run under leases tells besides: intervals of its own, tiers, and exposed communication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import TIERS
from apportion.mechanism.scheduler import NOBODY, tier_of
from apportion.mechanisms.settings import TICK_S
from apportion.sim.record import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.mechanism.decider import About
    from apportion.mechanism.leases.timers import DelayTimers
    from apportion.mechanism.scheduler import Decision, GangProgress
    from apportion.sim.engine.true_state import TrueState
    from apportion.types import Floats, Ints


_COUNTS = ("active_jobs", "running_jobs", "preemptions", "resolved")


class IntervalLog:
    """One row for each interval between events, or for several that fill no more than a lease.

    Parameters
    ----------
    accelerators
        Names of the accelerator types, for their ``_busy`` columns.
    lease_s
        Least length of a row that holds several intervals, seconds.

    Attributes
    ----------
    active, running
        Jobs in the cluster, and jobs that hold GPUs, from now on.
    gpus
        GPUs held at each option, type by type and tier by tier, from now on.
    preemptions
        Jobs stopped or moved in this row.
    offered
        Whether GPUs have been offered in this row.
    """

    def __init__(self, accelerators: Sequence[str], lease_s: float) -> None:
        self._names = ["start_s", "end_s", *_COUNTS]
        self._busy = [f"{name}_busy" for name in accelerators]
        self._names += [*self._busy, *(f"{tier}_gpus" for tier in TIERS)]
        self._lease_s = lease_s
        self._rows: list[tuple[float, ...]] = []
        self.active = self.running = 0
        self.gpus = [0] * (len(TIERS) * len(self._busy))
        self._start_s = self._now_s = 0.0
        self._sums: list[float] = []
        self._clear()

    def start(self, now_s: float) -> None:
        """Begin to write at a time, seconds."""
        self._start_s = self._now_s = now_s

    def advance(self, now_s: float) -> None:
        """Let time pass in which nothing changed."""
        passed_s = now_s - self._now_s
        if not passed_s:
            return
        counts = (self.active, self.running, *self.gpus)
        self._sums = [
            total + count * passed_s for total, count in zip(self._sums, counts, strict=True)
        ]
        self._now_s = now_s
        if now_s - self._start_s >= self._lease_s:
            self.close()

    def close(self) -> None:
        """End the present row, unless no time has passed in it."""
        length_s = self._now_s - self._start_s
        if length_s > 0:
            active, running, *gpus = self._sums
            counts = (active / length_s, running / length_s, self.preemptions, self.offered)
            of_type = [gpus[k : k + len(TIERS)] for k in range(0, len(gpus), len(TIERS))]
            in_tier = map(sum, zip(*of_type, strict=True))
            row = (self._start_s, self._now_s, *counts, *map(sum, of_type), *in_tier)
            self._rows.append(row)
            self._start_s = self._now_s
            self._clear()

    def table(self) -> pd.DataFrame:
        """Return the rounds table; numbers of jobs are means over the row, GPUs GPU-seconds."""
        index = pd.RangeIndex(len(self._rows), name="round")
        rows = pd.DataFrame(self._rows, columns=self._names, index=index)
        return rows.astype({"preemptions": int, "resolved": bool})

    def _clear(self) -> None:
        self._sums = [0.0] * (2 + len(self.gpus))
        self.preemptions = 0
        self.offered = False


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
        self._truth, self._layout = truth, told.layout
        self._log = IntervalLog(told.cluster.accelerators, lease_s)
        self._log.start(truth.next_arrival_s)
        self._tier = np.zeros(truth.jobs, dtype=np.intp)
        self._types = truth.capacity.size
        self._fastest: Floats = truth.speed.max(axis=1)
        # What a job had to do is done when it completes, whatever the rounding of the sum. It is
        # counted on its fastest type, and what slower ones took beyond that by itself.
        self._left_s: Floats = truth.remaining / self._fastest
        self._compute_s = self._left_s.copy()
        self._beyond_s = np.zeros(truth.jobs)
        self._kind = np.full(truth.jobs, -1, dtype=np.intp)  # -1: the job has no GPUs
        self._of: tuple[Any, Any] = (None, None)  # jobs and rates of which these follow:
        self._cell: Ints = NOBODY
        self._speed: Floats = np.empty(0)
        self._slowdown: Floats = np.empty(0)
        self._over: Floats = np.empty(0)
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
        # Where nobody ran, everyone is new: in the middle of things some go on who never started.
        lines = decision.starts.nonzero()[0] if log.running else np.arange(gangs.job.size)
        log.active, log.running = self._truth.active.size, gangs.job.size
        if gangs.job is not self._of[0] or lines.size:
            self._of = (None, None)
            for job in decision.stop.tolist():
                self._has_none(job)
            for job, line in zip(gangs.job[lines].tolist(), lines.tolist(), strict=True):
                self._has_none(job)  # it may start again where it is
                held = gangs.devices[line]
                self._kind[job], self._tier[job] = held[0], tier_of(self._layout.placement(held))
                log.gpus[self._option(job)] += self._truth.scale.item(job)
        log.offered |= decision.resolved

    def ran(self, now_s: float, end_s: float, ran: GangProgress, active: int) -> None:
        """Book the time that jobs had their GPUs, and what they did with it."""
        job = ran.gangs.job
        if job is not self._of[0] or ran.rate is not self._of[1]:
            self._of = job, ran.rate
            self._cell = job * len(TIERS) + self._tier[job]
            cells = job * self._types + ran.gangs.option
            self._speed = self._truth.speed.take(cells)
            self._slowdown = self._speed / ran.rate
            self._over = self._slowdown - 1
        self._log.advance(end_s)
        self.tier_s.reshape(-1)[self._cell] += ran.held_s
        compute_s = least_s = ran.worked_s / self._slowdown
        if self._types > 1:
            least_s = compute_s * (self._speed / self._fastest[job])
            self._beyond_s[job] += compute_s - least_s
        self._left_s[job] -= least_s
        self.communication_s[job] += compute_s * self._over
        if ran.done.size:
            self._finish(ran)
            self._log.active = self._truth.active.size

    def _finish(self, ran: GangProgress) -> None:
        """Write down completions, and what rounding has left of the work."""
        slowdown, slower = np.zeros((2, self._truth.jobs))
        speed = self._truth.speed[ran.gangs.job, ran.gangs.option]
        slowdown[ran.gangs.job] = speed / ran.rate
        slower[ran.gangs.job] = self._fastest[ran.gangs.job] / speed
        for job in ran.done.tolist():
            left_s = self._left_s[job] * slower[job]
            self.communication_s[job] += left_s * (slowdown[job] - 1)
            self._beyond_s[job] += left_s - self._left_s[job]
            self._left_s[job] = 0.0
            self._log.running -= 1
            self._has_none(job)

    def _has_none(self, job: int) -> None:
        """Count the GPUs of a job no more, if it has any."""
        if self._kind.item(job) >= 0:
            self._log.gpus[self._option(job)] -= self._truth.scale.item(job)
            self._kind[job] = -1

    def _option(self, job: int) -> int:
        """Return the option at which a job has GPUs, type by type and tier by tier."""
        return self._kind.item(job) * len(TIERS) + self._tier.item(job)

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
        self._log.close()
        return {"rounds": self._log.table()}
