"""How often a policy was asked in a run, and what came of it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.resumable import Resumable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from apportion.policies import Instance, Solution

    Ints = NDArray[np.intp]

__all__ = ["Answer", "Solves"]


class Answer(NamedTuple):
    """What a policy was asked last, and what it answered.

    Attributes
    ----------
    jobs
        Numbers of the jobs, which are the rows of the problem.
    instance, solution
        The problem, and what came of it.
    labels
        What tells options apart, by name of the level, shape (options,) each: ``accelerator``
        (place of the type), and where there are such, ``tier``, ``gpus``, ``rack`` and ``machine``.
    """

    jobs: Ints
    instance: Instance
    solution: Solution
    labels: Mapping[str, Ints]


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
    last
        What the policy answered last, if it has answered; not kept in snapshots.
    why_none
        Says what keeps jobs from running of which the policy can have none run; empty otherwise.
    """

    kept = ("count", "seconds", "uncertified", "on_average")

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self.count, self.seconds, self.uncertified = 0, 0.0, 0
        self.on_average: set[str] = set()
        self.last: Answer | None = None
        self.why_none: Callable[[], str] = str

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

    def noted(self, answer: Answer) -> None:
        """Keep an answer, counted if it is in doubt."""
        self.uncertified += answer.solution.status != "optimal"
        self.last = answer

    def figures(self) -> dict[str, Any]:
        """Return them as a `Run` calls them."""
        return {
            "policy_seconds": self.seconds,
            "solves": self.count,
            "uncertified": self.uncertified,
            "on_average": tuple(sorted(self.on_average)),
        }
