"""Sia, Pollux and Gavel on types that applications were measured on, as Sia publishes them.

``python -m benchmarks.elastic.measured_types --data DIR`` reads the folder ``sia-simulator`` of
https://github.com/siasosp23/artifacts (traces and workloads of SOSP 2023; not part of this
project): T4, RTX and A100 have profiles of their own (``aws``, ``rtx``, ``dgx-ext``) and machines
of 4, 8 and 8 GPUs. Philly 1 to 4 and Saturn 1 to 5, with the seconds of restarts of its simulator.

Ways: Sia; Pollux that is told goodputs by type; Pollux as published, to which all types are alike,
so that it gets whatever type is free (its virtual machines of four GPUs are not built here); Gavel
(``max_min_fairness``, rounds of 360 s) with the GPUs and batches of the users. On the 64 GPUs of
three types, and on 64 T4. Without the data jobs are generated, with types that are 1.5 and 4 times
as fast, and no verdict is given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.cluster import Cluster
from apportion.sim.traces.pollux import read_pollux_workload
from apportion.statistics import to_markdown
from benchmarks.elastic.runs import RELATIVE_SPEED, agrees, figures, in_words, paired
from benchmarks.experiment import parser, run_all
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

CLUSTERS = {
    "three types": Cluster({"t4": 24, "rtx": 24, "a100": 16}, {"t4": 4, "rtx": 8, "a100": 8}),
    "t4 only": Cluster({"t4": 64}),
}
FILES = {"t4": "aws", "rtx": "rtx", "a100": "dgx-ext"}
"""What the files of a type are called."""

RESTART_S = {
    "cifar10": 50.0,
    "deepspeech2": 25.0,
    "bert": 120.0,
    "yolov3": 80.0,
    "imagenet": 250.0,
    "ncf": 15.0,
}
"""Seconds of a restart in Sia's simulator."""

WAYS = ("sia", "pollux", "pollux, types alike", "gavel")
PAPER = {"gavel": 0.32, "pollux, types alike": 0.60}
"""Mean completion time of Sia over that of another, three types, Philly: section 5."""

LOGS = (*(("philly", number) for number in range(1, 5)), *(("saturn", n) for n in range(1, 6)))


def jobs_of(log: str, number: int, data: Path | None, jobs: int) -> ap.ElasticWorkload:
    """Read a workload with its profiles, or draw one."""
    if data is None:
        made = ap.generate_elastic_workload(jobs, hours=jobs / 20, seed=number)
        return replace(made, relative_speed=RELATIVE_SPEED)
    file = data / "workloads" / log / f"workload-{number}.csv"
    read = read_pollux_workload(file, data / "traces", types=FILES)
    return replace(read, restart_s={name: (each, each) for name, each in RESTART_S.items()})


def play(settings: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
    """Run one workload one way."""
    workload = jobs_of(settings["log"], settings["workload"], data, settings["jobs"])
    cluster, way = CLUSTERS[settings["cluster"]], settings["way"]
    if way == "gavel":
        jobs = workload.jobs.assign(gpus=np.minimum(workload.jobs["gpus"], cluster.counts.max()))
        rigid = replace(workload, jobs=jobs).rigid(cluster.accelerators, cluster.machine_sizes)
        rounds = ap.Rounds(seconds=360.0, preemption_overhead_seconds=60.0)
        return figures(ap.simulate("max_min_fairness", rigid, cluster, mechanism=rounds), workload)
    alike = way.endswith("alike")
    how = ap.Configurations(goodputs="one_type" if alike else "told", keep_paused=way == "sia")
    return figures(ap.simulate(way.partition(",")[0], workload, cluster, mechanism=how), workload)


def settings_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """List the runs."""
    logs = LOGS[:1] if args.quick else LOGS
    return [
        {"cluster": cluster, "log": log, "workload": number, "seed": -1, "way": way, "jobs": jobs}
        for cluster in CLUSTERS
        for log, number in logs
        for way in WAYS
        if cluster != "t4 only" or not way.endswith("alike")
        for jobs in [6 if args.quick else 160]
    ]


def main() -> None:
    """Run and print."""
    first = (__doc__ or "").partition("\n")[0]
    options = parser("elastic.measured_types", first, "six generated jobs")
    args = options.parse_args()
    measured = not args.quick and (args.data / "traces").is_dir()
    if not measured:
        print("Jobs are generated.")
        args.data = args.data / "nowhere"
    runs = run_all(play, settings_of(args), args, "elastic_measured_types")
    shown = ["mean h", "p99 h", "makespan h", "rho max", "restarts", "used"]
    means = runs.groupby(["cluster", "log", "way"], sort=False)[shown].mean().reset_index()
    rows = []
    for (cluster, log), here in runs.groupby(["cluster", "log"], sort=False):
        for way in [each for each in here["way"].unique() if each != "sia" and len(here) > 4]:
            found = paired(here, {"way": "sia"}, {"way": way})
            row = {"cluster": cluster, "log": log, "sia over": way, "mean JCT": in_words(found)}
            paper = PAPER.get(way) if (cluster, log) == ("three types", "philly") else None
            told = {"paper": np.nan, "verdict": "nothing published"}
            if paper is not None and measured:
                told = {"paper": paper, "verdict": agrees(found, paper)}
            rows.append(row | told)
    for name, table in (("means", means), ("ratios", pd.DataFrame(rows))):
        print(f"\n{to_markdown(table)}" if len(table) else "")
        write_csv(table, args.out, f"elastic_measured_types_{name}")
    print(machine())


if __name__ == "__main__":
    main()
