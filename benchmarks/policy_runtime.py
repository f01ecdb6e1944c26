"""Seconds that one solve of a policy takes, against the number of jobs.

``python -m benchmarks.policy_runtime`` times `apportion.solve` and, beside it, the same problem
written straight in cvxpy and solved by HiGHS and by Clarabel with their defaults. Every time is
the median of several, as CPU time of the process and as wall time.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from benchmarks.reporting import machine, progress, show, write_csv
from benchmarks.textbook import OBJECTIVES, solve_textbook

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (32, 128, 512, 1024, 2048, 4096, 16384)
QUICK_SIZES = (32, 128)
PLAIN_SOLVERS = {"HiGHS": "HIGHS", "Clarabel": "CLARABEL"}
SMALL_GAIN = 2.0

# CPU seconds of Gavel's own get_allocation (commit c4fa400, cvxpy 1.9.3, ECOS, one thread, its own
# throughput table and generator, single-GPU jobs, n/4 GPUs of each of three types).
GAVEL_SECONDS = {
    "max_min_fairness": {
        128: 0.011,
        512: 0.024,
        1024: 0.043,
        2048: 0.059,
        4096: 0.113,
        16384: 0.995,
    },
    "makespan": {128: 0.035, 512: 0.075, 1024: 0.128, 2048: 0.248},
    "finish_time_fairness": {32: 0.135, 128: 0.309, 512: 1.41, 1024: 3.17, 2048: 7.54},
}


def main() -> None:
    """Time every policy at every size, print the table, write it and a plot."""
    options = _options()
    sizes = QUICK_SIZES if options.quick else SIZES
    repeats = 2 if options.quick else 5
    print(f"Policy runtime on {machine()}")
    _row("max_min_fairness", "single", 16, 1, options.limit_seconds)  # imports and first calls
    rows = []
    for kind in ("single", "mixed"):
        for policy in OBJECTIVES:
            for jobs in sizes:
                progress(f"{policy}, {kind}, {jobs} jobs")
                times = min(repeats, 3) if jobs > 2048 else repeats
                rows.append(_row(policy, kind, jobs, times, options.limit_seconds))
    progress("")
    table = pd.DataFrame(rows)
    show(table)
    _say_what_it_shows(table, options.limit_seconds)
    write_csv(table, options.out, "policy_runtime")
    if options.out is not None:
        _plot(table, options.out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy_runtime")
    parser.add_argument("--quick", action="store_true", help="two small sizes, two repetitions")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a csv and a plot")
    parser.add_argument(
        "--limit-seconds", type=float, default=20.0, metavar="S", help="for a plain solve"
    )
    return parser.parse_args()


def _row(policy: str, kind: str, jobs: int, repeats: int, limit_s: float) -> dict[str, Any]:
    """Time one policy at one size."""
    speed, table, gpus = _problem(kind, jobs)
    allocation = ap.solve(policy, speed, workers=gpus, jobs=table)
    cpu_s, wall_s = _timed(lambda: ap.solve(policy, speed, workers=gpus, jobs=table), repeats)
    first_s, _ = _timed(
        lambda: ap.solve(policy, speed, workers=gpus, jobs=table, second_stage=False), repeats
    )
    row: dict[str, Any] = {
        "policy": policy,
        "workload": kind,
        "jobs": jobs,
        "classes": allocation.stats["classes"],
        "gap": allocation.gap,
        "apportion": cpu_s,
        "wall s": wall_s,
        "1st stage": first_s,
    }
    counts = np.array(list(gpus.values()), dtype=float)
    for name, solver in PLAIN_SOLVERS.items():
        seconds, value = _timed_plain(policy, speed, table, counts, solver, repeats, limit_s)
        row[f"cvxpy+{name}"] = seconds
        if value is not None:
            row["differ"] = abs(value / allocation.objective - 1)
    plain = [row[f"cvxpy+{name}"] for name in PLAIN_SOLVERS]
    row["gain"] = np.nanmin([*plain, np.inf]) / cpu_s
    known = GAVEL_SECONDS.get(policy, {}) if kind == "single" else {}
    row["Gavel"] = known.get(jobs, np.nan)
    return row


def _problem(kind: str, jobs: int) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, int]]:
    """Draw jobs in the middle of their lives: steps/s, jobs table, GPUs."""
    gpus: dict[str, int] = dict.fromkeys(["v100", "p100", "k80"], max(jobs // 4, 8))
    scale_factors = "single" if kind == "single" else "gavel"
    workload = ap.generate_workload(jobs=jobs, seed=0, scale_factors=scale_factors)
    rng = np.random.default_rng(0)
    elapsed_s = rng.uniform(0.0, 36_000.0, jobs)
    table = pd.DataFrame(
        {
            "arrival_s": np.arange(jobs),
            "scale_factor": workload.jobs["scale_factor"],
            "steps_remaining": workload.jobs["total_steps"] * rng.uniform(0.1, 1.0, jobs),
            "elapsed_s": elapsed_s,
            "isolated_elapsed_s": elapsed_s * rng.uniform(0.5, 1.5, jobs),
        }
    )
    return workload.throughput_of(gpus), table, gpus


def _timed(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median CPU and wall seconds of a call."""
    cpu_s, wall_s = [], []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        cpu_s.append(time.process_time() - cpu)
        wall_s.append(time.perf_counter() - wall)
    return statistics.median(cpu_s), statistics.median(wall_s)


