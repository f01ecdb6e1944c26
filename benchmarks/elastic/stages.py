"""Restarts by stage, GPUs given away beside GPUs that work, and the life of two GPUs.

``python -m benchmarks.elastic.stages``: where the seconds of restarts go, by application, under
stop and resume; nominal and real use of the GPUs with and without requests, under DeepBoot and
Pollux; and six requests of two services on two GPUs, state by state. How a restart is parted is
assumed: 8 s for the container, 4 s to start, the rest of what DeepBoot's simulator has for the
application to load. The jobs are those of Pollux's workload 1, else generated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

import apportion as ap
from apportion.report.style import line_styles
from apportion.sim.traces.pollux import DEEPBOOT_RESTART_S
from apportion.statistics import to_markdown
from benchmarks.elastic.deepboot import requests_of
from benchmarks.elastic.runs import POLLUX, workload_of
from benchmarks.experiment import claimed, drawing
from benchmarks.papers.claims import Figure
from benchmarks.reporting import add_out, kept

CONTAINER_S, INIT_S = 8.0, 4.0
SIX = [(0, "a", 10), (5, "b", 10), (20, "a", 5), (70, "a", 5), (75, "b", 5), (160, "b", 5)]
"""Arrival, service and seconds of six requests."""

POOLED = {"gpus": "pooled"}
WAYS: dict[str, tuple[str, dict[str, Any], dict[str, Any], int | None]] = {
    "pollux, no requests": ("pollux", {}, POOLED, 1),
    "pollux, loans": ("pollux", {}, {}, None),
    "deepboot, no requests": ("deepboot", {"restart": "afe"}, POOLED, 1),
    "deepboot, pooled": ("deepboot", {"restart": "afe"}, POOLED, None),
}
"""Policy, settings of training and of serving, and how many requests come: all, or a single one."""


def main() -> None:
    """Print the three tables."""
    what = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what.add_argument("--data", type=Path, default=POLLUX, help="folder of Pollux's workloads")
    what.add_argument("--quick", action="store_true", help="six generated jobs, 16 GPUs, 2 hours")
    add_out(what)
    args = what.parse_args()
    with kept(args.out, "elastic_stages"):
        tables(args)


def tables(args: argparse.Namespace) -> None:
    """Run and print."""
    data = args.data if args.data.is_dir() and not args.quick else None
    jobs, gpus, hours = (6, 16, 2.0) if args.quick else (160, 64, 36.0)
    workload = workload_of({"workload": 1, "seed": -1, "jobs": jobs}, data)
    stages = {name: parted(pair[0]) for name, pair in DEEPBOOT_RESTART_S.items()}
    stages["others"] = parted(30.0)
    how = ap.Configurations(restart_stages=stages)
    run = ap.simulate("pollux", workload, {"t4": gpus}, mechanism=how)
    names = [f"paused_{stage}_s" for stage in parted(30.0)]
    by_application = run.jobs.groupby(workload.jobs["application"])[[*names, "restarts"]].mean()
    print(f"\nMean seconds of a job by stage\n{to_markdown(by_application.reset_index())}")
    requests = requests_of(1.0 if args.quick else 2.9, 0, hours)
    rows = [use(name, workload, requests, gpus) for name in WAYS]
    if not args.quick:
        kept_up = {row["way"]: row["real use"] / row["nominal use"] for row in rows}
        ratio = kept_up["deepboot, pooled"] / kept_up["pollux, loans"]
        claimed("deepboot", "stages", [Figure("", float(ratio))])
    print(f"\nNominal and real use\n{to_markdown(pd.DataFrame(rows))}")
    asked = pd.DataFrame(SIX, columns=["arrival_s", "service", "duration_s"]).astype(
        {"arrival_s": float, "duration_s": float}
    )
    served = ap.serve(asked, gpus=2, cold_start_s=6.0)
    print(f"\nSix requests on two GPUs\n{to_markdown(served.requests.reset_index())}")
    print(f"\nStates of the GPUs\n{to_markdown(served.gpu_states)}")
    _draw(served.gpu_states, args.out)


def _draw(states: pd.DataFrame, out: Path | None) -> None:
    """Draw the life of the GPUs: a bar for each state, with the service that is loaded."""
    with drawing(out, "elastic_stages_life", 9.0, 2.4) as figure:
        if figure is None:
            return
        axes = figure.subplots()
        for state, style in line_styles(list(dict.fromkeys(states["state"]))).items():
            rows = states[states["state"] == state]
            spans = rows["to_s"] - rows["from_s"]
            bars = axes.barh(
                rows["gpu"], spans, left=rows["from_s"], label=state, color=style["color"]
            )
            axes.bar_label(bars, rows["service"].fillna("").astype(str), label_type="center")
        axes.set(xlabel="time (s)", ylabel="GPU")
        axes.set_yticks(sorted(set(states["gpu"])))
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside lower center", ncols=5, fontsize="small")


def parted(seconds: float) -> dict[str, float]:
    """Part a restart into stages."""
    return {"container": CONTAINER_S, "init": INIT_S, "load": seconds - CONTAINER_S - INIT_S}


def use(
    name: str, workload: ap.ElasticWorkload, requests: pd.DataFrame, gpus: int
) -> dict[str, Any]:
    """Run one way; return how much of the GPU time is given away, and how much works."""
    policy, training, beside, come = WAYS[name]
    asked = requests.iloc[:come]
    serving = ap.Serving(asked, **{"gpus": gpus // 2, "cold_start_s": 6.0, **beside})
    how = ap.Configurations(serving=serving, **training)
    run = ap.simulate(policy, workload, {"t4": gpus}, mechanism=how)
    found, paused = run.summary(), run.jobs["paused_s"].sum()
    return {
        "way": name,
        "mean h": found["mean_jct_s"] / 3600,
        "nominal use": found["nominal_use"],
        "real use": found["real_use"],
        "restarts of a job": found["restarts"],
        "pauses of a job, s": paused / len(run.jobs),
    }


if __name__ == "__main__":
    main()
