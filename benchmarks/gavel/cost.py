"""Cost policies: dollars and missed deadlines on a generated workload.

``python -m benchmarks.gavel.cost`` runs the policies that minimise cost, with and without the
deadlines as constraints, beside the largest total throughput and least attained service. Gavel's
artefact has no price data and no stored figures of this experiment; the claims judged are the
directions of its paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.report.style import line_styles
from apportion.statistics import paired
from benchmarks.experiment import Settings, claimed, data_of, drawing, parser, run_all
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "v100=12,p100=12,k80=12"
THROUGHPUT, COST, SLOS, LAS = (
    "max_total_throughput",
    "min_cost",
    "min_cost_slos",
    "max_min_fairness",
)
POLICIES = (THROUGHPUT, COST, SLOS, LAS)
JOBS, QUICK_JOBS = 100, 8
SEEDS, QUICK_SEEDS = 3, 1
JOBS_PER_HOUR = 1.0
ROUND_SECONDS, QUICK_ROUND_SECONDS = 360.0, 3600.0
FIGURES = ("cost $", "missed %", "by a round %", "mean_jct_h", "makespan_h")


def main() -> None:
    """Run the policies, print dollars and missed deadlines, and judge the directions."""
    options = parser(
        "gavel.cost", "Cost and deadlines.", f"{QUICK_JOBS} jobs, one seed, a solve an hour"
    ).parse_args()
    print(f"Cost and deadlines on {machine()}")
    data_of(options)
    jobs = QUICK_JOBS if options.quick else JOBS
    every_s = {"resolve_seconds": QUICK_ROUND_SECONDS} if options.quick else {}
    settings = [
        {"policy": policy, "seed": seed, "jobs": jobs, **every_s}
        for seed in range(QUICK_SEEDS if options.quick else SEEDS)
        for policy in POLICIES
    ]
    runs = run_all(_work, settings, options, "gavel_cost")
    means = runs.groupby("policy", sort=False)[list(FIGURES)].mean().reset_index()
    base = float(means.loc[means["policy"] == THROUGHPUT, "cost $"].iloc[0])
    means.insert(2, "cheaper", base / means["cost $"])
    print(
        f"{jobs} single-GPU jobs, {JOBS_PER_HOUR:g} an hour, on {CLUSTER}, deadlines 1.2, 2 or 10 "
        f"times the duration on a v100;\nmeans of {runs['seed'].nunique()} seeds. cheaper: cost of "
        f"{THROUGHPUT} over this one's; missed: jobs past their deadline, and by more than a "
        f"round\nof {ROUND_SECONDS:g} s."
    )
    show(means)
    verdicts = [] if options.quick else _verdicts(runs)
    write_csv(runs, options.out, "gavel_cost_runs")
    write_csv(means, options.out, "gavel_cost")
    write_csv(pd.DataFrame(verdicts), options.out, "gavel_cost_verdicts")
    _plot(means, options.out)


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    workload = draw_jobs(
        data,
        jobs=settings["jobs"],
        seed=settings["seed"],
        jobs_per_hour=JOBS_PER_HOUR,
        deadlines="gavel",
    )
    every_s = settings.get("resolve_seconds", ROUND_SECONDS)
    run = ap.simulate(
        settings["policy"],
        workload,
        CLUSTER,
        resolve_seconds=every_s,
        preemption_overhead_seconds=0.0,
    )
    late_s = run.jobs["jct_s"].to_numpy() - workload.jobs["deadline_s"].to_numpy()
    figures = run.summary()
    return {
        "cost $": figures["cost"],
        "missed %": 100 * float((late_s > 0).mean()),
        "by a round %": 100 * float((late_s > ROUND_SECONDS).mean()),
        "mean_jct_h": figures["mean_jct_s"] / 3600,
        "makespan_h": figures["makespan_s"] / 3600,
    }


def _verdicts(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Judge who is cheaper, by seed, and who misses deadlines."""
    cost = runs.pivot(index="seed", columns="policy", values="cost $")
    cheaper = []
    for name in (COST, SLOS):
        found = paired(cost[THROUGHPUT], cost[name], ratio=True)
        cheaper.append(Figure(name, found.estimate, found.low, found.high))
    late = runs.pivot(index="seed", columns="policy", values="missed %")
    seeds = int((cost[COST] < cost[SLOS]).sum())
    print(f"deadlines make {COST} dearer in {seeds} of {len(cost)} seeds")
    return [
        claimed("gavel", "cost-cheaper", cheaper),
        claimed("gavel", "cost-deadlines", [Figure("", float(late[SLOS].max()))]),
        claimed("gavel", "cost-misses", [Figure("", float(late[COST].mean()))]),
    ]


def _plot(means: pd.DataFrame, out: Path | None) -> None:
    """Draw dollars and missed deadlines side by side."""
    with drawing(out, "gavel_cost", 8.0, 3.0) as figure:
        if figure is None:
            return
        panels: Any = figure.subplots(1, 2, sharey=True)
        colours = [style["color"] for style in line_styles(POLICIES).values()]
        rows = means.set_index("policy").loc[list(POLICIES)]
        titles = {"cost $": "cost (US dollars)", "missed %": "missed deadlines (% of jobs)"}
        for axes, (column, title) in zip(panels, titles.items(), strict=True):
            bars = axes.barh(list(POLICIES), rows[column], color=colours)
            axes.bar_label(bars, fmt="{:,.0f}", padding=3)
            axes.margins(x=0.15)
            axes.grid(visible=False, axis="y")
            axes.set(xlabel=title)
        panels[0].invert_yaxis()


if __name__ == "__main__":
    main()
