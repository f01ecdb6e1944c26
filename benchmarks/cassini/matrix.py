"""CASSINI's gains as a matrix: hosts, data and model parallel jobs, servers of one and two GPUs.

``python -m benchmarks.cassini.matrix [--quick] [--hosts ...] [--jobs-send data model] [--servers
...] [--seeds N]``. Iterations over those alone, their 99th percentile and completion times; what
the host has over what each way has, geometric means of seeds with 95 % intervals. *itself*: random
starts; *shifts*; *placement*: the best of ten without shifts; *both*. Elastic jobs (Pollux) send in
their synchronisation. With ``--duty`` all jobs have one period and send for this part of it, at the
rate of a server's link; shifts are then chosen every ``--epoch`` seconds. The last column has the
part of all iterations that meet nobody, one other job, and several, under the host and the way; of
elastic jobs that of the time with GPUs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.sim.network import PhaseNetwork, get_topology
from apportion.statistics import paired, to_markdown
from benchmarks.experiment import chosen, claimed, drawing, parser, run_all
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from apportion.sim.network import Topology

FREE = {"preemption_overhead_seconds": 0.0}
HOSTS: dict[str, dict[str, Any]] = {
    "themis": {"mechanism": "leases", "lease_seconds": 600, **FREE},
    "max_min_fairness": {"mechanism": "rounds", "round_seconds": 600, **FREE},
    "pollux": {},
}
SENDS = {
    "data": ("VGG11", "VGG16", "ResNet50", "BERT", "RoBERTa", "CamemBERT"),
    "model": ("DLRM", "GPT-1", "GPT-2"),
}
SERVERS = {"24 x 1": "cassini", "24 x 1, leaves of four": "cassini_leaves_of_four"}
SERVERS |= {"6 x 2": "cassini_two_gpus"}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "itself": ("phases_unshifted", {}),
    "shifts": ("phases", {}),
    "placement": ("phases_unshifted", {"placement": "cassini"}),
    "both": ("phases", {"placement": "cassini"}),
}
PERIOD_S, GBPS = 0.3, 50.0
"""Of all jobs where ``--duty`` says for which part of the period they send."""

MET = ("nobody", "one", "several")
PAPER = {
    ("data", "24 x 1"): "1.6, 1.8",
    ("model", "24 x 1"): "1.2, 1.6",
    ("data", "6 x 2"): "1.4, 1.9",
    ("pollux", "24 x 1"): "1.6, 2.5",
}
"""Gains of the mean and the 99th percentile, over Themis or Pollux."""


def workload_of(settings: Mapping[str, Any]) -> Any:
    """Draw jobs that keep nine tenths of the servers busy, or elastic ones."""
    jobs, seed = int(settings["jobs"]), int(settings["seed"])
    small = settings["servers"] == "6 x 2"
    if settings["host"] == "pollux":
        return ap.generate_elastic_workload(jobs, hours=jobs / (6 if small else 12), seed=seed)
    models, gpus = SENDS[settings["jobs send"]], (2, 3, 4, 5) if small else (3, 5)
    rate = 9.0 / (2 if small else 1)
    return ap.generate_communicating_workload(
        jobs, models=models, gpus=gpus, jobs_per_hour=rate, seed=seed
    )


def of_duty(workload: Any, duty: float) -> tuple[Any, dict[str, ap.CommunicationProfile]]:
    """Let all jobs have one period, and send for a part of it; return their profiles as well."""
    elastic = isinstance(workload, ap.ElasticWorkload)
    names = workload.jobs["application" if elastic else "job_type"].unique()
    phases = [((1 - duty) * PERIOD_S, duty * PERIOD_S, GBPS)]
    profiles = {name: ap.CommunicationProfile(name, PERIOD_S, phases) for name in names}
    if elastic:
        return workload, profiles
    speeds = workload.throughputs
    keys = pd.MultiIndex.from_frame(workload.jobs[["job_type", "scale_factor"]])
    seconds = workload.jobs["total_steps"].to_numpy() / speeds["a100"].loc[keys].to_numpy()
    jobs = workload.jobs.assign(total_steps=np.round(seconds / PERIOD_S))
    return replace(workload, jobs=jobs, throughputs=speeds * 0 + 1 / PERIOD_S), profiles


def play(settings: Mapping[str, Any], _data: Path | None) -> dict[str, Any]:
    """Run one way; return the mean and P99 of iterations over those alone, and hours."""
    workload, topology = workload_of(settings), SERVERS[settings["servers"]]
    each = 2 if settings["servers"] == "6 x 2" else 1
    racks = 6 if each == 2 else 4 if "four" in settings["servers"] else 2
    name = "v100" if settings["host"] == "pollux" else "a100"
    cluster = ap.Cluster({name: 24 // each}, gpus_per_machine=each, machines_per_rack=racks)
    network, how = WAYS[settings["way"]]
    options: dict[str, Any] = {
        **HOSTS[settings["host"]],
        **how,
        "network": network,
        "topology": topology,
    }
    if settings["duty"]:
        workload, profiles = of_duty(workload, settings["duty"])
        told = {"topology": options.pop("topology"), "profiles": profiles}
        shifted, epoch_s = network == "phases", settings["epoch_s"]
        options["network"] = PhaseNetwork(shifted=shifted, epoch_s=epoch_s, **told)
    run = ap.simulate(settings["host"], workload, cluster, **options)
    links, held = run.tables["links"], run.tables["schedule"]
    slowdown, weight = links["slowdown"].to_numpy(), np.ones(len(links))
    made = held.assign(from_s=held["start_s"], to_s=held["end_s"])
    passed = (made["to_s"] - made["from_s"]).to_numpy()
    if "iterations" in run.tables:
        made = run.tables["iterations"]
        jobs = workload.jobs.loc[made["job"]]
        keys = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]])
        slowdown = (
            made["iteration_s"].to_numpy() * workload.throughputs["a100"].loc[keys].to_numpy()
        )
        passed = weight = made["iterations"].to_numpy()
    others = np.minimum(others_met(run, made, get_topology(topology)), 2)
    met = np.bincount(others, weights=passed, minlength=3) / passed.sum()
    order = np.argsort(slowdown)
    below = np.cumsum(weight[order])
    tail = slowdown[order][np.searchsorted(below, 0.99 * below[-1])]
    hours = run.jobs["jct_s"] / 3600
    marks, mean = float(links["marks_gigabits"].sum()), float(links["slowdown"].mean())
    parts = dict(zip(MET, met.tolist(), strict=True))
    return {"mean": mean, "P99": float(tail), "JCT h": float(hours.mean()), "marks": marks} | parts


def others_met(run: ap.Run, made: pd.DataFrame, topology: Topology) -> NDArray[np.int64]:
    """Return how many other jobs there were on its links, in the middle of each row of `made`."""
    held = run.tables["schedule"]
    links = [set(topology.links_of(devices)) for devices in held["devices"]]
    job, start_s, end_s = (held[name].to_numpy() for name in ("job", "start_s", "end_s"))
    middle_s = (made["from_s"] + made["to_s"]).to_numpy(dtype=float) / 2
    found = []
    for mine, at_s in zip(made["job"], middle_s, strict=True):
        there = np.flatnonzero((start_s <= at_s) & (at_s < end_s))
        own = {link for place in there if job[place] == mine for link in links[place]}
        found.append(len({job[place] for place in there if own & links[place]} - {mine}))
    return np.array(found, dtype=np.int64)


def gains(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what the host has over what each way has, paired by seed."""
    rows = []
    for key, here in runs.groupby(["host", "jobs send", "servers"], sort=False):
        by_way = {way: each.set_index("seed") for way, each in here.groupby("way")}
        for way in [each for each in WAYS if each in by_way and each != "itself"]:
            row: dict[str, Any] = dict(zip(("host", "jobs send", "servers"), key, strict=True))
            row |= {"way": way, "itself": f"{by_way['itself']['mean'].mean():.3f}"}
            for figure in ("mean", "P99", "JCT h"):
                found = paired(by_way["itself"][figure], by_way[way][figure], ratio=True)
                row[figure] = f"{found.estimate:.3f} [{found.low:.3f}, {found.high:.3f}]"
            before, after = by_way["itself"]["marks"].sum(), by_way[way]["marks"].sum()
            row["marks, times fewer"] = f"{before / after:.1f}" if after else "none left"
            parts = [by_way[each][list(MET)].mean() for each in ("itself", way)]
            row[f"meet {', '.join(MET)}"] = " -> ".join(
                ", ".join(f"{part:.2f}" for part in each) for each in parts
            )
            of = "pollux" if row["host"] == "pollux" else row["jobs send"]
            row["paper"] = PAPER.get((of, row["servers"]), "-")
            rows.append(row)
    return pd.DataFrame(rows)


