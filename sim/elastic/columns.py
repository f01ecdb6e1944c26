"""What runs of elastic jobs tell besides: restarts, and time with GPUs but without progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.sim.record import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.mechanism.scheduler import GangProgress
    from apportion.sim.engine.true_state import TrueState


class PauseColumns(Columns):
    """Counts restarts, and the seconds of pauses.

    Parameters
    ----------
    truth
        The jobs.
    restarts
        Of each job, as whoever decides counts them, shape (jobs,).
    stages
        Part of its restarts that each job spends in each stage, by stage, shape (jobs,) each, if
        restarts are told by stage.

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
        truth: TrueState,
        restarts: Callable[[], NDArray[np.intp]],
        stages: Mapping[str, NDArray[np.float64]] | None = None,
    ) -> None:
        self._restarts, self._stages = restarts, stages or {}
        self.paused_s: NDArray[np.float64] = np.zeros(truth.jobs)
        self.paused_gpu_s: NDArray[np.float64] = np.zeros(truth.jobs)

    def ran(self, now_s: float, end_s: float, ran: GangProgress, active: int) -> None:
        """Take down what gangs have done between two times, while so many jobs were active."""
        paused_s = (ran.held_s - ran.worked_s) * ran.times
        self.paused_s[ran.gangs.job] += paused_s
        at_work = [len(devices) for _, devices in ran.gangs.at_work]
        lost_s = ran.held_s * ran.gangs.gpus - ran.worked_s * at_work
        self.paused_gpu_s[ran.gangs.job] += lost_s * ran.times

    def of_jobs(self, jobs: pd.DataFrame) -> dict[str, Any]:
        """Return what changes have cost."""
        return {
            "restarts": self._restarts(),
            "paused_s": self.paused_s,
            "paused_gpu_seconds": self.paused_gpu_s,
            **{f"paused_{stage}_s": part * self.paused_s for stage, part in self._stages.items()},
        }
