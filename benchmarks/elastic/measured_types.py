"""Sia, Pollux and Gavel on types that applications were measured on, as Sia publishes them.

``python -m benchmarks.elastic.measured_types --data DIR`` reads the folder ``sia-simulator`` of
https://github.com/siasosp23/artifacts (traces and workloads of SOSP 2023; not part of this
project): T4, RTX and A100 have profiles of their own (``aws``, ``rtx``, ``dgx-ext``) and machines
of 4, 8 and 8 GPUs. Philly 1 to 4, Saturn (from Helios) 1 to 5 and newTrace 1 to 5, which has 960
jobs in 48 hours; with the seconds of restarts of its simulator.

Ways: Sia; Pollux that is told goodputs by type; Pollux to which all types are alike, so that it
gets whatever type is free; Pollux as it was run there, which does not see types, on machines that
are cut into such of four GPUs (``goodputs="virtual_nodes"``). With the GPUs and batches of the
users: Gavel, as ``max_min_fairness`` and as the paper runs it, the largest total throughput, in
rounds of 360 s; Themis by its order in leases of 360 s, and as shares of Gavel's finish-time
fairness in these rounds. On the 64 GPUs of three types, and on 64 T4. A start takes what a restart
takes in Sia's simulator, by application, under every way.
``--logs``, ``--workloads``, ``--clusters`` and ``--ways`` choose. With ``--calibrated`` steps take
as many times as long as in Sia's simulator, which fitted that to its GPUs. Without the data jobs
are generated, with types that are 1.5 and 4 times as fast, and no verdict is given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.cluster import Cluster
from apportion.estimators.goodput import MeasuredApplication, MeasuredSteps
from apportion.sim.traces.pollux import read_pollux_workload
from apportion.statistics import to_markdown
from benchmarks.elastic.runs import RELATIVE_SPEED, as_figure, figures, in_words, paired
from benchmarks.experiment import claimed, parser, run_all
from benchmarks.papers.claims import Figure
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

SLOWER: dict[str, float] = {"cifar10": 1.8, "ncf": 1.5}
SLOWER |= dict.fromkeys(("imagenet", "yolov3", "bert", "deepspeech2"), 1.2)
"""Times that a step takes as long in Sia's simulator as in the profiles."""

ROUNDS = ap.Rounds(seconds=360.0)
LEASES = ap.Leases(seconds=360.0, network="none")
AS_USERS_SAY: dict[str, tuple[str, ap.Rounds | ap.Leases]] = {
    "gavel": ("max_min_fairness", ROUNDS),
    "gavel, total": ("max_total_throughput", ROUNDS),
    "themis": ("themis", LEASES),
    "themis, shares": ("finish_time_fairness", ROUNDS),
}
"""Ways of jobs that keep the GPUs and batches of their users: decider and mechanism."""

