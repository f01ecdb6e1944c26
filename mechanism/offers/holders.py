"""Who holds GPUs, what is new about it, and when each works."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.scheduler import NOBODY, Decision, DutyCycle, Gangs
from apportion.resumable import Resumable

if TYPE_CHECKING:
    from collections.abc import Collection

    from apportion.mechanism.devices import Devices, Held
    from apportion.types import Bools, Floats, Ints


class Holders(Resumable):
    """Jobs that have GPUs, in the order in which they got them; and who came or was stopped.

    Who has as many devices of the same machines as at the last decision goes on, whatever happened
    in between: what a job gives back and gets again in one instant it has had all the time.

    Parameters
    ----------
    scale
        GPUs of each gang, shape (jobs,).
    devices
        Who has which devices, kept up to date by whoever places.
    """

    kept = ("_there", "_before")

    def __init__(self, scale: Ints, devices: Devices) -> None:
        self._scale, self._held, self._layout = scale, devices.held, devices.layout
        self._there: dict[int, None] = {}
        self._before: dict[int, Held] = {}  # at the last decision, but for who is done
        self._touched: set[int] = set()  # since then
        self._done: set[int] = set()  # since then
        self._gangs: Gangs | None = None  # of that decision
        self._listed: list[int] = []  # their jobs

    def take_over(self, job: int, held: Held) -> None:
        """Let a job have had these devices all the time."""
        self._there[job], self._before[job] = None, held

    def begin(self, job: int) -> None:
        """Let a job have GPUs."""
        self._there[job] = None
        self._touched.add(job)

    def end(self, job: int) -> None:
        """Let a job give its GPUs back."""
        del self._there[job]
        self._touched.add(job)

    def complete(self, job: int) -> None:
        """Let a job go that is done."""
        del self._there[job], self._before[job]
        self._done.add(job)

    def at_work(self, end_s: list[float], now_s: float) -> list[int]:
        """Return the jobs whose leases end after now, ascending."""
        return sorted([job for job in self._there if end_s[job] > now_s])

    def change(self, duty_cycle: DutyCycles, kind: Ints, *, offered: bool) -> Decision:
        """Return who has GPUs from now on, by the type of each job, and forget what was new."""
        if self._gangs is not None and not self._touched and not self._done:
            starts, job = np.zeros(self._gangs.job.size, dtype=bool), self._gangs.job
            return Decision(self._gangs, starts, duty_cycle=duty_cycle.of(job), resolved=offered)
        held, before = self._held, self._before
        now = {each: held[each] for each in self._touched if each in self._there}
        job, devices = self._lines(now)
        differs = {each for each in self._touched if before.get(each) != now.get(each)}
        gone = sorted(each for each in differs if each in before)
        moved = [each for each in gone if each in now and self._same(before[each], now[each])]
        for each in self._touched:
            before.pop(each, None)
        before |= now
        self._touched, self._done = set(), set()
        self._gangs = Gangs(job, job, kind[job], self._scale[job], devices=devices)
        stayed = None
        if moved:
            stayed = self._marked(job, moved, len(now))
            differs, gone = differs.difference(moved), [e for e in gone if e not in moved]
        return Decision(
            self._gangs,
            starts=self._marked(job, differs, len(now)),
            stop=np.array(gone, dtype=np.intp) if gone else NOBODY,
            duty_cycle=duty_cycle.of(job),
            resolved=offered,
            moved=stayed,
        )

    def _lines(self, now: Collection[int]) -> tuple[Ints, list[Held]]:
        """Return who has GPUs now, and which: as before, and behind them who is new."""
        held, there, gangs = self._held, self._there, self._gangs
        if gangs is None:
            self._listed, devices = [*there], [*map(held.__getitem__, there)]
            return np.array(self._listed, dtype=np.intp), devices
        listed, devices = self._listed, [*gangs.devices]
        for job in self._done.union(filter(self._before.__contains__, self._touched)):
            line = listed.index(job)
            del listed[line], devices[line]
        for job in [*islice(reversed(there), len(now))][::-1]:
            listed.append(job)
            devices.append(held[job])
        return np.array(listed, dtype=np.intp), devices

    def _marked(self, job: Ints, some: Collection[int], new: int) -> Bools:
        """Tell for each job with GPUs whether it is one of some of the last, who are new."""
        marked = np.zeros(job.size, dtype=bool)
        if new:
            marked[-new:] = [each in some for each in job[-new:].tolist()]
        return marked

    def _same(self, one: Held, other: Held) -> bool:
        """Tell whether devices are as many in the same machines."""
        place = self._layout.placement
        return one[0] == other[0] and place(one) == place(other)


class DutyCycles(Resumable):
    """When each job works: from when on, for how long, and how long it rests after that."""

    kept = ("_rows",)

    def __init__(self, jobs: int) -> None:
        self._rows: Floats = np.full((3, jobs), np.inf)
        self.changed = False

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
        """Return the duty cycle of some jobs."""
        self.changed = False
        return DutyCycle(*self._rows.take(jobs, axis=1))
