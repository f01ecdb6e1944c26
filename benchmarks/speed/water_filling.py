"""Goal P8: lexicographic max-min fairness, level by level."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from apportion.policies import MaxMinFairness, solve_instance
from benchmarks.speed.harness import Row, cpu_seconds
from benchmarks.speed.problems import draw

__all__ = ["water_filling"]

GAVEL_S = {32: 0.128, 64: 0.233, 128: 0.495, 256: 1.47}
"""CPU seconds of Gavel's own code, a linear and a mixed-integer program for each level, by jobs."""


def water_filling(quick: bool) -> list[Row]:
    """Fill to the lexicographic optimum, jobs with weights, more GPUs than jobs at the end."""
    rows = []
    policy = MaxMinFairness(lexicographic=True)
    for jobs in (64,) if quick else (256, 16384):
        case = draw(jobs, 3)
        weight = np.random.default_rng(1).choice([1.0, 2.0, 4.0], jobs)
        case = replace(case, columns=case.columns | {"weight": weight}, gpus=case.gpus * 1.6)
        instance = case.instance
        seconds, solution = cpu_seconds(partial(solve_instance, policy, instance), 3)
        row = Row(
            *("P8", f"water filling, {jobs} x 3", ">= 80 x Gavel's code, no integer program"),
            ours_s=seconds,
            theirs="Gavel's code (cited)",
            theirs_s=GAVEL_S.get(jobs, np.nan),
            classes=solution.stats["classes"],
            gap=solution.gap,
        )
        row.met = row.ratio >= 80 if jobs in GAVEL_S else None
        rows.append(row)
    return rows
