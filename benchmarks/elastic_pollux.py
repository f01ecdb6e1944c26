"""Elastic policies on the workloads of Pollux, beside the completion times that were published.

``python -m benchmarks.elastic_pollux --data FOLDER`` runs workloads 1 to 4 of the artifact (OSDI
2021; 160 jobs in 8 hours, measured profiles) on 16 machines of 4 GPUs, 60 s between decisions.
FOLDER has ``profiles_t4/``, ``workloads/`` and ``reference_jct_workloads1-4.json``, the completion
times of the artifact's simulator by job. Without it the jobs are generated, and nothing is
published.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion import Cluster, Configurations, generate_elastic_workload, simulate
from apportion.sim.traces.pollux import DEEPBOOT_RESTART_S, read_pollux_workload
from benchmarks.reporting import machine, progress, show, write_csv

if TYPE_CHECKING:
    from apportion import ElasticWorkload, Run

CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("pollux", "30 s", {"restart_seconds": 30.0}),
    ("deepboot", "by application", {}),
    ("deepboot", "AFE", {"restart": "afe"}),
    ("deepboot", "EDL", {"restart": "edl"}),
    ("deepboot", "30 s, goodputs fitted", {"restart_seconds": 30.0, "goodputs": "fitted"}),
    ("sia", "30 s", {"restart_seconds": 30.0, "keep_paused": True}),
    ("optimus", "30 s", {"restart_seconds": 30.0}),
)
"""Policy, what its restarts cost, and the settings that say so."""


def figures(run: Run, published: pd.Series | None) -> dict[str, float]:
    """Return the figures of a run: hours, restarts of a job, seconds of its pauses."""
    hours = run.jobs["jct_s"] / 3600
    found = {
        "mean h": float(hours.mean()),
        "p50 h": float(hours.median()),
        "p99 h": float(np.percentile(hours, 99)),
        "restarts": float(run.jobs["restarts"].mean()),
        "paused s": float(run.jobs["paused_s"].mean()),
        "used": run.summary()["utilization"],
    }
    if published is not None:
        ratio = run.jobs["jct_s"] / published.loc[run.jobs.index]
        found |= {
            "published Pollux, mean h": float(published.loc[run.jobs.index].mean() / 3600),
            "median of job / published": float(ratio.median()),
        }
    return found


def workloads(args: argparse.Namespace) -> dict[str, tuple[ElasticWorkload, pd.Series | None]]:
    """Read or draw workloads, with the completion times that Pollux published, seconds."""
    if args.data is None:
        return {"generated": (generate_elastic_workload(10 if args.quick else 80), None)}
    reference = json.loads((args.data / "reference_jct_workloads1-4.json").read_text())
    found: dict[str, tuple[ElasticWorkload, pd.Series | None]] = {}
    for number in (1,) if args.quick else args.workloads:
        name = f"workload-{number}"
        read = read_pollux_workload(
            args.data / "workloads" / f"{name}.csv", args.data / "profiles_t4"
        )
        jobs = replace(read, restart_s=DEEPBOOT_RESTART_S)
        found[name] = jobs, pd.Series(reference["pollux"]["jct_seconds"][name])
        others = ", ".join(
            f"{each} {reference[each]['mean_jct_seconds'][name] / 3600:.2f}" for each in reference
        )
        print(f"{name}: published mean completion times, h: {others}")
    return found


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of profiles, workloads and references")
    parser.add_argument("--workloads", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--out", type=Path, help="folder for the table as csv")
    parser.add_argument("--quick", action="store_true", help="one workload, three rows")
    args = parser.parse_args()
    rows = []
    cluster = Cluster({"t4": 16 if args.quick and args.data is None else 64})
    for name, (jobs, published) in workloads(args).items():
        for policy, cost, settings in CALLS[:3] if args.quick else CALLS:
            progress(f"{name}: {policy}, {cost}")
            started = time.process_time()
            run = simulate(policy, jobs, cluster, mechanism=Configurations(**settings))
            row: dict[str, Any] = {"workload": name, "policy": policy, "restarts cost": cost}
            row |= figures(run, published) | {"CPU s": time.process_time() - started}
            rows.append(row)
            print(
                f"{name}: {policy}, {cost}: mean completion time {row['mean h']:.3f} h", flush=True
            )
    progress("")
    table = pd.DataFrame(rows)
    show(table)
    print(machine())
    write_csv(table, args.out, "elastic_pollux")


if __name__ == "__main__":
    main()