WAYS = ("sia", "pollux", "pollux, types alike", "pollux, virtual nodes", *AS_USERS_SAY)
GOODPUTS = {"pollux, types alike": "one_type", "pollux, virtual nodes": "virtual_nodes"}
VIRTUAL, TOTAL = "pollux, virtual nodes", "gavel, total"
JCT = "mean h"
PAPER: dict[tuple[str, str, str, str], tuple[str, float]] = {
    ("three types", "philly", TOTAL, JCT): ("sia-gavel", 0.6 / 1.9),
    ("three types", "philly", VIRTUAL, JCT): ("sia-pollux", 0.6 / 1.0),
    ("three types", "saturn", TOTAL, JCT): ("sia-gavel-saturn", 0.7 / 2.5),
    ("three types", "saturn", VIRTUAL, JCT): ("sia-pollux-saturn", 0.7 / 1.0),
    ("three types", "newtrace", TOTAL, JCT): ("sia-newtrace-gavel", 0.7 / 11.3),
    ("three types", "newtrace", VIRTUAL, JCT): ("sia-newtrace", 0.7 / 1.5),
    ("t4 only", "philly", TOTAL, JCT): ("sia-one-type-gavel", 1.9 / 4.3),
    ("t4 only", "philly", "pollux", JCT): ("sia-one-type", 1.9 / 2.0),
    ("t4 only", "philly", "themis", JCT): ("sia-one-type-themis", 1.9 / 5.4),
    ("t4 only", "philly", "pollux", "restarts"): ("sia-restarts", 2.6 / 5.1),
    ("three types", "philly", VIRTUAL, "makespan h"): ("sia-makespan", 14.2 / 24.5),
    ("three types", "philly", TOTAL, "makespan h"): ("sia-makespan-gavel", 14.2 / 33.8),
    ("three types", "saturn", VIRTUAL, "makespan h"): ("sia-makespan-saturn", 14.9 / 25.5),
    ("three types", "saturn", TOTAL, "makespan h"): ("sia-makespan-gavel-saturn", 14.9 / 43.0),
    ("three types", "newtrace", VIRTUAL, "makespan h"): ("sia-makespan-newtrace", 52.2 / 62.3),
    ("three types", "newtrace", TOTAL, "makespan h"): ("sia-makespan-gavel-newtrace", 52.2 / 110),
}
"""Claims, and what Sia has over the other way by tables 3 and 4 of the paper, of two digits."""

FIGURES = {JCT: "mean JCT", "makespan h": "makespan", "restarts": "restarts"}
FIGURES |= {"p99 h": "p99 JCT", "GPU h": "GPU hours"}
"""What is compared, and how it is called."""

ABSTRACT = {
    ("three types", "philly", "p99 h"): "sia-p99",
    ("three types", "philly", "GPU h"): "sia-gpu-hours",
}
"""Claims of which the paper's abstract has a range, over Pollux and over Gavel."""

LOGS = {"philly": range(1, 5), "saturn": range(1, 6), "newtrace": range(1, 6)}


def slower(application: MeasuredApplication, times: float) -> MeasuredApplication:
    """Let every step take so many times as long, on every type."""
    steps: Any = application.steps
    frames = [pd.DataFrame(table) for table in steps.plain().values()]
    seconds = ["step_s", "synchronisation_s"]
    longer = [frame.assign(**{name: times * frame[name] for name in seconds}) for frame in frames]
    types = {name: slower(each, times) for name, each in application.on_types.items()}
    return replace(application, steps=MeasuredSteps(application.name, *longer), on_types=types)


def jobs_of(settings: Mapping[str, Any], data: Path | None) -> ap.ElasticWorkload:
    """Read a workload with its profiles, or draw one."""
    log, number, jobs = (settings[name] for name in ("log", "workload", "jobs"))
    if data is None:
        made = ap.generate_elastic_workload(jobs, hours=jobs / 20, seed=number)
        return replace(made, relative_speed=RELATIVE_SPEED)
    file = data / "workloads" / log / f"workload-{number}.csv"
    read = read_pollux_workload(file, data / "traces", types=FILES)
    if settings["calibrated"]:
        own = {name: slower(each, SLOWER[name]) for name, each in read.applications.items()}
        read = replace(read, applications=own)
    return replace(read, restart_s={name: (each, each) for name, each in RESTART_S.items()})


def how_elastic(way: str) -> dict[str, Any]:
    """Return the settings of `Configurations` under a way of elastic jobs."""
    return {"goodputs": GOODPUTS.get(way, "told"), "keep_paused": way == "sia"}


def as_users_say(workload: ap.ElasticWorkload, cluster: Cluster, way: str) -> ap.Run:
    """Run jobs with the GPUs and batches of their users; other starts than Sia's take a minute."""
    decider, mechanism = AS_USERS_SAY[way]
    rigid = workload.rigid(cluster.accelerators, cluster.machine_sizes)
    start_s = workload.jobs["application"].map(RESTART_S).fillna(60.0)
    costs = dict(zip(rigid.jobs["job_type"], start_s, strict=True))
    mechanism = replace(mechanism, preemption_overhead_seconds=costs)
    return ap.simulate(decider, rigid, cluster, mechanism=mechanism)


