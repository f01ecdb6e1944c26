"""Elastic policies on the workloads of Pollux, beside the completion times that were published.

``python -m benchmarks.elastic.pollux`` runs workloads 1 to 4 of the artifact (OSDI 2021; 160 jobs
in 8 hours, measured profiles) on 16 machines of 4 GPUs, 60 s between decisions: as they are, and
with jobs drawn anew with replacement, seed by seed. ``--data`` has ``profiles_t4/``,
``workloads/`` and ``reference_jct_workloads1-4.json``, the completion times of the artifact's
simulator by job. Without it the jobs are generated, and nothing is published. Finished runs are
kept below ``--out``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.statistics import to_markdown
from benchmarks.elastic.runs import (
    CLASSES,
    POLLUX,
    SIZES,
    as_figure,
    figures,
    in_words,
    paired,
    workload_of,
)
from benchmarks.experiment import claimed, parser, run_all
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

SECONDS = {"restart_seconds": 30.0}
WAYS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "pollux, 30 s": ("pollux", SECONDS),
    "tiresias, 30 s": ("tiresias", SECONDS),
    "deepboot, by application": ("deepboot", {}),
    "deepboot, AFE": ("deepboot", {"restart": "afe"}),
    "deepboot, EDL": ("deepboot", {"restart": "edl"}),
    "optimus, 30 s": ("optimus", SECONDS),
    "optimus greedy, 30 s": ("optimus_greedy", SECONDS),
    "sia, 30 s": ("sia", {**SECONDS, "keep_paused": True}),
    "afs, 30 s": ("afs", SECONDS),
    "lyra, 30 s": ("lyra", SECONDS),
    "pollux, 30 s, fitted": ("pollux", {**SECONDS, "goodputs": "fitted"}),
    "optimus, users' batches": ("optimus", SECONDS),
    "optimus greedy, users' batches": ("optimus_greedy", SECONDS),
    "pollux, users' batches": ("pollux", SECONDS),
    "optimus, users' batches, one GPU for ncf": ("optimus", SECONDS),
    "optimus, users' batches, any growth": ("optimus", {**SECONDS, "growth": np.inf}),
    "optimus, users' batches, 0 s": ("optimus", {"restart_seconds": 0.0}),
}
INTERVALS_MIN = {0.5: 0.758 / 0.764, 2: 0.779 / 0.764, 4: 0.825 / 0.764, 8: 0.932 / 0.764}
"""Minutes between two decisions, and what the artifact's mean is over that of one minute."""

EVERY = {f"pollux, every {minutes:g} min": minutes for minutes in INTERVALS_MIN}
WAYS |= {
    way: ("pollux", {**SECONDS, "interval_seconds": 60.0 * minutes})
    for way, minutes in EVERY.items()
}
"""Policy, and the settings that say what its restarts cost and what it knows."""

USERS_BATCHES = "users' batches"
"""Jobs keep the batches of their users, on any number of GPUs."""

ONE_GPU = "one GPU for ncf"
"""As in the artifact's simulator."""

FEW = ("pollux, 30 s", "deepboot, AFE", "tiresias, 30 s")
PUBLISHED = {"pollux, 30 s": "pollux", "optimus, 30 s": "optimus", "tiresias, 30 s": "tiresias"}
PUBLISHED |= {way: "optimus" for way in WAYS if way.startswith("optimus")}

JUDGED = {
    "pollux": "pollux, 30 s",
    "tiresias": "tiresias, 30 s",
    "optimus": f"optimus, {USERS_BATCHES}",
}
"""The ways in which the means of the artifact's simulator are claimed to be met."""

SMALL = ("optimus", "lyra")
"""Who is said to disfavour small jobs."""


