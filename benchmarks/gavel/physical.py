"""Gavel's physical-cluster traces in simulation, with the figures of Gavel's own simulator.

``python -m benchmarks.gavel.physical`` reads the traces and the throughput oracle of Gavel's
artefact (github.com/stanford-futuredata/gavel, below ``--data``), which is not part of apportion.
Without them it says so and runs generated workloads of the same shape, for which there are no
figures to compare with.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import apportion as ap
from benchmarks.reporting import machine, progress, show, write_csv

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "gavel"
TRACES = {"makespan": "minimize_makespan", "arrivals": "max_min_fairness"}
RESOLVE_SECONDS = 1920.0
QUICK_JOBS = 10


@dataclass(frozen=True)
class Setting:
    """A trace on a cluster, and the policies to run."""

    trace: str
    cluster: str
    policies: tuple[str, ...]


SETTINGS = (
    Setting(
        "makespan",
        "v100=12,p100=12,k80=12",
        ("max_min_fairness_agnostic", "max_min_fairness", "makespan_agnostic", "makespan"),
    ),
    Setting(
        "arrivals",
        "v100=8,p100=8,k80=8",
        ("max_min_fairness_agnostic", "max_min_fairness", "finish_time_fairness", "isolated"),
    ),
    Setting("makespan", "v100=8,p100=16,k80=24", ("makespan_agnostic", "makespan")),
    Setting("arrivals", "v100=8,p100=16,k80=24", ("max_min_fairness_agnostic", "max_min_fairness")),
)

# Gavel's simulator (commit c4fa400, 4 GPUs per machine, 360 s rounds, seed 0, on another machine):
# mean JCT in hours, makespan in hours, rounds, seconds of the run.
GAVEL = {
    ("makespan", "v100=12,p100=12,k80=12"): {
        "max_min_fairness_agnostic": (11.4725, 24.852, 249, 0.58),
        "max_min_fairness": (10.7412, 20.916, 210, 0.51),
        "makespan_agnostic": (22.3505, 23.358, 234, 0.96),
        "makespan": (19.8805, 20.090, 203, 0.63),
    },
    ("arrivals", "v100=8,p100=8,k80=8"): {
        "max_min_fairness_agnostic": (7.7244, 27.386, 274, 0.50),
        "max_min_fairness": (8.4460, 23.431, 235, 0.52),
        "finish_time_fairness": (8.373, 23.504, 236, 4.4),
        "isolated": (7.699, 27.02, 271, 0.34),
    },
}
WAYS: dict[str, dict[str, Any]] = {
    "as Gavel": {
        "carry_over": False,
        "resolve_every": math.inf,
        "preemption_overhead_seconds": 0.0,
    },
    "carried over": {"carry_over": True, "preemption_overhead_seconds": 0.0},
    "ideal": {"mechanism": "exact"},
}


def main() -> None:
    """Run every setting and print our figures beside Gavel's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gavel.physical")
    parser.add_argument(
        "--quick", action="store_true", help=f"two settings, {QUICK_JOBS} jobs each"
    )
    parser.add_argument("--data", type=Path, default=DATA, metavar="PATH", help="Gavel's data")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a csv")
    options = parser.parse_args()
    print(f"Gavel's physical-cluster traces on {machine()}")
    limit = QUICK_JOBS if options.quick else None
    real = options.data.is_dir()
    if not real:
        print(f"skipped: data absent ({options.data}); generated workloads of that shape instead")
    against, ways = [], []
    for setting in SETTINGS[:2] if options.quick else SETTINGS:
        workload = _read(options.data, setting.trace, limit) if real else _like(setting, limit)
        known = GAVEL.get((setting.trace, setting.cluster), {}) if real and limit is None else {}
        for policy in setting.policies:
            progress(f"{setting.trace} on {setting.cluster}: {policy}")
            runs = {
                way: ap.simulate(
                    policy, workload, setting.cluster, resolve_seconds=RESOLVE_SECONDS, **how
                )
                for way, how in WAYS.items()
            }
            name = {"trace": setting.trace, "cluster": setting.cluster.replace("=", ":")}
            against.append(name | {"policy": policy} | _beside(runs["as Gavel"], known.get(policy)))
            ways.append(name | {"policy": policy} | _ways(runs))
    progress("")
    _report(pd.DataFrame(against), pd.DataFrame(ways), options.out)
    if real and limit is None:
        print(_bound(options.data))


