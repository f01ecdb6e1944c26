"""A warning where a policy lets a job wait for very long though others have GPUs to spare."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["LONG", "StarvationWatch"]

LONG = 120
"""Intervals in a row after which a job that could have had GPUs of another is said to starve."""

logger = logging.getLogger(__name__)


class StarvationWatch:
    """Counts for how many decisions in a row each job was left out, and warns once.

    Parameters
    ----------
    policy
        What the message calls it.
    jobs
        How many there are.
    """

    def __init__(self, policy: str, jobs: int) -> None:
        self._policy, self._left_out = policy, np.zeros(jobs, dtype=np.int64)
        self._warned = False

    def note(self, now_s: float, jobs: Ints, gpus: Ints, fewest: Floats) -> None:
        """Take a decision down.

        Parameters
        ----------
        now_s
            When it was made.
        jobs
            Numbers of those that it was about.
        gpus
            What each got.
        fewest
            With how many each can run.
        """
        spare = gpus.max(initial=0) > fewest
        self._left_out[jobs] = np.where((gpus == 0) & spare, self._left_out[jobs] + 1, 0)
        longest = int(self._left_out[jobs].max(initial=0))
        if longest >= LONG and not self._warned:
            self._warned = True
            job = int(jobs[self._left_out[jobs].argmax()])
            logger.warning(
                "Policy %s has left job %d (in order of arrival) without GPUs in %d decisions in a "
                "row, up to %.0f s, while another job holds more GPUs than this one needs. A job "
                "may starve: what a first GPU is worth to it is less than what more are worth to "
                "others. With Sia, a penalty of 2 or more prevents that.",
                *(self._policy, job, longest, now_s),
            )
