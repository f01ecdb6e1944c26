"""Where gangs lie and when they start, as `solve` answers it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.allocation import Allocation
from apportion.policies.whole.rotations import PlacementAndRotation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.policies import Solution
    from apportion.sim.shifts.placed_search import PlacedSearch

PROVED = 1e-6
"""Gap below which no choice is better: that of branch and bound."""


@dataclass(frozen=True, eq=False, repr=False)
class GangPlacement(Allocation):
    """Where gangs lie and when they start: an `Allocation` whose options are (candidate, slots).

    The objective is the weighted sum of the jobs' slowdowns as they are on slots of time; its gap
    is that to the best bound that is known. `throughput` are iterations per second with the
    slowdowns that the law of the score tells, exactly and not on slots.

    Attributes
    ----------
    gangs
        GPUs of each job, by job.
    shifts_s, periods_s
        Seconds by which each job starts later, and the period to which it is paced, by job.
    slowdowns
        Iterations over those alone, by job, pacing counted.
    scores
        Compatibility of each link with several jobs, by link.
    """

    gangs: pd.Series = field(default_factory=lambda: pd.Series(dtype=object))
    shifts_s: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    periods_s: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    slowdowns: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    scores: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))

    @property
    def table(self) -> pd.DataFrame:
        """A row for each job: its GPUs, candidate, shift, pace, and slowdown."""
        return pd.DataFrame(
            {
                "gpus": self.gangs,
                "candidate": [candidate for candidate, _ in self.choice],
                "shift_s": self.shifts_s,
                "period_s": self.periods_s,
                "slowdown": self.slowdowns,
            }
        )

    def _tables(self) -> list[pd.DataFrame]:
        return [self.table]


@dataclass
class FoundGangs:
    """What was found, part by part.

    Attributes
    ----------
    candidates, rotations
        Of each job.
    objective, bound
        Sums over the parts.
    proofs
        What proved each part, and the seconds it took.
    """

    candidates: list[int]
    rotations: list[int]
    objective: float
    bound: float
    proofs: list[tuple[str, float]]

    @property
    def gap(self) -> float:
        """Part of the objective by which another choice may be better."""
        lacks = max(0.0, self.objective - self.bound)
        return lacks / self.objective if self.objective else 0.0

    @property
    def proved(self) -> bool:
        """Whether no choice is better."""
        return self.gap <= PROVED

    def take(
        self, members: Sequence[int], search: PlacedSearch, bound: float, solved: Solution | None
    ) -> None:
        """Take down what was found for some jobs."""
        for job, candidate, turn in zip(members, search.candidates, search.rotations, strict=True):
            self.candidates[job], self.rotations[job] = candidate, turn
        self.objective += search.objective
        self.bound += min(bound, search.objective)
        by = "search" if bound >= search.objective * (1 - 1e-12) else "nobody"
        proof = (by, 0.0)
        if solved is not None:
            proof = solved.stats.get("proved_by") or "nobody", solved.stats.get("solve_s", 0.0)
        self.proofs.append(proof)


def gang_placement(
    found: FoundGangs, names: Sequence[str], message: str, **by_job: pd.Series
) -> GangPlacement:
    """Put labels on what was found.

    Parameters
    ----------
    found
        Candidates and rotations of the jobs.
    names
        Links that may be crowded.
    message
        What is to be said of it.
    by_job
        Attributes of a `GangPlacement`, among them `gangs`, whose labels are the jobs.
    """
    options = list(zip(found.candidates, found.rotations, strict=True))
    columns = sorted(set(options)) or [(0, 0)]
    X = np.array([[float(each == option) for option in columns] for each in options])
    jobs = pd.Index(list(by_job["gangs"].index), tupleize_cols=False)
    told: dict[str, Any] = dict(by_job)
    return GangPlacement(
        X=pd.DataFrame(
            X.reshape(len(jobs), len(columns)),
            jobs,
            pd.MultiIndex.from_tuples(columns, names=["candidate", "slots"]),
        ),
        prices=pd.Series(np.nan, index=list(names), name="price", dtype=float),
        objective=found.objective,
        gap=found.gap,
        status="optimal" if found.proved else "time_limit",
        policy=repr(PlacementAndRotation()),
        unit="(sum of slowdowns)",
        integral=True,
        message=message,
        stats={
            "jobs": len(jobs),
            "links": len(names),
            "proved_by": ", ".join(sorted({each for each, _ in found.proofs})),
            "solve_s": sum(solve_s for _, solve_s in found.proofs),
        },
        **told,
    )