def play(settings: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
    """Run one workload one way."""
    workload = workload_of(settings, data)
    policy, how = WAYS[settings["way"]]
    if USERS_BATCHES in settings["way"]:
        workload = replace(workload, jobs=workload.jobs.assign(keeps_batch=True))
    if ONE_GPU in settings["way"]:
        ncf = workload.jobs["application"] == "ncf"
        jobs = workload.jobs.assign(rigid=ncf, gpus=workload.jobs["gpus"].mask(ncf, 1))
        workload = replace(workload, jobs=jobs)
    cluster = ap.Cluster({"t4": int(settings["gpus"])})
    run = ap.simulate(policy, workload, cluster, mechanism=ap.Configurations(**how))
    found = figures(run, workload)
    if settings["seed"] < 0:
        found["jcts"] = json.dumps({str(job): each for job, each in run.jobs["jct_s"].items()})
    return found


def settings_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """List the runs: workloads as they are first, then seeds."""
    there = args.data.is_dir()
    shape = {"jobs": 8 if args.quick else 160, "gpus": 16 if args.quick else 64}
    numbers = [1] if args.quick else args.workloads
    as_they_are = [(number, -1) for number in numbers]
    drawn = [(numbers[seed % len(numbers)], seed) for seed in range(args.seeds)]
    ways = FEW if args.quick else args.ways
    cases = as_they_are + ([] if args.quick else drawn)
    if not there:
        cases = [(number, -1) for number in range(1 if args.quick else 5)]
    return [
        {"workload": number, "seed": seed, "way": way, **shape}
        for number, seed in cases
        for way in ways
    ]


def published_of(data: Path) -> pd.DataFrame:
    """Return the published completion times, hours: a row per policy, workload and job."""
    content = json.loads((data / "reference_jct_workloads1-4.json").read_text())
    rows = [
        (policy, int(name.removeprefix("workload-")), job, seconds / 3600)
        for policy, parts in content.items()
        for name, jobs in parts["jct_seconds"].items()
        for job, seconds in jobs.items()
    ]
    table = pd.DataFrame(rows, columns=["policy", "workload", "job", "h"])
    return table.assign(size=table["job"].str.rsplit("-", n=1).str[0].map(SIZES))


def beside(runs: pd.DataFrame, published: pd.DataFrame | None) -> pd.DataFrame:
    """Return means of the workloads as they are, ours and published."""
    rows = []
    own = runs[runs["seed"] < 0]
    for (way, number), run in own.groupby(["way", "workload"], sort=False):
        row: dict[str, Any] = {"way": way, "workload": number, "ours, h": run["mean h"].item()}
        name = PUBLISHED.get(str(way))
        row |= {"published, h": np.nan, "ours / published": np.nan, "median job": np.nan}
        if published is not None and name is not None:
            theirs = published[(published["policy"] == name) & (published["workload"] == number)]
            row["published, h"] = float(theirs["h"].mean())
            row["ours / published"] = row["ours, h"] / row["published, h"]
            mine = pd.Series(json.loads(run["jcts"].item())) / 3600
            row["median job"] = float((mine / theirs.set_index("job")["h"]).median())
        rows.append(row)
    return pd.DataFrame(rows)


def ratios(runs: pd.DataFrame, published: pd.DataFrame | None) -> pd.DataFrame:
    """Return every way over Pollux, paired, beside the published ratio."""
    rows = []
    base = next(iter(runs["way"]))
    for way in runs["way"].unique():
        if way == base:
            continue
        found = paired(runs, {"way": way}, {"way": base})
        row = {"way": way, f"mean over {base}": in_words(found), "published": np.nan}
        if published is not None and way in PUBLISHED:
            means = published.groupby(["policy", "workload"])["h"].mean()
            both = means[PUBLISHED[way]] / means[PUBLISHED[base]]
            row["published"] = float(np.exp(np.log(both).mean()))
        rows.append(row)
    return pd.DataFrame(rows)


def by_class(runs: pd.DataFrame, published: pd.DataFrame | None) -> pd.DataFrame:
    """Return means by size class over the workloads as they are, hours."""
    own = runs[runs["seed"] < 0]
    columns = [f"{name}, mean h" for name in CLASSES]
    others = ["restarts", "paused s", "p99 h", "used", "ms a decision"]
    table = own.groupby("way", sort=False)[[*columns, *others]].mean().reset_index()
    if published is None:
        return table
    same = published[published["workload"].isin(own["workload"])]
    theirs = same.groupby(["policy", "size"])["h"].mean().unstack()
    listed = [
        {"way": f"published {name}", **{f"{c}, mean h": theirs.loc[name, c] for c in CLASSES}}
        for name in theirs.index
    ]
    return pd.concat([table, pd.DataFrame(listed)], ignore_index=True)


def judge(runs: pd.DataFrame, means: pd.DataFrame) -> None:
    """Judge the claims of the ways that were run on the published workloads."""
    classes = by_class(runs, None).set_index("way")
    of_way = means.set_index("way")["ours / published"]
    numbers = means.set_index("way")["workload"]
    for name, way in JUDGED.items():
        if way not in classes.index:
            continue
        cases = zip(numbers.loc[[way]], of_way.loc[[way]], strict=True)
        claimed("deepboot", f"{name}-means", [Figure(str(n), float(v)) for n, v in cases])
        if name != "pollux" and JUDGED["pollux"] in classes.index:
            found = paired(runs, {"way": way}, {"way": JUDGED["pollux"]})
            claimed("deepboot", f"pollux-{name}", [as_figure(found)])
    hours = means.groupby("way")["ours, h"].mean()
    if {*EVERY, JUDGED["pollux"]} <= set(hours.index):
        over = {way: hours[way] / hours[JUDGED["pollux"]] for way in EVERY}
        claimed(
            *("deepboot", "pollux-interval"),
            [Figure(f"{m:g} min", float(over[way] / INTERVALS_MIN[m])) for way, m in EVERY.items()],
        )
    small, large = (classes[f"{CLASSES[at]}, mean h"] for at in (0, -1))
    if {f"{name}, 30 s" for name in ("pollux", "optimus", "lyra")} <= set(small.index):
        part = small / large
        ratios_of = {each: part[f"{each}, 30 s"] / part[JUDGED["pollux"]] for each in SMALL}
        claimed("deepboot", "small-jobs", [Figure(n, float(v)) for n, v in ratios_of.items()])


def main() -> None:
    """Run and print."""
    options = parser("elastic.pollux", (__doc__ or "").partition("\n")[0], "a small workload")
    options.set_defaults(data=POLLUX)
    options.add_argument("--workloads", type=int, nargs="+", default=[1, 2, 3, 4])
    options.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    options.add_argument("--seeds", type=int, default=5, help="draws of jobs with replacement")
    args = options.parse_args()
    data = args.data if args.data.is_dir() else None
    if data is None or args.quick:
        print("Jobs are generated; there is nothing published of them.")
        args.data = args.data / "nowhere"
        data = None
    runs = run_all(play, settings_of(args), args, "elastic_pollux")
    published = None if data is None else published_of(data)
    tables = {
        "elastic_pollux": beside(runs, published),
        "elastic_pollux_ratios": ratios(runs, published),
        "elastic_pollux_classes": by_class(runs, published),
    }
    for name, table in tables.items():
        if table.empty:
            continue
        print(f"\n{to_markdown(table)}")
        write_csv(table, args.out, name, bars=True)
    if published is not None:
        judge(runs, tables["elastic_pollux"])
    write_csv(runs.drop(columns=["jcts"]), args.out, "elastic_pollux_runs")
    print(machine())


if __name__ == "__main__":
    main()
