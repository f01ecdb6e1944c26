"""Who holds GPUs, when each works, and when leases end and GPUs come back."""

from __future__ import annotations

import math
from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.scheduler import NOBODY, Decision, DutyCycle, Gangs
from apportion.mechanisms.settings import TICK_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apportion.mechanism.devices import Devices, Held
    from apportion.types import Bools, Floats, Ints


class Holders:
    """Jobs that have GPUs, and who came or was stopped.

    Who has the same devices as at the last decision, or as many of the same machines, goes on,
    whatever happened in between: what a job gives back and gets again in one instant it has had all
    the time. Lines are in the order in which jobs got their devices.

    Parameters
    ----------
    scale
        GPUs of each gang, shape (jobs,).
    devices
        Who has which devices, kept up to date by whoever places.
    """

    def __init__(self, scale: Ints, devices: Devices) -> None:
        self._scale, self._held, self._layout = scale, devices.held, devices.layout
        self._before: dict[int, Held] = {}  # at the last decision, but for who is done
        self._job: Ints = NOBODY  # the same jobs in the same order
        self._touched: dict[int, None] = {}  # since then, the last one last
        self._gangs: Gangs | None = None  # of that decision, unless somebody is done
        self._again: Decision | None = None  # by which the same gangs go on

    def take_over(self, job: int, held: Held) -> None:
        """Let a job have had these devices all the time."""
        self._before[job] = held
        self._job = np.append(self._job, job)

    def touch(self, jobs: Iterable[int]) -> None:
        """Let jobs give devices back, or get some, one after the other."""
        touched = self._touched
        for job in jobs:
            touched.pop(job, None)
            touched[job] = None

    def complete(self, job: int) -> None:
        """Let a job go that is done."""
        del self._before[job]
        self._job = self._job[self._job != job]
        self._gangs = None

    def at_work(self, end_s: list[float], now_s: float) -> list[int]:
        """Return the jobs whose leases end after now, ascending."""
        return sorted([job for job in self._held if end_s[job] > now_s])

    def change(self, duty_cycle: DutyCycles, kind: Ints, *, offered: bool) -> Decision:
        """Return who has GPUs from now on, by the type of each job, and forget what was new."""
        held, before = self._held, self._before
        anew = [job for job in self._touched if before.get(job) != held.get(job)]
        self._touched = {}
        if not anew and self._gangs is not None:
            return self._repeated(self._gangs, duty_cycle.of(self._gangs.job), offered)
        had = {job: before.pop(job) for job in anew if job in before}
        new = [job for job in anew if job in held]
        moved = [job for job in new if job in had and self._same(had[job], held[job])]
        before |= {job: held[job] for job in new}
        job = self._job
        for each in had:  # few of all
            job = job[job != each]
        self._job = job = np.concatenate([job, np.array(new, dtype=np.intp)])
        devices = [*before.values()]
        self._gangs = Gangs(job, job, kind.take(job), self._scale.take(job), devices=devices)
        stop = sorted(had.keys() - moved)
        starts = [each not in moved for each in new] if moved else [True] * len(new)
        return Decision(
            self._gangs,
            starts=_of_the_last(job.size, starts),
            stop=np.array(stop, dtype=np.intp) if stop else NOBODY,
            duty_cycle=duty_cycle.of(job),
            resolved=offered,
            moved=_of_the_last(job.size, [not each for each in starts]) if moved else None,
        )

    def _repeated(self, gangs: Gangs, duty_cycle: DutyCycle, offered: bool) -> Decision:
        """Return that all go on: the same value as long as nothing is new."""
        again = self._again
        same = again is not None and again.gangs is gangs and again.duty_cycle is duty_cycle
        if again is None or not same or again.resolved != offered:
            nobody = _of_the_last(gangs.job.size, [])
            again = Decision(gangs, nobody, duty_cycle=duty_cycle, resolved=offered)
            self._again = again
        return again

    def _same(self, one: Held, other: Held) -> bool:
        """Tell whether devices are as many in the same machines."""
        place = self._layout.placement
        return one[0] == other[0] and place(one) == place(other)


