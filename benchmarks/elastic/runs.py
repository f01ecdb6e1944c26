"""What the benchmarks of elastic jobs share: workloads, runs, size classes, paired ratios."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import apportion as ap
from apportion import statistics
from apportion.sim.traces.pollux import DEEPBOOT_RESTART_S, read_pollux_workload
from benchmarks.papers.claims import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from apportion.statistics import Paired

POLLUX = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "pollux"
"""Where workloads, profiles and published times are looked for."""

SIZES = {
    "cifar10": "small",
    "ncf": "small",
    "small_vision": "small",
    "deepspeech2": "medium",
    "bert": "medium",
    "speech": "medium",
    "language": "medium",
    "yolov3": "large",
    "imagenet": "extra large",
    "large_vision": "extra large",
}
"""Size classes as Pollux has them: below 1, 10, 100 and 1,000 GPU-hours."""

CLASSES = ("small", "medium", "large", "extra large")
RELATIVE_SPEED = {"t4": 1.0, "rtx": 1.5, "a100": 4.0}
"""Speeds of types of which there are no profiles here: assumed, and not measured."""

_read: dict[tuple[int, Path], ap.ElasticWorkload] = {}


def workload_of(settings: Mapping[str, Any], data: Path | None) -> ap.ElasticWorkload:
    """Return the jobs of a run.

    Parameters
    ----------
    settings
        ``workload``, the number of one of Pollux's, or where there are no data the seed of a
        generated one of ``jobs`` jobs; ``seed``, by which its jobs are drawn anew with replacement,
        or -1 for the jobs as they are.
    data
        Folder with ``workloads/`` and ``profiles_t4/``; None if there is none.
    """
    number = int(settings["workload"])
    if data is None:
        jobs = int(settings["jobs"])
        made = ap.generate_elastic_workload(jobs, hours=jobs / 20, seed=number)
    else:
        if (number, data) not in _read:
            file = data / "workloads" / f"workload-{number}.csv"
            _read[number, data] = read_pollux_workload(file, data / "profiles_t4")
        made = replace(_read[number, data], restart_s=DEEPBOOT_RESTART_S)
    made = replace(made, relative_speed=RELATIVE_SPEED)
    return made if settings["seed"] < 0 else ap.resample(made, int(settings["seed"]))


def figures(run: ap.Run, workload: ap.ElasticWorkload) -> dict[str, Any]:
    """Return the figures of a run: hours in all and by size class, restarts, pauses, decisions."""
    hours = run.jobs["jct_s"] / 3600
    size = workload.jobs["application"].map(SIZES).loc[hours.index]
    by_size = hours.groupby(size).mean()
    found: dict[str, Any] = {
        "mean h": float(hours.mean()),
        "p50 h": float(hours.median()),
        "p99 h": float(np.percentile(hours, 99)),
        "makespan h": run.summary()["makespan_s"] / 3600,
        "rho max": float(run.jobs["ftf"].max()),
        "used": run.summary()["utilization"],
        "GPU h": float(run.jobs["gpu_seconds"].sum()) / 3600,
        "ms a decision": 1000 * run.policy_seconds / max(run.solves, 1),
        **{f"{name}, mean h": float(by_size.get(name, np.nan)) for name in CLASSES},
    }
    if "restarts" in run.jobs.columns:
        found["restarts"] = float(run.jobs["restarts"].mean())
        found["paused s"] = float(run.jobs["paused_s"].mean())
    return found


def paired(
    runs: pd.DataFrame, one: Mapping[str, Any], other: Mapping[str, Any], figure: str = "mean h"
) -> Paired:
    """Return the ratio of a figure of two ways, paired by workload and seed."""
    sides = [_chosen(runs, way).set_index(["workload", "seed"])[figure] for way in (one, other)]
    return statistics.paired(*sides, ratio=True)


def in_words(found: Paired) -> str:
    """Write a ratio as 'ratio [interval], wins of pairs'."""
    interval = f"[{found.low:.3f}, {found.high:.3f}]"
    return f"{found.estimate:.3f} {interval}, {found.wins}/{found.pairs}"


def as_figure(found: Paired, case: str = "") -> Figure:
    """Return a ratio as the figure of a claim, of several pairs with its interval."""
    if not np.isfinite(found.low):
        return Figure(case, found.estimate)
    return Figure(case, found.estimate, found.low, found.high)


def _chosen(runs: pd.DataFrame, way: Mapping[str, Any]) -> pd.DataFrame:
    chosen = runs
    for name, value in way.items():
        chosen = chosen[chosen[name] == value]
    return chosen
