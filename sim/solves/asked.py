"""How often a policy was asked in a run, and what came of it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from apportion.resumable import Resumable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.policies import Solution

__all__ = ["Solves"]


class Solves(Resumable):
    """How often a policy was asked, how long that took, and how many answers are in doubt.

    Parameters
    ----------
    policy
        Name of the policy.

    Attributes
    ----------
    count
        How often it was asked.
    seconds
        Real time that it took, seconds.
    uncertified
        Solves whose result is not certified to be as good as was asked for.
    on_average
        Labels of constraints of the policy's own that are kept on average only.
    """

    kept = ("count", "seconds", "uncertified", "on_average")

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self.count, self.seconds, self.uncertified = 0, 0.0, 0
        self.on_average: set[str] = set()

    @contextmanager
    def at(self, now_s: float, jobs: int) -> Iterator[None]:
        """Count what is asked inside; errors get a note of the policy, the time and the jobs."""
        started = time.perf_counter()
        try:
            yield
        except Exception as error:
            at = f"at {now_s:.0f} s of the simulation for {jobs} jobs"
            error.add_note(f"while solving {self._policy!r} {at}")
            raise
        self.count += 1
        self.seconds += time.perf_counter() - started

    def noted(self, solution: Solution) -> Solution:
        """Return a solution, counted if it is in doubt."""
        self.uncertified += solution.status != "optimal"
        return solution

    def figures(self) -> dict[str, Any]:
        """Return them as a `Run` calls them."""
        return {
            "policy_seconds": self.seconds,
            "solves": self.count,
            "uncertified": self.uncertified,
            "on_average": tuple(sorted(self.on_average)),
        }