def _of_the_last(lines: int, marks: Sequence[bool]) -> Bools:
    """Mark some of the last of so many lines."""
    marked = np.zeros(lines, dtype=bool)
    if marks:
        marked[-len(marks) :] = marks
    return marked


class DutyCycles:
    """When each job works: from when on, for how long, and how long it rests after that."""

    def __init__(self, jobs: int) -> None:
        self._rows: Floats = np.full((3, jobs), np.inf)
        self.changed = False
        self._last: tuple[Any, DutyCycle | None] = (None, None)

    def ready_s(self, job: int) -> float:
        """Return when a job begins to work."""
        return float(self._rows[0, job])

    def work(self, job: int, ready_s: float, work_s: float, rest_s: float) -> None:
        """Let a job work, after a rest without length or before one that never ends for good."""
        if rest_s in (0.0, np.inf):
            work_s = rest_s = np.inf
        rows = self._rows
        before_s, worked_s, rested_s = rows.item(0, job), rows.item(1, job), rows.item(2, job)
        # A renewal that comes when the next spell begins anyway changes nothing.
        same = worked_s == work_s < np.inf and rested_s == rest_s and before_s < np.inf
        if same and (ready_s - before_s) % (work_s + rest_s) == 0:
            ready_s = before_s
        self.changed |= (before_s, worked_s, rested_s) != (ready_s, work_s, rest_s)
        rows[0, job], rows[1, job], rows[2, job] = ready_s, work_s, rest_s

    def rest(self, job: int) -> None:
        """Let a job hold its GPUs and do nothing."""
        self.changed = True
        self._rows[0, job] = np.inf

    def of(self, jobs: Any) -> DutyCycle:
        """Return the duty cycle of some jobs, the same value as long as nothing has changed."""
        of, last = self._last
        if last is None or self.changed or jobs is not of:
            last = DutyCycle(*self._rows.take(jobs, axis=1))
            self._last, self.changed = (jobs, last), False
        return last


def whole_ticks(time_s: float) -> float:
    """Round a finite time to a multiple of `TICK_S`."""
    return round(time_s / TICK_S) * TICK_S


def next_tick(time_s: float) -> float:
    """Return the first multiple of `TICK_S` that is not before a time; infinite ones stay."""
    return math.ceil(time_s / TICK_S) * TICK_S if math.isfinite(time_s) else time_s


class End(IntEnum):
    """What ends, in the order in which those of one instant are dealt with."""

    RETURN = 0
    """A checkpoint: the GPUs come back."""
    EXPIRY = 1
    """A lease."""


class Ends:
    """A heap in which an end of a job replaces the one that it had.

    Parameters
    ----------
    jobs
        Number of jobs.
    """

    def __init__(self, jobs: int) -> None:
        self._heap: list[tuple[float, End, int, int]] = []
        self._version = [0] * jobs

    def put(self, time_s: float, kind: End, job: int) -> None:
        """Set the next end of a job; one that it had before will not come."""
        self._version[job] += 1
        heappush(self._heap, (time_s, kind, job, self._version[job]))

    def drop(self, job: int) -> None:
        """Take away the end of a job."""
        self._version[job] += 1

    @property
    def next_s(self) -> float:
        """Time of the next end, seconds; infinite if there is none."""
        heap = self._heap
        while heap and heap[0][3] != self._version[heap[0][2]]:
            heappop(heap)
        return heap[0][0] if heap else np.inf

    def due(self, now_s: float, kind: End) -> bool:
        """Whether the next end is of this instant and of a kind."""
        return self.next_s == now_s and self._heap[0][1] is kind

    def pop(self, now_s: float, kind: End) -> list[int]:
        """Return the jobs whose end of a kind is due, and take their ends away."""
        jobs, heap = list[int](), self._heap
        while heap and heap[0][0] <= now_s:
            at_s, own, job, version = heap[0]
            if version == self._version[job]:
                if at_s != now_s or own is not kind:
                    break
                jobs.append(job)
            heappop(heap)
        return jobs