CLAIMS = {
    "mean-model": ("themis", "model", "mean"),
    "p99-model": ("themis", "model", "P99"),
    "dynamic-pollux": ("pollux", "data", "mean"),
    "dynamic-pollux-p99": ("pollux", "data", "P99"),
}
"""Host, what jobs send, and which figure of it, on 24 servers, shifts and placement."""


def judge(runs: pd.DataFrame) -> None:
    """Judge the claims whose hosts were run."""
    there = runs[runs["servers"] == "24 x 1"].set_index("seed")
    for name, (host, sends, figure) in CLAIMS.items():
        here = there[(there["host"] == host) & (there["jobs send"] == sends)]
        own, ours = (here.loc[here["way"] == way, figure] for way in ("itself", "both"))
        if len(own) == len(ours) > 0:
            found = paired(own, ours, ratio=True)
            claimed("cassini", name, [Figure("", found.estimate, found.low, found.high)])
    marks = there[there["host"] == "pollux"].groupby("way")["marks"].sum()
    if {"itself", "both"} <= set(marks.index):
        claimed("cassini", "marks-pollux", [Figure("", float(marks["itself"] / marks["both"]))])


def main() -> None:
    """Run what is asked for, and print gains."""
    first = (__doc__ or "").partition("\n")[0]
    options = parser("cassini.matrix", first, "five jobs, one seed, Themis")
    options.add_argument("--hosts", nargs="+", default=list(HOSTS))
    options.add_argument("--jobs-send", nargs="+", default=list(SENDS), choices=list(SENDS))
    options.add_argument("--servers", nargs="+", default=list(SERVERS), choices=list(SERVERS))
    options.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--duty", type=float, default=0.0, help="of all jobs; 0: each as it is")
    options.add_argument("--epoch", type=float, default=600.0, help="seconds, beside --duty")
    args = options.parse_args()
    hosts = ["themis"] if args.quick else chosen("host", args.hosts, list(HOSTS))
    settings = [
        {"host": host, "jobs send": sends, "servers": servers, "way": way, "seed": seed}
        | {"jobs": 5 if args.quick else 12, "duty": args.duty, "epoch_s": args.epoch}
        for servers in (args.servers[:1] if args.quick else args.servers)
        for sends in (args.jobs_send[-1:] if args.quick else args.jobs_send)
        for host in hosts
        if host != "pollux" or sends == "data"  # elastic jobs send as they were measured
        for seed in range(1 if args.quick else args.seeds)
        for way in dict.fromkeys(["itself", *(("both",) if args.quick else args.ways)])
    ]
    runs = run_all(play, settings, args, "cassini_matrix")
    table = gains(runs)
    print(to_markdown(table))
    if not args.quick and args.seeds > 1 and not args.duty:
        judge(runs)
    write_csv(runs, args.out, "cassini_matrix_runs")
    write_csv(table, args.out, "cassini_matrix")
    with drawing(args.out, "cassini_matrix", 8.0, 1.5 + 0.25 * len(table)) as figure:
        if figure is not None:
            axes: Any = figure.subplots()
            cells = table[["host", "jobs send", "servers", "way"]].agg(", ".join, axis=1)
            axes.barh(cells, table["mean"].str.split().str[0].astype(float) - 1, left=1.0)
            axes.set(xlabel="times shorter iterations, mean")
            axes.invert_yaxis()
    print(machine())


if __name__ == "__main__":
    main()
