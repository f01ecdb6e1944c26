"""Goal P9: space sharing, where pairs of jobs are rows of the allocation matrix."""

from __future__ import annotations

from functools import partial

import numpy as np

from apportion.policies import get_policy, solve_instance
from benchmarks.speed.harness import Row, cpu_seconds
from benchmarks.speed.problems import draw

__all__ = ["sharing"]

GAVEL_S = {64: 0.105, 128: 0.537, 256: 7.89}
"""CPU seconds of Gavel's own code by jobs; at 256 its solver does not reach an optimum."""


def sharing(quick: bool) -> list[Row]:
    """Solve max-min fairness with single-GPU jobs that may share."""
    rows = []
    policy = get_policy("max_min_fairness_space_sharing")
    for jobs in (64,) if quick else (256, 2048, 16384):
        case = draw(jobs, 3, single=True)
        instance, table = case.instance, case.pairs
        seconds, solution = cpu_seconds(
            partial(solve_instance, policy, instance, pairs=table, second_stage=False), 3
        )
        row = Row(
            *("P9", f"space sharing, {jobs} x 3", ">= 500 x Gavel's code; <= 25 ms at any size"),
            ours_s=seconds,
            theirs="Gavel's code (cited)",
            theirs_s=GAVEL_S.get(jobs, np.nan),
            classes=solution.stats["classes"],
            gap=solution.gap,
            note=f"{solution.stats['pairs']} pairs of classes",
        )
        row.met = row.ours_s <= 0.025 if jobs > 256 else row.ratio >= 500
        rows.append(row)
    return rows
