"""Properties of Gavel's policies, on drawn instances; and what solving in parts loses.

``python -m benchmarks.gavel.properties`` draws single-GPU jobs at the speeds of Gavel's oracle and
numbers of GPUs at random. On one type, knowing types changes nothing; nobody has less than of an
isolated 1/n of every type; and pairs that may share never lower the least level. With ``--parts``
jobs and GPUs are solved in eight parts as well, as by POP (Narayanan et al., SOSP 2021).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import apportion as ap
from benchmarks.experiment import Settings, claimed, data_of, parser, run_all
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

LAS, SHARING = "max_min_fairness", "max_min_fairness_space_sharing"
DRAWS, QUICK_DRAWS = 200, 5
PART_JOBS, QUICK_PART_JOBS, PARTS = (128, 256, 512, 1024), (32,), 8
FIGURES = {"one type": "property-one-type", "isolated": "property-isolated"}
FIGURES |= {"sharing": "property-sharing"}


def main() -> None:
    """Solve the instances, print the least and the most, and judge the properties."""
    what = parser("gavel.properties", "Properties of policies.", f"{QUICK_DRAWS} draws, 32 jobs")
    what.add_argument("--parts", action="store_true", help="solve in eight parts, too")
    options = what.parse_args()
    print(f"Properties of Gavel's policies on {machine()}")
    data = data_of(options)
    draws = [{"seed": seed} for seed in range(QUICK_DRAWS if options.quick else DRAWS)]
    runs = run_all(_drawn, draws, options, "gavel_properties")
    shown = runs[list(FIGURES)].agg(["min", "median", "max"]).rename_axis("over draws")
    show(shown.reset_index(), digits=6)
    write_csv(shown.reset_index(), options.out, "gavel_properties", bars=True)
    judged = data is not None and not options.quick
    for column, name in FIGURES.items() if judged else ():
        values = runs[column]
        claimed("gavel", name, [Figure("least", float(values.min()))])
    if not options.parts:
        return
    sizes = [{"jobs": jobs} for jobs in (QUICK_PART_JOBS if options.quick else PART_JOBS)]
    table = run_all(_in_parts, sizes, options, "gavel_parts")
    show(table, digits=4)
    write_csv(table, options.out, "gavel_parts", bars=True)
    if judged:
        claimed("gavel", "parts", [Figure("", float(table["kept"].iloc[-1]))])


def _drawn(settings: Settings, data: Path | None) -> dict[str, float]:
    """Draw an instance; return ratios that a property says are at least 1."""
    rng = np.random.default_rng(settings["seed"])
    count = int(rng.integers(2, 13))
    gpus = {name: int(rng.integers(1, count + 1)) for name in ("v100", "p100", "k80")}
    workload = draw_jobs(data, jobs=count, seed=settings["seed"])
    speed, jobs = workload.throughput_of(gpus), workload.jobs[["job_type", "scale_factor"]]
    aware = ap.solve(LAS, speed, workers=gpus).throughput
    shared = ap.solve(SHARING, speed, workers=gpus, jobs=jobs, pairs=workload.pairs).throughput
    alone = ap.solve("isolated", speed, workers=gpus).throughput
    one = {"v100": gpus["v100"]}
    levels = [
        ap.solve(name, speed[["v100"]], workers=one).throughput / speed["v100"]
        for name in (LAS, f"{LAS}_agnostic")
    ]
    equal = speed.to_numpy() @ np.array(list(gpus.values())) / sum(gpus.values())
    return {
        "one type": float(levels[0].min() / levels[1].min()),
        "isolated": float((aware / alone).min()),
        "sharing": float((shared / equal).min() / (aware / equal).min()),
    }


def _in_parts(settings: Settings, data: Path | None) -> dict[str, float]:
    """Solve whole and in parts; return the part of the least level that is kept."""
    count = settings["jobs"]
    gpus = {name: count // 4 for name in ("v100", "p100", "k80")}
    workload = draw_jobs(data, jobs=count, seed=0)
    speed, jobs = workload.throughput_of(gpus), workload.jobs[["job_type", "scale_factor"]]
    seconds, least = [], []
    for parts in (1, PARTS):
        started = time.process_time()
        part = np.random.default_rng(0).permutation(count) % parts
        made = []
        for each in range(parts):
            own, room = speed[part == each], {name: n / parts for name, n in gpus.items()}
            found = ap.solve(LAS, own, workers=room, jobs=jobs[part == each])
            made.append(found.throughput / own.mean(axis=1))
        seconds.append(time.process_time() - started)
        least.append(float(pd.concat(made).min()))
    return {"kept": least[1] / least[0], "whole, CPU s": seconds[0], "parts, CPU s": seconds[1]}


if __name__ == "__main__":
    main()
