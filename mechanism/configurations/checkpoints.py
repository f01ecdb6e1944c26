"""What jobs have done since their last checkpoint, which is lost when a GPU is called back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.resumable import Resumable
from apportion.ties import EXACT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.scheduler import GangProgress

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["Checkpoints"]


class Checkpoints(Resumable):
    """Jobs save what they have after every so many seconds of work, and whenever workers change.

    Parameters
    ----------
    jobs
        How many there are.
    interval_s
        Seconds of work between two checkpoints, > 0; infinite for none in between.

    Attributes
    ----------
    since_s, steps
        Seconds of work, and steps, of each job since its last checkpoint, shape (jobs,).
    """

    kept = ("since_s", "steps")

    def __init__(self, jobs: int, interval_s: float) -> None:
        self._interval_s = interval_s
        self.since_s: Floats = np.zeros(jobs)
        self.steps: Floats = np.zeros(jobs)

    def worked(self, ran: GangProgress) -> None:
        """Take down what was done."""
        job, every = ran.gangs.job, self._interval_s
        total_s = self.since_s[job] + ran.worked_s
        with np.errstate(invalid="ignore"):
            past_s = np.where(total_s < every, total_s, total_s % every)
        # A checkpoint that is due but for rounding has been made.
        past_s = np.where(past_s >= every * (1 - EXACT), 0.0, past_s)
        saved = total_s >= every * (1 - EXACT)
        steps = np.where(saved, 0.0, self.steps[job] + ran.rate * ran.worked_s)
        self.steps[job] = np.where(saved, ran.rate * past_s, steps)
        self.since_s[job] = past_s

    def saved(self, jobs: Ints) -> None:
        """Let jobs have a checkpoint of now."""
        self.since_s[jobs] = self.steps[jobs] = 0.0
