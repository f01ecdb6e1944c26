"""The record of a run of elastic jobs: also how long each held GPUs without progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.plain_arrays import array_of, plain
from apportion.sim.engine.record import RunRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.scheduler import Ran
    from apportion.sim.engine.truth import Truth
    from apportion.sim.log import RoundLog
    from apportion.sim.progress import Progress
    from apportion.sim.schedule import ScheduleLog

__all__ = ["PauseRecord"]


class PauseRecord(RunRecord):
    """Counts the seconds of restarts as well.

    Attributes
    ----------
    paused_s
        Seconds in which each job held GPUs and made no progress, shape (jobs,).
    paused_gpu_s
        GPU-seconds without progress: the same times the GPUs that it held, and those of workers
        that prepare while others train on.
    """

    def __init__(
        self,
        truth: Truth,
        log: RoundLog,
        progress: Progress,
        schedule: ScheduleLog,
    ) -> None:
        super().__init__(truth, log, progress, schedule)
        self.paused_s: NDArray[np.float64] = np.zeros(truth.jobs)
        self.paused_gpu_s: NDArray[np.float64] = np.zeros(truth.jobs)

    def ran(self, now_s: float, end_s: float, ran: Ran, active: int) -> None:
        """Take down what gangs have done between two times, while so many jobs were active."""
        super().ran(now_s, end_s, ran, active)
        paused_s = (ran.held_s - ran.worked_s) * ran.times
        self.paused_s[ran.gangs.job] += paused_s
        at_work = [len(devices) for _, devices in ran.gangs.at_work]
        lost_s = ran.held_s * ran.gangs.gpus - ran.worked_s * at_work
        self.paused_gpu_s[ran.gangs.job] += lost_s * ran.times

    def state(self) -> dict[str, Any]:
        """Return the tables so far, for JSON."""
        paused = {"paused_s": plain(self.paused_s), "paused_gpu_s": plain(self.paused_gpu_s)}
        return super().state() | paused

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        super().restore(state)
        self.paused_s = array_of(state["paused_s"])
        self.paused_gpu_s = array_of(state["paused_gpu_s"])
