"""Goal P8: lexicographic max-min fairness, level by level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from apportion.policies import MaxMinFairness
from benchmarks.speed.problems import draw
from benchmarks.speed.timing import ours

if TYPE_CHECKING:
    from benchmarks.speed.harness import Row
    from benchmarks.speed.problems import Case
    from benchmarks.speed.settings import Settings

__all__ = ["water_filling"]

Floats = NDArray[np.float64]

_GAVEL_UP_TO = 256


def water_filling(settings: Settings) -> list[Row]:
    """Fill to the lexicographic optimum; both stages are one here."""
    rows = []
    cases = [
        ("P8", draw(jobs, 3, settings.data)) for jobs in ((64,) if settings.quick else (256, 16384))
    ]
    cases.insert(1, ("S6", cases[0][1].weighted()))
    for goal, case in cases:
        weights = ", weights" if goal == "S6" else ""
        jobs, ratio = case.scale.size, {"P8": 80, "S6": 60}[goal]
        timed = ours(MaxMinFairness(lexicographic=True), case, repeats=3, binding=goal == "P8")
        small = jobs <= _GAVEL_UP_TO
        found = settings.gavel.solve("max_min_fairness_lexicographic", case) if small else {}
        row = timed.row(
            *(goal, f"max_min_fairness, lexicographic, {jobs} x 3{weights}"),
            target=f">= {ratio} x Gavel" if small else "",
            peer=f"Gavel ({found['solver']}, GLPK)" if found else "Gavel" if small else "",
            peer_s=found.get("seconds", np.nan),
            ratio_goal=ratio if small else None,
            note=_apart(case, found["X"], timed.solution.throughput) if found else "",
        )
        row.first_s = np.nan  # not what the policy asks for
        rows.append(row)
    return rows


def _apart(case: Case, X: Floats, throughput: Floats) -> str:
    """Say how far Gavel's levels are from ours, in sorted order, relative to the largest."""
    weight = case.columns.get("weight", np.ones(case.scale.size))
    equal_share = weight * (case.speed @ (case.gpus / case.gpus.sum()))
    theirs = np.sort(case.scale * (case.speed * X).sum(axis=1) / equal_share)
    mine = np.sort(case.scale * throughput / equal_share)
    return f"sorted levels differ by {np.abs(theirs - mine).max() / mine.max():.0e}"
