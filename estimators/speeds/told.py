"""What policies are told of speeds, which changes only where it is off by much."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apportion.checks import LARGEST_NUMBER

if TYPE_CHECKING:
    from apportion.estimators.speeds.completion import Completion
    from apportion.estimators.speeds.job_rows import JobRows
    from apportion.estimators.speeds.measurements import Measurements
    from apportion.types import Floats, Ints

_WORTH_TELLING = 0.05
"""What is told changes once an estimate is off by more than this part."""


class RowEstimates(NamedTuple):
    """What is expected of rows, shape (rows, columns) each; 0 where a job cannot run.

    Attributes
    ----------
    expected
        Steps/s, exp(m).
    spread
        Standard deviation of their logarithms.
    told
        Steps/s that policies are to be told.
    """

    expected: Floats
    spread: Floats
    told: Floats


class ToldSpeeds:
    """Speeds as policies are told them, a row for each of those that are measured.

    Parameters
    ----------
    measured, jobs
        What has been measured, and whose rows these are.
    completion
        What completes rows, with the calls of `SpeedModel`.
    optimism
        As for `EstimatedSpeeds`.
    """

    def __init__(
        self, measured: Measurements, jobs: JobRows, completion: Completion, optimism: float
    ) -> None:
        self._measured, self._jobs, self._completion = measured, jobs, completion
        self._optimism = optimism
        self.speeds: Floats = np.zeros((0, measured.count.shape[1]))
        """Steps/s, shape (rows, columns), with room for more rows."""

    def add(self, rows: Ints) -> None:
        """Tell of new rows, which follow those there are."""
        size, there = len(self._measured), len(self.speeds)
        if size > there:
            self.speeds = np.pad(self.speeds, ((0, max(size, 2 * there) - there), (0, 0)))
        self.speeds[rows] = self.estimate(rows).told

    def tell(self, rows: Ints) -> list[int | str]:
        """Tell rows anew that are off by too much; return their jobs."""
        new, old = self.estimate(rows).told, self.speeds[rows]
        moved = (np.abs(new - old) > _WORTH_TELLING * old).any(axis=1)
        self.speeds[rows[moved]] = new[moved]
        return self._jobs.jobs(self._measured.names(rows[moved]))

    def take_up(self, speeds: Floats, completion: Completion) -> None:
        """Go on from what was told by what completed rows."""
        self.speeds, self._completion = speeds, completion

    def estimate(self, rows: Ints) -> RowEstimates:
        """Return what is expected of rows by what is known now, and what there is to tell."""
        logs, counts = self._measured.log[rows], self._measured.worth[rows]
        mean, spread = self._completion.estimate(logs, counts)
        failed, measured = self._measured.failed[rows], self._measured.count[rows] > 0
        hoped = np.where(measured, mean, mean + self._optimism * spread)
        expected, told = (np.where(failed, 0.0, _exp(each)) for each in (mean, hoped))
        return RowEstimates(expected, np.where(failed, 0.0, spread), told)


def _exp(logs: Floats) -> Floats:
    """Steps/s of logarithms, no larger than numbers may be."""
    return np.exp(np.minimum(logs, np.log(LARGEST_NUMBER)))
