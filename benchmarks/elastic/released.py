"""Training beside few requests, in the setting of the simulator that DeepBoot's authors released.

``python -m benchmarks.elastic.released`` runs the jobs of Pollux's workload 1 beside 3,200 requests
on 64 GPUs that are left at once, a row for each way to restart, to call GPUs back and to part the
cluster: two minutes of CPU. Without the data jobs are generated. ``--requests`` draws another
number. It has the table of docs/systems/elastic.md.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.mechanism.inference import DEEPBOOT_COLD_STARTS
from apportion.statistics import to_markdown
from benchmarks.elastic.runs import POLLUX, workload_of
from benchmarks.reporting import add_out, kept

AFE: dict[str, Any] = {"restart": "afe"}
AT_ONCE: dict[str, Any] = {"yield_seconds": 0.0}
PARTED: dict[str, Any] = {**AT_ONCE, "gpus": 32}
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "stop and resume": ({}, AT_ONCE),
    "AFE": (AFE, AT_ONCE),
    "EDL": ({"restart": "edl"}, AT_ONCE),
    "AFE, reclaim at random": (AFE, {**AT_ONCE, "reclaim": "random"}),
    "AFE, 32 serve": (AFE, PARTED),
    "AFE, 32 serve, whole servers": (AFE, {**PARTED, "reclaim": "whole_server"}),
    "AFE, 32 serve, no lending": (AFE, {**PARTED, "lending": False}),
    "AFE, GPUs are left in time": (AFE, {}),
    "AFE, GPUs are left in time, bound once loaded": (AFE, {"binding": "loaded"}),
    "stop and resume, GPUs are left in time": ({}, {}),
    "AFE, no requests": (AFE, None),
}
"""Settings of training, and of serving; None: nobody asks."""
QUICK = ("AFE", "AFE, no requests")
RECKONED_S = 10.0
"""Seconds of a restart that DeepBoot's released policy reckons with."""
SPAN_S = 15.4 * 3600


def requests_of(count: int, seed: int = 0) -> pd.DataFrame:
    """Draw requests of six services at uniform times, 1 to 9 whole seconds each."""
    rng = np.random.default_rng(seed)
    arrival_s = np.sort(rng.uniform(0, SPAN_S, count))
    service = rng.choice(sorted(DEEPBOOT_COLD_STARTS), count)
    duration_s = rng.integers(1, 10, count).astype(float)
    columns = {"arrival_s": arrival_s, "service": service, "duration_s": duration_s}
    return pd.DataFrame({**columns, "slo_s": 3 * duration_s + 8})


def row_of(name: str, workload: ap.ElasticWorkload, requests: pd.DataFrame) -> dict[str, Any]:
    """Run one row."""
    training, beside = ROWS[name]
    serving = None
    if beside is not None:
        serving = ap.Serving(requests, cold_start_s=DEEPBOOT_COLD_STARTS, **beside)
    how = ap.Configurations(reallocation_seconds=RECKONED_S, serving=serving, **training)
    started = time.process_time()
    found = ap.simulate("deepboot", workload, {"t4": 64}, mechanism=how).summary()
    return {
        "setting": name,
        "mean completion time, s": round(found["mean_jct_s"], 1),
        "restarts of a job": round(found["restarts"], 1),
        "pauses of a job, s": round(found["paused_s"]),
        "reclaims": found.get("reclaims", ""),
        "delay, 99 %, s": found.get("p99_delay_s", ""),
        "request, mean, s": round(found.get("mean_request_s", float("nan")), 3),
        "request, 99 %, s": round(found.get("p99_request_s", float("nan")), 2),
        "CPU s": round(time.process_time() - started, 1),
    }


def main() -> None:
    """Print the table."""
    what = argparse.ArgumentParser(description=__doc__)
    what.add_argument("--data", type=Path, default=POLLUX, help="folder of Pollux's workloads")
    what.add_argument("--requests", type=int, default=3_200)
    what.add_argument("--rows", nargs="+", choices=sorted(ROWS), default=list(ROWS))
    what.add_argument("--quick", action="store_true", help="six generated jobs, two rows")
    add_out(what)
    args = what.parse_args()
    data = args.data if args.data.is_dir() and not args.quick else None
    jobs = 6 if args.quick else 160
    workload = workload_of({"workload": 1, "seed": -1, "jobs": jobs}, data)
    requests = requests_of(args.requests)
    rows = [row_of(name, workload, requests) for name in (QUICK if args.quick else args.rows)]
    with kept(args.out, "elastic_released"):
        print(to_markdown(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
