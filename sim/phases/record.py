"""What a run of phases on links returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["PhaseRun"]


@dataclass(frozen=True)
class PhaseRun:
    """Iterations of jobs on links.

    Attributes
    ----------
    end_s
        When the last job had made its iterations, seconds.
    starts_s
        When each iteration began, by job; the last of them is not complete.
    excess_gigabits
        Gigabits wanted above the capacity of a link, by link: the integral of max(0, demand -
        capacity) over the jobs that send. Where switches mark what they cannot pass on at once
        (ECN), marks grow with it.
    marks_gigabits
        The same by job: that of its links, by its part of what they were wanted for.
    marks_at_starts
        What they were when each iteration began, by job.
    readjusted
        How often each job waited to be on schedule again.
    """

    end_s: float
    starts_s: Mapping[Any, Floats]
    excess_gigabits: Mapping[Any, float]
    marks_gigabits: Mapping[Any, float]
    marks_at_starts: Mapping[Any, Floats]
    readjusted: Mapping[Any, int]

    def iterations_s(self, job: Any, *, after: int = 0) -> Floats:
        """Return the seconds of the iterations of a job, without so many of the first."""
        found: Floats = np.diff(self.starts_s[job])[after:]
        return found

    def mean_s(self, job: Any, *, after: int = 0) -> float:
        """Return the mean iteration of a job, seconds, without so many of the first."""
        return float(self.iterations_s(job, after=after).mean())
