"""How often a policy was asked in a run, and what came of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from apportion.policies import Instance, Solution
    from apportion.types import Floats, Ints


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


class Solves:
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
        What the policy answered last, if it has answered.
    prices
        Of each answer, if they are kept (`keep_prices`): time, jobs, names of the resources, and
        what one more unit of each would improve the objective by. None otherwise.
    why_none
        Says what keeps jobs from running of which the policy can have none run; empty otherwise.
    """

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self.count, self.seconds, self.uncertified = 0, 0.0, 0
        self.on_average: set[str] = set()
        self.last: Answer | None = None
        self.why_none: Callable[[], str] = str
        self.prices: list[tuple[float, int, tuple[str, ...], Floats]] | None = None
        self._now_s, self._jobs, self._began_s = 0.0, 0, 0.0

    def keep_prices(self) -> None:
        """Keep the prices of every answer from now on; nothing is kept otherwise."""
        self.prices = []

    def at(self, now_s: float, jobs: int) -> Solves:
        """Count what is asked inside; errors get a note of the policy, the time and the jobs."""
        self._now_s, self._jobs, self._began_s = now_s, jobs, time.perf_counter()
        return self

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any
    ) -> None:
        if error is None:
            self.count += 1
            self.seconds += time.perf_counter() - self._began_s
        elif isinstance(error, Exception):
            at = f"at {self._now_s:.0f} s of the simulation for {self._jobs} jobs"
            error.add_note(f"while solving {self._policy!r} {at}")

    def noted(self, answer: Answer) -> None:
        """Keep an answer, counted if it is in doubt."""
        self.uncertified += answer.solution.status != "optimal"
        self.last = answer
        prices = answer.solution.prices
        self.priced(answer.instance.resource_names or tuple(map(str, range(prices.size))), prices)

    def priced(self, names: tuple[str, ...], prices: Floats) -> None:
        """Keep the prices of an answer, by names of the resources, if they are asked for."""
        if self.prices is not None:
            self.prices.append((self._now_s, self._jobs, tuple(names), np.array(prices)))

    def price_table(self, types: Iterable[str]) -> pd.DataFrame:
        """Return the prices, a row per answer: ``time_s``, ``jobs``, a column for each resource.

        Accelerator types come first, in the order given; a resource that an answer does not know
        has no price there (NaN).
        """
        kept = self.prices or []
        names = dict.fromkeys(name for each in kept for name in each[2])
        known = [name for name in types if name in names]
        columns = [*known, *(name for name in names if name not in known)]
        place = {name: at for at, name in enumerate(columns)}
        table = np.full((len(kept), len(columns)), np.nan)
        for row, (_, _, named, prices) in zip(table, kept, strict=True):
            row[[place[name] for name in named]] = prices
        facts = {
            "time_s": np.array([each[0] for each in kept], dtype=float),
            "jobs": np.array([each[1] for each in kept], dtype=np.int64),
        }
        found = pd.DataFrame(table, columns=columns)
        return pd.concat([pd.DataFrame(facts), found], axis=1).rename_axis("solve")

    def figures(self) -> dict[str, Any]:
        """Return them as a `Run` calls them."""
        return {
            "policy_seconds": self.seconds,
            "solves": self.count,
            "uncertified": self.uncertified,
            "on_average": tuple(sorted(self.on_average)),
        }
