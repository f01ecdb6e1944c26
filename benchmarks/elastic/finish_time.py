"""Sia's finish-time fairness: jobs beside others over jobs alone on their part of the GPUs.

``python -m benchmarks.elastic.finish_time --data DIR`` reads Sia's data as
`benchmarks.elastic.measured_types` does, and runs its ten workloads of Helios (Saturn) under Sia,
Pollux on virtual nodes and Gavel. By equation 3 of the paper, a job's finish-time fairness is

    rho = sum over types g of (GPUs of g / all GPUs) * (JCT / JCT alone on n GPUs of g),

where n are all GPUs over the mean number of jobs that were there with it, itself included, and at
most those of the type. Between two whole numbers of GPUs the JCT alone is interpolated; below one
GPU it is that on one, as many times as long. A job alone is under the same scheduler. Under Gavel
it has its user's GPUs, and takes as many times as long as these are more than n; types that have
fewer are left out. So the paper's own program has it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.statistics import to_markdown
from benchmarks.elastic import measured_types as measured
from benchmarks.experiment import claimed, parser, run_all
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from apportion.types import Floats

CLUSTER = measured.CLUSTERS["three types"]
PUBLISHED = {"sia": 1.2, measured.VIRTUAL: 4.6, measured.TOTAL: 27.8}
"""The largest of all jobs."""

LONG = "imagenet"
LONG_INTERVAL_S = 600.0
"""Alone, jobs that take days decide so often, and may have all GPUs at once."""

APART_S = 1e8
"""Between two arrivals of jobs that are each alone."""

_alone_s: dict[tuple[str, str, str, int], float] = {}


def contention(jobs: pd.DataFrame) -> Floats:
    """Return the mean number of jobs that were there while each one was, shape (jobs,)."""
    begin, end = (jobs[name].to_numpy() for name in ("arrival_s", "completion_s"))
    first, last = np.maximum.outer(begin, begin), np.minimum.outer(end, end)
    there: Floats = np.maximum(last - first, 0.0).sum(axis=1) / (end - begin)
    return there


def on_gpus(share: float, most: int, seconds: Callable[[int], float]) -> float:
    """Return the JCT on a share of GPUs, from those on whole numbers of them."""
    if share < 1:
        return seconds(1) / share
    low, high = (int(min(edge(share), most)) for edge in (np.floor, np.ceil))
    return seconds(low) + (seconds(high) - seconds(low)) * min(share - low, high - low)


def elastic_alone(
    workload: ap.ElasticWorkload, way: str, kind: str, application: str, gpus: int
) -> float:
    """Return the JCT of an application on so many GPUs of a type, under the scheduler of a way."""
    key = (way, kind, application, gpus)
    if key not in _alone_s:
        jobs = workload.jobs
        one = jobs[jobs["application"] == application].iloc[:1].assign(arrival_s=0.0)
        how: dict[str, Any] = measured.how_elastic(way)
        if application == LONG:
            how |= {"interval_seconds": LONG_INTERVAL_S, "growth": np.inf}
        cluster = ap.Cluster({kind: gpus}, {kind: CLUSTER.machine_sizes[kind]})
        run = ap.simulate(
            way.partition(",")[0],
            replace(workload, jobs=one),
            cluster,
            mechanism=ap.Configurations(**how),
        )
        _alone_s[key] = float(run.jobs["jct_s"].item())
    return _alone_s[key]


def rigid_alone(workload: ap.ElasticWorkload, way: str, kind: str) -> pd.Series:
    """Return the JCT of every job that fits on a type, with the GPUs and batch of its user."""
    count = int(CLUSTER.counts[CLUSTER.accelerators.index(kind)])
    jobs = workload.jobs[workload.jobs["gpus"] <= count]
    jobs = jobs.assign(arrival_s=APART_S * np.arange(len(jobs)))
    cluster = ap.Cluster({kind: count}, {kind: CLUSTER.machine_sizes[kind]})
    alone = replace(workload, jobs=jobs)
    return measured.as_users_say(alone, cluster, way).jobs["jct_s"]


def fairness(workload: ap.ElasticWorkload, way: str, jobs: pd.DataFrame) -> pd.Series:
    """Return the finish-time fairness of every job of a run, see the top of the file."""
    share = int(CLUSTER.counts.sum()) / contention(jobs)
    total, weight = np.zeros((2, len(jobs)))
    for kind, count in zip(CLUSTER.accelerators, CLUSTER.counts.tolist(), strict=True):
        if way in measured.AS_USERS_SAY:
            gpus = workload.jobs["gpus"].loc[jobs.index].to_numpy()
            alone = rigid_alone(workload, way, kind).reindex(jobs.index).to_numpy()
            alone = alone * np.maximum(gpus / share, 1.0)
        else:
            names = workload.jobs["application"].loc[jobs.index]
            alone = np.zeros(len(jobs))
            for place, (part, name) in enumerate(zip(share, names, strict=True)):
                seconds = partial(elastic_alone, workload, way, kind, name)
                alone[place] = on_gpus(part, count, seconds)
        fits = np.isfinite(alone)
        total[fits] += count * (jobs["jct_s"].to_numpy() / alone)[fits]
        weight[fits] += count
    return pd.Series(total / weight, index=jobs.index, name="rho")


def play(settings: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
    """Run one workload one way; return what is told of the finish-time fairness of its jobs."""
    workload, way = measured.jobs_of(settings, data), settings["way"]
    gpus = np.minimum(workload.jobs["gpus"], CLUSTER.counts.max())
    workload = replace(workload, jobs=workload.jobs.assign(gpus=gpus))
    run = measured.run_of(workload, CLUSTER, way, settings["workload"])
    rho = fairness(workload, way, run.jobs)
    return {
        "worst": float(rho.max()),
        "of": str(workload.jobs["application"].loc[rho.index[int(rho.argmax())]]),
        "unfair %": 100 * float((rho > 1).mean()),
        "median": float(rho.median()),
        "mean h": float(run.jobs["jct_s"].mean()) / 3600,
    }


def main() -> None:
    """Run and print."""
    options = parser("elastic.finish_time", (__doc__ or "").partition("\n")[0], "six jobs")
    options.add_argument("--workloads", type=int, nargs="+", default=list(range(1, 11)))
    options.add_argument("--ways", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    args = options.parse_args()
    there = not args.quick and (args.data / "traces").is_dir()
    if not there:
        print("Jobs are generated.")
        args.data = args.data / "nowhere"
    settings = [
        {"log": "saturn", "workload": number, "way": way, "jobs": 6, "calibrated": True}
        for number in (args.workloads if there else [1])
        for way in args.ways
    ]
    runs = run_all(play, settings, args, "elastic_finish_time")
    shown = runs[["workload", "way", "worst", "of", "unfair %", "median", "mean h"]]
    print(f"\n{to_markdown(shown)}\n")
    write_csv(shown, args.out, "elastic_finish_time", bars=True)
    of_way = runs.groupby("way", sort=False)
    worst = of_way["worst"].max()
    for way in args.ways:
        unfair = of_way["unfair %"].mean()[way]
        print(f"{way}: worst {worst[way]:.3g} ({PUBLISHED[way]} published), unfair {unfair:.1f} %")
    if there and len(worst) == len(PUBLISHED):
        ratios = [Figure(way, float(worst[way] / each)) for way, each in PUBLISHED.items()]
        claimed("deepboot", "sia-fairness", ratios)
    print(machine())


if __name__ == "__main__":
    main()
