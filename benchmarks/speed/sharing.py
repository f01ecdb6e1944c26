"""Goal P9: space sharing, where pairs of jobs are rows of the allocation matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.speed.problems import draw
from benchmarks.speed.timing import ours

if TYPE_CHECKING:
    from benchmarks.speed.harness import Row
    from benchmarks.speed.settings import Settings

__all__ = ["sharing"]

POLICY = "max_min_fairness_space_sharing"
_GAVEL_UP_TO = 256  # it has a row for every pair of jobs


def sharing(settings: Settings) -> list[Row]:
    """Solve max-min fairness with single-GPU jobs that may share."""
    rows = []
    for jobs in (64,) if settings.quick else (256, 2048, 16384):
        case = draw(jobs, 3, settings.data, single=True)
        timed = ours(POLICY, case, repeats=3, called=False, pairs=case.pairs)
        found = settings.gavel.solve(POLICY, case) if jobs <= _GAVEL_UP_TO else {}
        pairs = f"{timed.solution.stats['pairs']} pairs of classes"
        said = "" if found.get("optimal", True) else "; Gavel says not optimal"
        small = jobs <= _GAVEL_UP_TO
        row = timed.row(
            *("P9", f"{POLICY}, {jobs} x 3", ">= 500 x Gavel" if small else "<= 25 ms"),
            peer=f"Gavel ({found['solver']})" if found else "Gavel" if small else "",
            peer_s=found.get("seconds", np.nan),
            ratio_goal=500 if small else None,
            seconds_goal=None if small else 0.025,
            note=pairs + said,
        )
        rows.append(row)
    return rows
