"""Sia, Pollux and Gavel on 64 GPUs of three types.

``python -m benchmarks.elastic.sia`` runs Pollux's workloads, as they are and with jobs drawn anew
with replacement, on 24 T4, 24 RTX and 16 A100 in machines of 4, the sizes of Sia's cluster (SOSP
2023). There are profiles of the T4 only: the other types are taken to be 1.5 and 4 times as fast
in all that a step does, which is assumed. Gavel (``max_min_fairness``, rounds of 360 s) has the
same jobs with the GPUs and batches of their users. Sia's own workloads are others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.statistics import to_markdown
from benchmarks.elastic.runs import (
    CLASSES,
    POLLUX,
    RELATIVE_SPEED,
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

GPUS = {"t4": 24, "rtx": 24, "a100": 16}
WAYS = ("sia", "pollux", "gavel", "sia, lambda 2")
PAPER_H = {"sia": 0.6, "pollux": 1.0, "gavel": 1.9}
"""Mean completion times on the heterogeneous cluster, Philly, Gavel with tuned jobs: section 5."""


def play(settings: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
    """Run one workload one way."""
    workload = workload_of(settings, data)
    gpus = {name: count // int(settings["part"]) for name, count in GPUS.items()}
    way = settings["way"]
    if way == "gavel":
        most = max(gpus.values())
        jobs = workload.jobs.assign(gpus=np.minimum(workload.jobs["gpus"], most))
        rigid = replace(workload, jobs=jobs).rigid(list(RELATIVE_SPEED))
        rounds = ap.Rounds(seconds=360.0, preemption_overhead_seconds=30.0)
        run = ap.simulate("max_min_fairness", rigid, gpus, mechanism=rounds)
        return figures(run, workload)
    policy = ap.Sia(penalty=2.0) if way == "sia, lambda 2" else way
    keep = way != "pollux"
    how = ap.Configurations(restart_seconds=30.0, keep_paused=keep)
    return figures(ap.simulate(policy, workload, gpus, mechanism=how), workload)


def settings_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """List the runs: seeds, or workloads as they are."""
    if args.quick:
        cases = [(0, -1)]
    elif args.data.is_dir():
        cases = [(1 + seed % 4, seed) for seed in range(args.seeds)]
    else:
        cases = [(seed, -1) for seed in range(args.seeds)]
    shape = {"jobs": 5 if args.quick else 160, "part": 4 if args.quick else 1}
    return [
        {"workload": number, "seed": seed, "way": way, **shape}
        for number, seed in cases
        for way in (WAYS[:3] if args.quick else WAYS)
    ]


def main() -> None:
    """Run and print."""
    options = parser("elastic.sia", (__doc__ or "").partition("\n")[0], "five jobs, 16 GPUs")
    options.set_defaults(data=POLLUX)
    options.add_argument("--seeds", type=int, default=5)
    args = options.parse_args()
    if args.quick or not args.data.is_dir():
        print("Jobs are generated.")
        args.data = args.data / "nowhere"
    runs = run_all(play, settings_of(args), args, "elastic_sia")
    shown = ["mean h", "p99 h", "makespan h", "rho max", "restarts", "used", "ms a decision"]
    shown += [f"{name}, mean h" for name in CLASSES]
    means = runs.groupby("way", sort=False)[shown].mean().reset_index()
    means.insert(1, "paper, mean h", means["way"].map(PAPER_H))
    rows = []
    for way in runs["way"].unique():
        if way != "sia":
            found = paired(runs, {"way": "sia"}, {"way": way})
            paper = PAPER_H["sia"] / PAPER_H[way] if way in PAPER_H else float("nan")
            rows.append({"way": way, "sia / it": in_words(found), "paper": paper})
    for name, table in (("elastic_sia", means), ("elastic_sia_ratios", pd.DataFrame(rows))):
        print(f"\n{to_markdown(table)}")
        write_csv(table, args.out, name, bars=True)
    restarts = means.set_index("way")["restarts"]
    if args.data.is_dir():
        ratio = float(restarts["sia"] / restarts["pollux"])
        claimed("deepboot", "sia-restarts", [Figure("", ratio)])
    write_csv(runs, args.out, "elastic_sia_runs")
    print(machine())


if __name__ == "__main__":
    main()
