"""Are the marks of tables right? Many draws of jobs, each judged alone, and by five.

``python -m benchmarks.noise`` draws workloads again and again and compares the same policies on
each. The mean over all draws is taken for the truth. The first table says of each two policies in
how many draws the interval of 95 % about their difference, by batches of jobs of that draw alone,
holds it; the second how often a star stood behind the best policy, behind another, or behind none:
by the batches of one draw, as `apportion.Comparison` has it, and by five draws, as a sweep has it.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.report.noise import batch_figures, differences_of, marks_of
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CLUSTER = "v100=8,p100=8,k80=8"
POLICIES = ("max_min_fairness", "shortest_job_first", "fifo", "easy", "minimum_completion_time")
LOADS = {"crowded": 8.0, "light": 2.0}
"""Jobs an hour."""
TOGETHER = 5


def main() -> None:
    """Draw, compare, and print both tables."""
    options = parser(
        "noise", "Marks of tables against many draws.", "four small draws"
    ).parse_args()
    jobs, draws = (24, 5) if options.quick else (100, 60)
    print(f"{draws} draws of {jobs} jobs on {CLUSTER}; starts cost what was measured")
    settings: list[Settings] = [
        {"load": load, "jobs": jobs, "seed": seed} for load in LOADS for seed in range(draws)
    ]
    print(f"on {machine()}")
    runs = run_all(_work, settings, options, "noise")
    drawn = {load: _replicates(runs[runs["load"] == load]) for load in LOADS}
    held = pd.concat([_held(load, each) for load, each in drawn.items()])
    show(held)
    show(pd.DataFrame([row for load, each in drawn.items() for row in _stars(load, each)]))
    write_csv(held, options.out, "noise")


def _work(settings: Settings, _data: Path | None) -> dict[str, Any]:
    """Compare the policies on one draw; return what batches contribute to the means, hours."""
    workload = ap.generate_workload(
        jobs=settings["jobs"], jobs_per_hour=LOADS[settings["load"]], seed=settings["seed"]
    )
    compared = ap.compare(POLICIES, workload, CLUSTER, n_jobs=1, progress=False)
    tables = {label: run.jobs for label, run in compared.runs.items()}
    hours = batch_figures(tables)["mean_jct_s"] / 3600
    return {
        f"{policy} {batch}": float(value)
        for policy, row in zip(tables, hours, strict=True)
        for batch, value in enumerate(row)
    }


def _replicates(runs: pd.DataFrame) -> Floats:
    """Return hours by draw, policy and batch."""
    of_policy = [runs.filter(regex=f"^{policy} [0-9]+$").to_numpy(float) for policy in POLICIES]
    return np.stack(of_policy, axis=1)


def _held(load: str, drawn: Floats) -> pd.DataFrame:
    """Return in which part of the draws the interval of one holds the mean of all, by pair."""
    means = drawn.mean(axis=2)
    rows = []
    for one, other in combinations(range(len(POLICIES)), 2):
        truth = float((means[:, one] - means[:, other]).mean())
        found = [
            differences_of({"h": batches[[one, other]]}, ["one", "other"], "other").iloc[0]
            for batches in drawn
        ]
        rows.append(
            {
                "load": load,
                "policies": f"{POLICIES[one]}, {POLICIES[other]}",
                "difference h": truth,
                "sd of a draw": float((means[:, one] - means[:, other]).std(ddof=1)),
                "held": float(np.mean([each.low <= truth <= each.high for each in found])),
                "told apart": float(np.mean([each.low > 0 or each.high < 0 for each in found])),
            }
        )
    return pd.DataFrame(rows)


def _stars(load: str, drawn: Floats) -> Iterable[dict[str, Any]]:
    """Count where stars stand, by the batches of one draw and by several draws."""
    means = drawn.mean(axis=2)
    best = int(means.mean(axis=0).argmin())
    several = [
        means[first : first + TOGETHER].T for first in range(0, len(means) - TOGETHER + 1, TOGETHER)
    ]
    for judged_by, replicates in {"one draw": [*drawn], f"{TOGETHER} draws": several}.items():
        marks = [marks_of(each) for each in replicates]
        count = Counter(each.index("*") if "*" in each else -1 for each in marks)
        yield {
            "load": load,
            "best": POLICIES[best],
            "judged by": judged_by,
            "tables": len(marks),
            "star on the best": count[best],
            "on another": len(marks) - count[best] - count[-1],
            "~ on the best": sum(each[best] == "~" for each in marks),
        }


if __name__ == "__main__":
    main()
