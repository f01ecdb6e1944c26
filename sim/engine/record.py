"""What a run leaves behind: its rounds table, its schedule, and calls of progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.repetition import running_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.scheduler import Change, Gangs, Ran
    from apportion.sim.engine.truth import Truth
    from apportion.sim.log import RoundLog
    from apportion.sim.progress import Progress
    from apportion.sim.schedule import ScheduleLog

    Floats = NDArray[np.float64]

__all__ = ["RunRecord"]


class RunRecord:
    """Writes a row for each stretch of time, and a stay for each job on its devices.

    Parameters
    ----------
    truth
        The books.
    log
        The rounds table.
    schedule
        The schedule; ``None`` where nobody has devices.
    progress
        Is called from time to time.
    """

    def __init__(
        self,
        truth: Truth,
        log: RoundLog,
        progress: Progress,
        schedule: ScheduleLog | None = None,
    ) -> None:
        self._truth, self._log, self._progress = truth, log, progress
        self._schedule = schedule
        self._stopped, self._resolved = 0, False

    def changed(self, now_s: float, change: Change) -> None:
        """Take down that a decision takes effect."""
        self._stopped, self._resolved = change.stop.size, change.resolved
        if self._schedule is not None:
            self._schedule.changed(now_s, change)

    def ran(self, now_s: float, end_s: float, ran: Ran, active: int) -> None:
        """Take down what gangs have done between two times, while so many jobs were active."""
        gangs, busy = ran.gangs, _gpu_seconds(ran, self._truth.capacity.size)
        counts = (active, _running(gangs), self._stopped)
        if ran.times == 1:
            self._log.add((now_s, end_s), counts, self._resolved, busy)
        else:
            ends_s = running_sums(now_s, ran.length_s, ran.times)
            self._log.add((now_s, float(ends_s[0])), counts, self._resolved, busy)
            self._log.repeat(ends_s[1:])
        self._stopped, self._resolved = 0, False
        if ran.done.size:
            if self._schedule is not None:
                self._schedule.end(ran.done, self._truth.completion_s[ran.done])
            self._progress.update(self._truth)

    def state(self) -> dict[str, Any]:
        """Return the tables so far, for JSON."""
        schedule = None if self._schedule is None else self._schedule.state()
        change = {"stopped": self._stopped, "resolved": self._resolved}
        return change | {"log": self._log.state(), "schedule": schedule}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        self._stopped, self._resolved = int(state["stopped"]), bool(state["resolved"])
        self._log.restore(state["log"])
        if self._schedule is not None:
            self._schedule.restore(state["schedule"])


def _gpu_seconds(ran: Ran, types: int) -> Floats:
    """Return the GPU-seconds in use on each type; what two jobs share counts once."""
    gangs = ran.gangs
    used = gangs.gpus * (ran.held_s if gangs.share is None else gangs.share)
    option = gangs.option
    if gangs.mate is not None:
        lead = gangs.mate >= np.arange(gangs.mate.size)
        used, option = used[lead], option[lead]
    busy = np.bincount(option, weights=used, minlength=types).astype(float)
    return busy if gangs.share is None else busy * ran.length_s


def _running(gangs: Gangs) -> int:
    """Return the number of jobs that have devices."""
    if gangs.share is None:
        return gangs.job.size
    return int(np.count_nonzero(np.bincount(gangs.job)))
