"""The goals S1 to S13: what each asks for, and the rows of the suite summed up under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.speed.harness import Row

__all__ = ["ASKED", "goals"]

ASKED = {
    "S1": "`ap.solve` of 5 to 256 jobs, programs and sia: no slower than plain cvxpy's best solver",
    "S2": "16384 x 3 against Gavel's code: 60 x as called",
    "S3": "an event, both stages: max-min .25 ms or 4 x HiGHS unchanged, others .6 ms or 9 x",
    "S4": "simulator against Gavel's, every event, 108 / 1080 GPUs: 12 x / 45 x",
    "S5": "leases: .8 of 53cc48d; policies under leases 1.5 x rounds",
    "S6": "water filling of 256 jobs with weights against Gavel: 60 x",
    "S7": "16384 x 8, all different, against the best plain solver: 8 x",
    "S8": "a million jobs, both stages: max-min .15 s, others 1 s, exponent 1.05",
    "S9": "`apportion solve` from a shell: .7 CPU s",
    "S10": "80,000 jobs: half of 53568d1; 3,000 jobs of a log under fifo in 3 s",
    "S11": "links: .3 M events/s, exponent 1.1",
    "S12": "dally up to 3,000 jobs: exponent 1.1",
    "S13": "2,048 GPUs, 240 jobs, three types: whole decisions in .3 s, worst .6 s",
}
"""By goal what it asks for, in short."""

_WHY = {
    "S1": "HiGHS alone is the floor column; the rest is cvxpy's expressions and labels",
    "S3": "several hundred operations of numpy, of 1 to 2 us each",
    "S4": "without the policy a run would be as fast as its floor says",
    "S5": "no function has more than a tenth: many small steps over arrays of all jobs",
    "S9": "`import cvxpy` alone takes as long as the peer column says",
    "S12": "an offer works on arrays of all jobs that are there",
    "S13": "lists of states near the relaxation",
}
"""What holds a goal where it is, beside the floor that its rows measure."""

_HEAD = "| | asks for | rows met | furthest from it | short by | floor |\n|---|---|---|---|---|---|"


def goals(rows: Sequence[Row]) -> str:
    """Write a line for each goal: how many rows meet it, the worst of them, and its floor.

    A row is met where each of its columns that was timed is, and *short by* says how many times
    as good the worst should be. A goal of which nothing was measured says so.
    """
    return "\n".join([_HEAD, *(_line(goal, rows) for goal in ASKED)])


def _line(goal: str, rows: Sequence[Row]) -> str:
    judged = [row for row in rows if row.goal == goal and not np.isnan(row.worst)]
    open_ = sum(row.goal == goal and "not measured" in row.record()["verdict"] for row in rows)
    said = "not measured" if not judged else f"{sum(row.worst <= 1 for row in judged)} of "
    if judged:
        said += f"{len(judged)}" + (f", {open_} not measured" if open_ else "")
    cells = [goal, ASKED[goal], said, "", "", ""]
    if judged:
        worst = max(judged, key=lambda row: row.worst)
        cells[3:5] = f"{worst.what}: {worst.target}", f"{worst.worst:.2f}"
        if worst.worst > 1:
            cells[5] = "; ".join(each for each in (worst.floor, _WHY.get(goal, "")) if each)
    return f"| {' | '.join(cells)} |"
