"""What the benchmarks of contention share: sets of jobs, one contended run, ratios paired by set.

Job sets are drawn by the description in section 5 of Wang et al., "Communication Contention Aware
Scheduling of Multiple Deep Learning Training Jobs": 160 jobs on 16 servers of four V100. The
authors' own draw is not published. A run shortened by a scale has its completion times divided by
it, so that all are the seconds of the paper.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import apportion as ap
from apportion.statistics import Paired, paired
from benchmarks.ada_srsf.released_engine import released
from benchmarks.ada_srsf.released_points import POINTS, TEXT, at_point

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from benchmarks.experiment import Settings

    Floats = NDArray[np.float64]

CLUSTER = ap.Cluster({"v100": 64}, gpus_per_machine=4)
STORE = "ada_srsf"
"""Runs are kept under one name: scripts that need the same ones share them."""

MEMORY_GB = 32.0
"""Memory of a GPU in the released code; the text says 16 GB."""

ETA_S = 2.35e-10
"""eta of the released code, s per byte; the text has none."""

JITTER_S = 0.09
"""Arrivals move by less than this, seconds of the paper, where they are jittered."""

FIGURES = {"util %": "util_pct", "avg": "mean_s", "median": "median_s", "p95": "p95_s"}


def asked(
    number: int,
    placement: str = "lwf_1",
    gate: str = "ada_dual",
    *,
    scale: float = 1.0,
    memory_gb: float = MEMORY_GB,
    eta: float = ETA_S,
    jitter: int = 0,
    defect: bool = False,
    point: str = TEXT,
) -> dict[str, Any]:
    """Return the settings of one run: a job set by number, and how it is run."""
    run = {"set": number, "placement": placement, "gate": gate, "scale": scale}
    run |= {"memory_gb": memory_gb, "eta": eta, "jitter": jitter, "defect": defect}
    return run if point == TEXT else run | {"point": point}


def play(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Run one job set; return figures in seconds of the paper, and all completion times."""
    scale, point = settings["scale"], settings.get("point", TEXT)
    workload = at_point(point, ap.generate_contended_workload(seed=settings["set"], scale=scale))
    if settings["jitter"]:
        workload = _jittered(workload, settings["jitter"], JITTER_S * scale)
    with released(switched_on=settings["defect"]):
        given: dict[str, Any] = {"placement": settings["placement"], **POINTS[point]}
        run = ap.simulate(
            *("ada_srsf", workload, CLUSTER),
            gate=settings["gate"],
            gpu_memory_gb=settings["memory_gb"],
            penalty_s_per_byte=settings["eta"],
            seed=settings["set"],
            preemption_overhead_seconds=0.0,
            **given,
        )
    jct_s = run.jobs["jct_s"].to_numpy(float) / scale
    return {
        **figures(run, scale),
        "below_5000_pct": 100 * float((jct_s < 5000).mean()),
        "jct_s": " ".join(f"{each:.1f}" for each in jct_s),
        "wall_s": run.wall_seconds,
    }


def figures(run: ap.Run, scale: float) -> dict[str, float]:
    """Return mean, median and 95th percentile of completion times, as of full length, and use."""
    jct_s = run.jobs["jct_s"].to_numpy(float) / scale
    return {
        "util_pct": 100 * run.summary()["utilization"],
        "mean_s": float(jct_s.mean()),
        "median_s": float(np.median(jct_s)),
        "p95_s": float(np.quantile(jct_s, 0.95)),
    }


def _jittered(workload: ap.Workload, seed: int, most_s: float) -> ap.Workload:
    later_s = np.random.default_rng(seed).uniform(0.0, most_s, len(workload.jobs))
    jobs = workload.jobs.assign(arrival_s=workload.jobs["arrival_s"] + later_s)
    return replace(workload, jobs=jobs.sort_values("arrival_s", kind="stable"))


def options_with_sets(
    what: argparse.ArgumentParser, sets: int, quick_sets: int
) -> argparse.Namespace:
    """Parse the command line, with an option for the number of job sets."""
    what.add_argument("--sets", type=int, metavar="N", help=f"job sets, {sets} by default")
    options = what.parse_args()
    options.sets = options.sets or (quick_sets if options.quick else sets)
    return options


def means(runs: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the means over job sets of every figure, and the deviation (sd) of the mean JCT."""
    grouped = runs.groupby(list(by), sort=False)
    table = grouped[list(FIGURES.values())].mean()
    table.insert(2, "sd", grouped["mean_s"].std(ddof=1))
    return table.rename(columns={value: name for name, value in FIGURES.items()}).reset_index()


def ratio(runs: pd.DataFrame, one: dict[str, Any], other: dict[str, Any]) -> Paired:
    """Return the ratio of mean completion times of two ways, paired by job set."""
    return paired(_mean_s(runs, one), _mean_s(runs, other), ratio=True)


def who_wins(found: Paired) -> str:
    """Say by the interval of a ratio whether the first is better or worse, or neither."""
    if found.pairs < 2:
        return "undecided"
    if not found.sure:
        return "no difference"
    return "better" if found.high < 1 else "worse"


def _mean_s(runs: pd.DataFrame, way: dict[str, Any]) -> pd.Series:
    """Return mean completion times of one way, by job set and jitter."""
    chosen = runs
    for name, value in way.items():
        chosen = chosen[chosen[name] == value]
    return chosen.set_index(["set", "jitter"])["mean_s"]


def in_words(found: Paired) -> str:
    """Write a ratio as 'ratio (interval), wins/sets'."""
    interval = f" ({found.low:.3f}-{found.high:.3f})" if found.pairs > 1 else ""
    return f"{found.estimate:.3f}{interval}, {found.wins}/{found.pairs}"
