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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

import apportion as ap
from apportion.sim import measuring
from apportion.statistics import batch_figures, differences_of, marks_of
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

POLICIES = ("max_min_fairness", "shortest_job_first", "fifo", "easy", "minimum_completion_time")
TOGETHER = 5


class Load(NamedTuple):
    """Jobs that are drawn, which of them count, and where they run."""

    jobs_per_hour: float
    jobs: int = 100
    cluster: str = "v100=8,p100=8,k80=8"
    measured: tuple[float, float] = (0.0, 1.0)
    scale_factors: str = "single"


LOADS = {
    "crowded": Load(8.0),
    "light": Load(2.0),
    "as by default": Load(2.2, 600, "v100=36,p100=36,k80=36", (0.4, 0.9), "gavel"),
}


def main() -> None:
    """Draw, compare, and print both tables."""
    options = parser(
        "noise", "Marks of tables against many draws.", "three small draws"
    ).parse_args()
    draws = 3 if options.quick else 60
    for load, each in LOADS.items():
        print(f"{load}: {draws} draws of {each.jobs} jobs, {each.jobs_per_hour:g} an hour, on")
        print(f"  {each.cluster}; jobs from {each.measured[0]:.0%} to {each.measured[1]:.0%} count")
    settings: list[Settings] = [
        {"load": load, "jobs": 40 if options.quick else each.jobs, "seed": seed}
        for load, each in LOADS.items()
        for seed in range(draws)
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
    load = LOADS[settings["load"]]
    workload = ap.generate_workload(
        jobs=settings["jobs"],
        seed=settings["seed"],
        jobs_per_hour=load.jobs_per_hour,
        scale_factors=load.scale_factors,
    )
    measured = measuring(workload, *load.measured)
    compared = ap.compare(POLICIES, measured, load.cluster, n_jobs=1, progress=False)
    tables = {label: run.measured for label, run in compared.runs.items()}
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
