"""Seconds that a policy takes against the number of jobs, beside Gavel's own code.

``python -m benchmarks.gavel.scaling`` times least attained service, the same with space sharing,
and hierarchical fairness, for up to 2048 single-GPU jobs on n/4 GPUs of each of three types: with
identical jobs as one row, as `apportion.solve` has it, and with every job as a row of its own.
``python -m benchmarks.policy_runtime`` has the other policies and plain cvxpy.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.policies import HierarchicalFairness, get_policy
from apportion.report.style import line_styles
from benchmarks.experiment import Settings, claimed, data_of, drawing, parser, run_all, verdict
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.policies import Policy

SIZES, QUICK_SIZES = (32, 128, 256, 512, 1024, 2048), (32, 64)
ENTITIES = 5
SECONDS = (0.01, 0.1, 1.0, 10.0, 100.0)  # on the axis of the plot
LAS, SHARING, HIERARCHY = (
    "max_min_fairness",
    "max_min_fairness_space_sharing",
    "hierarchical_fairness",
)
# Rows of their own: up to here, or one solve takes minutes.
MOST_UNGROUPED = {LAS: 2048, SHARING: 128, HIERARCHY: 512}

# CPU seconds of Gavel's own code (commit c4fa400, ECOS and GLPK, one thread, another machine). Its
# hierarchical policy stops early at 1024 and 2048 jobs, with a wrong answer; at 512 three draws
# took 0.29, 5.3 and more than 120 s.
GAVEL = {
    LAS: {128: 0.011, 512: 0.024, 1024: 0.043, 2048: 0.059},
    SHARING: {32: 0.032, 64: 0.107, 128: 0.536, 256: 3.61, 512: 44.9},
    HIERARCHY: {32: 0.114, 128: 0.316, 512: 5.3, 1024: 0.91, 2048: 3.5},
}
# Seconds in the figure of Gavel's paper, on its authors' server.
PAPER = {
    LAS: {2048: 0.083},
    SHARING: {128: 1.05, 256: 5.3, 512: 34.0, 1024: 296.0},
    HIERARCHY: {512: 5.4, 1024: 27.0, 2048: 97.0},
}


def main() -> None:
    """Time every policy at every size, and judge the growth."""
    options = parser("gavel.scaling", "Policy runtime.", "two small sizes").parse_args()
    print(f"Policy runtime against jobs on {machine()}")
    data_of(options)
    sizes = QUICK_SIZES if options.quick else SIZES
    settings = [
        {"policy": policy, "jobs": jobs, "grouped": grouped}
        for policy in GAVEL
        for jobs in sizes
        for grouped in (True, False)
        if grouped or jobs <= MOST_UNGROUPED[policy]
    ]
    table = _table(run_all(_work, settings, options, "gavel_scaling"))
    print(
        f"CPU seconds of one solve, medians of three. single rows: every job a row of its own. "
        f"Hierarchical: {ENTITIES} entities.\nGavel: its own code, another machine; wrong answers "
        "for hierarchical from 1024 jobs on. paper: read from its figure."
    )
    show(table)
    verdicts = [] if options.quick else _verdicts(table)
    write_csv(table, options.out, "gavel_scaling")
    write_csv(pd.DataFrame(verdicts), options.out, "gavel_scaling_verdicts")
    _plot(table, options.out)


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Time one solve, second stage and certificate included."""
    count = settings["jobs"]
    gpus = {name: max(count // 4, 8) for name in ("v100", "p100", "k80")}
    workload = draw_jobs(data, jobs=count, seed=0)
    policy: Policy = get_policy(settings["policy"])
    jobs = workload.jobs[["arrival_s", "job_type", "scale_factor"]].copy()
    if isinstance(policy, HierarchicalFairness):
        jobs["entity"] = [f"entity {number % ENTITIES}" for number in range(count)]
    speed = workload.throughput_of(gpus)
    pairs = workload.pairs if policy.space_sharing else None
    seconds = []
    for _ in range(4):
        started = time.process_time()
        ap.solve(policy, speed, workers=gpus, jobs=jobs, pairs=pairs, group=settings["grouped"])
        seconds.append(time.process_time() - started)
        if seconds[-1] > 20.0:
            return {"cpu_s": seconds[-1]}  # slow ones are timed once
    return {"cpu_s": statistics.median(seconds[1:])}  # the first also loads modules


def _table(runs: pd.DataFrame) -> pd.DataFrame:
    """Put both ways to solve and Gavel's figures side by side."""
    rows: list[dict[str, Any]] = []
    for (policy, jobs), group in runs.groupby(["policy", "jobs"], sort=False):
        cpu_s = group.set_index("grouped")["cpu_s"]
        rows.append(
            {
                "policy": policy,
                "jobs": jobs,
                "apportion": cpu_s.get(True, np.nan),
                "single rows": cpu_s.get(False, np.nan),
                "Gavel": GAVEL[str(policy)].get(int(str(jobs)), np.nan),
                "paper": PAPER[str(policy)].get(int(str(jobs)), np.nan),
            }
        )
    return pd.DataFrame(rows)


def _verdicts(table: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the paper's claim that policies scale to hundreds of jobs, and who is faster."""
    last = table.groupby("policy", sort=False)["apportion"].last()
    seconds = [Figure(str(policy), float(each)) for policy, each in last.items()]
    verdicts = [claimed("gavel", "scaling", seconds)]
    for policy, rows in table.groupby("policy", sort=False):
        known = rows.dropna(subset=["Gavel"])
        gain = known["Gavel"] / known["apportion"]
        sizes = ", ".join(
            f"{jobs}: {value:.2g}x" for jobs, value in zip(known["jobs"], gain, strict=True)
        )
        verdicts.append(
            verdict(
                f"{policy}: faster than Gavel's code at every size", bool((gain > 1).all()), sizes
            )
        )
    return verdicts


def _plot(table: pd.DataFrame, out: Path | None) -> None:
    """Draw seconds against jobs, one panel per policy."""
    columns = ("apportion", "single rows", "Gavel", "paper")
    with drawing(out, "gavel_scaling", 10.0, 3.6) as figure:
        if figure is None:
            return
        panels: Any = figure.subplots(1, len(GAVEL), sharey=True)
        for axes, policy in zip(panels, GAVEL, strict=True):
            rows = table[table["policy"] == policy]
            for column, style in line_styles(columns).items():
                known = rows.dropna(subset=[column])
                axes.loglog(known["jobs"], known[column], marker="o", ms=4, label=column, **style)
            axes.set_title(policy, fontsize="medium")
            axes.set_xticks(SIZES, [str(size) for size in SIZES], fontsize="small")
            axes.set_yticks(SECONDS, [f"{value:g}" for value in SECONDS])
            axes.minorticks_off()
            axes.set_xlabel("jobs")
        panels[0].set_ylabel("seconds per solve")
        panels[0].legend(fontsize="small")


if __name__ == "__main__":
    main()