def _timed_plain(
    policy: str,
    speed: pd.DataFrame,
    table: pd.DataFrame,
    gpus: np.ndarray[Any, np.dtype[np.float64]],
    solver: str,
    repeats: int,
    limit_s: float,
) -> tuple[float, float | None]:
    """Time the textbook form; NaN where the solver cannot, or not within the limit."""
    if solver == "HIGHS" and policy == "finish_time_fairness":
        return np.nan, None  # not a linear program
    seconds = []
    value: float | None = None
    for _ in range(repeats):
        cpu = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = solve_textbook(policy, speed, table, gpus, solver, limit_s)
        seconds.append(time.process_time() - cpu)
        if value is None:
            return np.nan, None
        if seconds[-1] > limit_s / 4:
            break  # slow ones are timed once
    return statistics.median(seconds), value


def _say_what_it_shows(table: pd.DataFrame, limit_s: float) -> None:
    """State the reading of the columns, and where little or nothing is gained."""
    print(
        "\nCPU seconds, medians. apportion: with labels, classes, second stage and certificate; "
        "1st stage:\nwithout the second stage, which plain cvxpy does without as well. differ: "
        "relative difference of\nthe objectives. gain: the faster of the two plain solves over "
        "apportion. Gavel: its own code\nwith ECOS, on another machine. -: not a linear program, "
        f"no figure known, or not done in {limit_s:g} s."
    )
    small = table[table["gain"] < SMALL_GAIN]
    if not small.empty:
        print(f"Gain below {SMALL_GAIN:g} (below 1 apportion is the slower one):")
        for (policy, kind), rows in small.groupby(["policy", "workload"], sort=False):
            found = (
                f"{jobs} jobs {gain:.2g}"
                for jobs, gain in zip(rows["jobs"], rows["gain"], strict=True)
            )
            print(f"  {policy}, {kind}: {', '.join(found)}")


def _plot(table: pd.DataFrame, folder: Path) -> None:
    """Draw seconds against jobs, one panel per policy, for single-GPU jobs."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("No plot: matplotlib is not installed (pip install apportion[plot]).")
        return
    names = ["apportion", *(f"cvxpy+{solver}" for solver in PLAIN_SOLVERS)]
    columns = dict(zip(names, names, strict=True))
    columns["Gavel"] = "Gavel (ECOS), other machine"
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    panels = figure.subplots(1, len(OBJECTIVES), sharey=True)
    for axes, policy in zip(panels, OBJECTIVES, strict=True):
        rows = table[(table["policy"] == policy) & (table["workload"] == "single")]
        for column, label in columns.items():
            axes.loglog(rows["jobs"], rows[column], marker="o", markersize=3, label=label)
        axes.set(title=policy, xlabel="jobs")
    panels[0].set_ylabel("CPU seconds per solve")
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), fontsize="small")
    figure.savefig(folder / "policy_runtime.svg")
    print(f"Written: {folder / 'policy_runtime.svg'}")


if __name__ == "__main__":
    main()