def _read(data: Path, trace: str, limit: int | None) -> ap.Workload:
    """Read one of Gavel's traces with its oracle."""
    oracle = data / "simulation_throughputs.json.gz"
    path = data / "traces" / "physical_cluster" / f"{TRACES[trace]}.trace"
    return ap.read_workload(path, throughputs=oracle, limit=limit)


def _like(setting: Setting, limit: int | None) -> ap.Workload:
    """Draw a workload of the shape of a trace: sizes, durations and arrivals alike."""
    if setting.trace == "makespan":
        shares: dict[float, float] = {1: 0.71, 2: 0.06, 4: 0.23}
        return ap.generate_workload(jobs=limit or 100, seed=0, scale_factors=shares)
    shares = {1: 0.61, 2: 0.20, 4: 0.19}
    return ap.generate_workload(jobs=limit or 96, seed=0, scale_factors=shares, jobs_per_hour=7.5)


def _beside(run: ap.Run, gavel: tuple[float, float, int, float] | None) -> dict[str, Any]:
    """Put Gavel's figures beside those of a run that counts as Gavel does."""
    figures = run.summary()
    jct_h, makespan_h = figures["mean_jct_s"] / 3600, figures["makespan_s"] / 3600
    gavel_jct_h, gavel_makespan_h, gavel_rounds, gavel_s = gavel or (np.nan,) * 4
    return {
        "mean JCT": jct_h,
        "Gavel": gavel_jct_h,
        "%": 100 * (jct_h / gavel_jct_h - 1),
        "makespan": makespan_h,
        "Gavel ": gavel_makespan_h,
        "% ": 100 * (makespan_h / gavel_makespan_h - 1),
        "rounds": figures["rounds"],
        "Gavel  ": gavel_rounds,
        "rounds/s": figures["rounds"] / run.wall_seconds,
        "Gavel   ": gavel_rounds / gavel_s,
    }


def _ways(runs: dict[str, ap.Run]) -> dict[str, float]:
    """Put the mean completion times and makespans of the ways to run rounds side by side."""
    row = {}
    for figure, title in (("mean_jct_s", "JCT"), ("makespan_s", "makespan")):
        for way, run in runs.items():
            row[f"{title} {way}"] = run.summary()[figure] / 3600
    return row


def _report(against: pd.DataFrame, ways: pd.DataFrame, out: Path | None) -> None:
    """Print both tables with what they mean, and write them."""
    print(
        f"\n1. As Gavel counts (carry_over=False, policies solved at most every "
        f"{RESOLVE_SECONDS:g} s), beside Gavel's\nsimulator on another machine. Hours; %: ours "
        "above Gavel's; rounds per second of wall time, policy\nincluded. -: no figure of "
        "Gavel's to compare with."
    )
    show(against, digits=4)
    print(
        "\n2. Hours with Gavel's way of counting, with what jobs are owed carried over when a "
        "policy is\nsolved again (carry_over=True), and with every share had exactly "
        "(mechanism='exact')."
    )
    show(ways, digits=4)
    write_csv(against, out, "gavel_physical")
    write_csv(ways, out, "gavel_physical_ways")


def _bound(data: Path) -> str:
    """Solve the makespan trace once: no schedule can beat the optimum of the whole."""
    setting = SETTINGS[0]
    workload = _read(data, setting.trace, None)
    allocation = ap.solve(
        "makespan",
        workload.throughput_of(setting.cluster),
        workers=setting.cluster,
        jobs=workload.jobs[["scale_factor", "total_steps"]],
    )
    return (
        f"Least makespan of {workload.name} on {setting.cluster} by the linear program: "
        f"{allocation.objective / 3600:.3f} h."
    )


if __name__ == "__main__":
    main()