def run_of(workload: ap.ElasticWorkload, cluster: Cluster, way: str, seed: int) -> ap.Run:
    """Run a workload one way; with the GPUs of users, these are cut to the most of a type."""
    if way in AS_USERS_SAY:
        jobs = workload.jobs.assign(gpus=np.minimum(workload.jobs["gpus"], cluster.counts.max()))
        return as_users_say(replace(workload, jobs=jobs), cluster, way)
    how = ap.Configurations(**how_elastic(way))
    return ap.simulate(way.partition(",")[0], workload, cluster, mechanism=how, seed=seed)


def play(settings: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
    """Run one workload one way."""
    workload = jobs_of(settings, data)
    cluster = CLUSTERS[settings["cluster"]]
    return figures(run_of(workload, cluster, settings["way"], settings["workload"]), workload)


def settings_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """List the runs."""
    logs = [(log, number) for log in args.logs for number in args.workloads or LOGS[log]]
    return [
        {"cluster": cluster, "log": log, "workload": number, "seed": -1, "way": way, "jobs": jobs}
        | {"calibrated": args.calibrated}
        for cluster in args.clusters
        for log, number in (logs[:1] if args.quick else logs)
        for way in args.ways
        if cluster != "t4 only" or way not in GOODPUTS
        for jobs in [6 if args.quick else 160]
    ]


def main() -> None:
    """Run and print."""
    first = (__doc__ or "").partition("\n")[0]
    options = parser("elastic.measured_types", first, "six generated jobs")
    options.add_argument("--logs", nargs="+", default=["philly", "saturn"], choices=list(LOGS))
    options.add_argument("--workloads", nargs="+", type=int, metavar="N", help="numbers in a log")
    options.add_argument("--clusters", nargs="+", default=list(CLUSTERS), choices=list(CLUSTERS))
    options.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    options.add_argument("--calibrated", action="store_true", help="slower, as in its simulator")
    args = options.parse_args()
    measured = not args.quick and (args.data / "traces").is_dir()
    if not measured:
        print("Jobs are generated.")
        args.data = args.data / "nowhere"
    runs = run_all(play, settings_of(args), args, "elastic_measured_types")
    runs = runs if "restarts" in runs else runs.assign(restarts=np.nan)
    shown = [JCT, "p99 h", "makespan h", "rho max", "restarts", "used", "GPU h"]
    means = runs.groupby(["cluster", "log", "way"], sort=False)[shown].mean().reset_index()
    rows, judged = [], dict[str, list[Figure]]()
    for (cluster, log), here in runs.groupby(["cluster", "log"], sort=False):
        several = here["workload"].nunique() > 1
        for way in [each for each in here["way"].unique() if each != "sia" and several]:
            row = {"cluster": cluster, "log": log, "sia over": way}
            for figure, head in FIGURES.items():
                if here.loc[here["way"] == way, figure].isna().any():
                    continue
                found = paired(here, {"way": "sia"}, {"way": way}, figure)
                row[head] = in_words(found)
                name, paper = PAPER.get((str(cluster), str(log), way, figure), ("", np.nan))
                if measured and name:
                    row[f"paper, {head}"] = f"{paper:.2f}"
                    judged[name] = [as_figure(found, str(log).title())]
                name = ABSTRACT.get((str(cluster), str(log), figure), "")
                if measured and name and way in (VIRTUAL, TOTAL):
                    judged.setdefault(name, []).append(as_figure(found, way))
            rows.append(row)
    for name, table in (("means", means), ("ratios", pd.DataFrame(rows))):
        print(f"\n{to_markdown(table.astype(object).fillna('-'))}" if len(table) else "")
        write_csv(table, args.out, f"elastic_measured_types_{name}", bars=True)
    for name, gained in judged.items():
        claimed("deepboot", name, gained)
    print(machine())


if __name__ == "__main__":
    main()
