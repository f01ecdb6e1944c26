"""The rounds and timers tables of a run under leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from apportion.cluster import TIERS
from apportion.resumable import Resumable
from apportion.sim.record import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.mechanism.offers.timer_book import TimerBook

__all__ = ["IntervalLog", "TimerLog"]

_COUNTS = ("active_jobs", "running_jobs", "preemptions", "resolved")


class IntervalLog(Resumable):
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

    kept = (
        *("_rows", "active", "running", "gpus", "_start_s", "_now_s", "_sums", "preemptions"),
        "offered",
    )

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

    kept = ("_rows", "_last")

    def __init__(self, book: TimerBook, finish: Callable[[], None]) -> None:
        self._book, self._finish = book, finish
        self._rows: list[tuple[float, int, float, float]] = []
        self._last: dict[int, tuple[float, float]] = {}

    def note(self, now_s: float, scale_factor: int) -> None:
        """Write down the timers of one size, if they are not what they were."""
        timers = self._book.of_size[scale_factor]
        if self._last.get(scale_factor) != timers:
            self._last[scale_factor] = timers
            self._rows.append((now_s, scale_factor, *timers))

    def tables(self, schedule: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
        """Return the timers table: time, GPUs of the gang, machine and rack timer, in seconds."""
        self._finish()
        names = ["time_s", "scale_factor", "machine_s", "rack_s"]
        return {"timers": pd.DataFrame(self._rows, columns=names)}
