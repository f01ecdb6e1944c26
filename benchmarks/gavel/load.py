"""Mean completion time against input load: Gavel's figure of single-GPU jobs on 36:36:36 GPUs.

``python -m benchmarks.gavel.load`` generates jobs as Gavel does, at the speeds of its oracle, and
takes the mean over a window of jobs in the middle while later ones keep arriving. Gavel's window
is jobs 4000-5000 (``--full``); the default is smaller, where queues that grow without end have not
grown as long. ``--gangs`` draws jobs of one to eight GPUs, ``--priorities`` gives a fifth of those
five times the weight, for water filling with and without knowing types. ``--small`` is a third of
the cluster and of the load, jobs 200-300 of 400 and five seeds: every policy ends in minutes;
``--window 1333 1667 2000`` beside it is as long in hours as Gavel's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.report.style import line_styles
from apportion.statistics import paired
from benchmarks.experiment import Settings, chosen, data_of, drawing, parser, run_all
from benchmarks.gavel.load_claims import (
    AGNOSTIC,
    ALLOX,
    AWARE,
    FILLING,
    FILLING_AGNOSTIC,
    GANDIVA,
    LOADS,
    SHARING,
    judged_by,
)
from benchmarks.gavel.workloads import draw_jobs
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

CLUSTER = "v100=36,p100=36,k80=36"
GPUS, SMALL_GPUS = 36, 12
"""Of each type; loads are those of `GPUS`, and scaled."""
RESOLVE_SECONDS = 1920.0
TOLERANCE = 0.15

# Gavel's simulator, hours, by load in jobs per hour.
GAVEL = {
    AGNOSTIC: dict(zip(LOADS, (23.49, 35.79, 63.78, 95.99), strict=True)),
    GANDIVA: dict(zip(LOADS, (18.88, 30.46, 34.32, 42.54), strict=True)),
    ALLOX: dict(zip(LOADS, (17.13, 20.92, 21.96, 25.32), strict=True)),
    AWARE: dict(zip(LOADS, (16.82, 18.97, 22.02, 28.96), strict=True)),
    SHARING: dict(zip(LOADS, (16.96, 18.67, 19.14, 19.64), strict=True)),
}
OTHERS = {
    "finish_time_fairness_agnostic": dict(zip(LOADS, (23.43, 34.93, 64.46, 85.54), strict=True)),
    "finish_time_fairness": dict(zip(LOADS, (17.57, 20.43, 23.38, 30.47), strict=True)),
    "fifo_agnostic": dict(zip(LOADS, (25.38, 99.19, 151.67), strict=False)),
    "fifo": dict(zip(LOADS, (17.08, 22.24, 56.69, 104.12), strict=True)),
}
"""Policies of its other figures, run only where they are named."""

GANG_LOADS = (2.0, 2.6, 2.8)
OF_GANGS = {
    AGNOSTIC: dict(zip(GANG_LOADS, (28.91, 70.54, 169.93), strict=True)),
    GANDIVA: dict(zip(GANG_LOADS, (25.16, 60.43), strict=False)),
    AWARE: dict(zip(GANG_LOADS, (21.90, 36.44, 55.78), strict=True)),
    SHARING: dict(zip(GANG_LOADS, (20.85, 30.51, 38.25), strict=True)),
    "finish_time_fairness_agnostic": {2.6: 64.38},
    "finish_time_fairness": {2.6: 33.90},
}
"""The same of jobs of one to eight GPUs."""

PRIORITY_LOAD, WEIGHT, WEIGHTED = 2.4, 5.0, 0.2
"""Jobs an hour of gangs, what jobs of high priority weigh, and which part of the jobs they are."""


@dataclass(frozen=True)
class Window:
    """Jobs to simulate, and which of them count."""

    first: int
    last: int
    jobs: int


QUANTILES = (1, 5, *range(10, 100, 10), 95, 99)

QUICK, SMALL, DEFAULT, FULL = (
    Window(60, 100, 130),
    Window(200, 300, 400),
    Window(1000, 1500, 2000),
    Window(4000, 5000, 6000),
)


def main() -> None:
    """Run every policy at every load and seed, and print the means beside Gavel's."""
    options = _options()
    window = FULL if options.full else SMALL if options.small else DEFAULT
    window = QUICK if options.quick else Window(*options.window) if options.window else window
    print(f"Completion time against load on {machine()}")
    print(
        f"Jobs {window.first}-{window.last} of {window.jobs}, seeds {options.seeds}, "
        f"{cluster_of(options.gpus)}, loads as of {CLUSTER}, "
        f"solved at most every {RESOLVE_SECONDS:g} s."
    )
    data = data_of(options)
    settings = [
        {"policy": policy, "load": load, "seed": seed, "gpus": options.gpus}
        | {**vars(window), "jobs are": options.jobs_are}
        for load in options.loads
        for seed in options.seeds
        for policy in options.policies
    ]
    runs = run_all(_work, settings, options, "gavel_load")
    published = {"single": GAVEL | OTHERS, "gangs": OF_GANGS}.get(options.jobs_are, {})
    published = {} if options.small else published
    table = _beside_gavel(runs, published)
    show(table, digits=4)
    gains = _gains(runs)
    if len(gains):
        print("\nMean JCT of each policy over that of the one that is blind to types, by seed:")
        show(gains)
    judged = data is not None and not options.quick and not options.window
    verdicts = judged_by(options.jobs_are, table) if judged else []
    print("" if judged else "No verdicts: they need Gavel's data and a window of steady state.")
    write_csv(runs, options.out, "gavel_load_runs")
    write_csv(table, options.out, "gavel_load")
    write_csv(gains, options.out, "gavel_load_gains")
    write_csv(pd.DataFrame(verdicts), options.out, "gavel_load_verdicts")
    _plot(table, options.out, window)
    _distributions(runs, options.out)


def _options() -> argparse.Namespace:
    what = parser("gavel.load", "Mean completion time against input load.", "two loads, 130 jobs")
    what.add_argument("--full", action="store_true", help="Gavel's window, jobs 4000-5000")
    what.add_argument("--small", action="store_true", help="a third of it, jobs 200-300 of 400")
    what.add_argument("--window", type=int, nargs=3, metavar="N", help="first, last, all jobs")
    what.add_argument("--loads", type=float, nargs="+", metavar="R", help="jobs per hour")
    what.add_argument("--seeds", type=int, nargs="+", metavar="N")
    what.add_argument("--policies", nargs="+", default=list(GAVEL), metavar="NAME")
    what.add_argument("--gangs", action="store_true", help="jobs of one to eight GPUs")
    what.add_argument("--priorities", action="store_true", help="such jobs, a fifth of them first")
    options = what.parse_args()
    options.jobs_are = "weighted" if options.priorities else "gangs" if options.gangs else "single"
    if options.priorities:
        options.loads = options.loads or [PRIORITY_LOAD]
        options.policies = [FILLING_AGNOSTIC, FILLING]
    loads = list(GANG_LOADS if options.gangs else LOADS)
    options.loads = options.loads or (loads[:: len(loads) - 1] if options.quick else loads)
    options.gpus = SMALL_GPUS if options.small else GPUS
    several = list(range(5 if options.small else 3))
    options.seeds = options.seeds or ([0] if options.quick else several)
    known = [*GAVEL, *OTHERS, FILLING, FILLING_AGNOSTIC]
    options.policies = chosen("policy", options.policies, known)
    return options


def cluster_of(gpus: int) -> dict[str, int]:
    """Return so many GPUs of each type."""
    return dict.fromkeys(("v100", "p100", "k80"), gpus)


def _gains(runs: pd.DataFrame) -> pd.DataFrame:
    """Set every policy beside least attained service blind to types, by load and paired seeds."""
    rows = []
    for (policy, load), group in runs.groupby(["policy", "load"], sort=False):
        base = runs[(runs["policy"] == AGNOSTIC) & (runs["load"] == load)]
        if policy == AGNOSTIC or len(base) < 2:
            continue
        hours = (each.set_index("seed")["jct_h"] for each in (group, base))
        found = paired(*hours, ratio=True)
        words = f"{found.estimate:.3f} [{found.low:.3f}, {found.high:.3f}]"
        rows.append({"policy": policy, "load": f"{load:g}", "JCT": words})
    table = pd.DataFrame(rows)
    return (
        table.pivot(index="policy", columns="load", values="JCT").reset_index() if rows else table
    )


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Simulate one policy at one load; return the mean over the window, hours."""
    load, seed = settings["load"], settings["seed"]
    gangs = {} if settings["jobs are"] == "single" else {"scale_factors": "gavel"}
    rate = load * settings["gpus"] / GPUS
    workload = draw_jobs(data, jobs=settings["jobs"], seed=seed, jobs_per_hour=rate, **gangs)
    drawn = np.random.default_rng([seed, 1]).random(settings["jobs"])
    high = np.less(drawn, WEIGHTED if settings["jobs are"] == "weighted" else 0.0)
    if high.any():
        jobs = workload.jobs.assign(weight=np.where(high, WEIGHT, 1.0), entity="all")
        workload = ap.Workload(workload.name, jobs, workload.throughputs, pairs=workload.pairs)
    cluster = cluster_of(settings["gpus"])
    run = ap.simulate(
        settings["policy"],
        workload,
        cluster,
        resolve_seconds=RESOLVE_SECONDS,
        preemption_overhead_seconds=0.0,
    )
    window = slice(settings["first"], settings["last"])
    counted, high = run.jobs["jct_s"].iloc[window], high[window]
    return {
        "jct_h": float(counted.mean()) / 3600,
        "high h": float(counted[high].mean()) / 3600,
        "low h": float(counted[~high].mean()) / 3600,
        "ftf": float(run.jobs["ftf"].iloc[window].mean()),
        **{f"q{at} h": float(counted.quantile(at / 100)) / 3600 for at in QUANTILES},
        "most_active": float(run.rounds["active_jobs"].max()),
        "wall_s": run.wall_seconds,
        "policy_s": run.policy_seconds,
    }


def _beside_gavel(runs: pd.DataFrame, gavel: Mapping[str, Mapping[float, float]]) -> pd.DataFrame:
    """Average over the seeds and put Gavel's figures beside ours."""
    rows: list[dict[str, Any]] = []
    for (policy, load), group in runs.groupby(["policy", "load"], sort=False):
        jct_h = float(group["jct_h"].mean())
        gavel_h = gavel.get(str(policy), {}).get(float(str(load)), float("nan"))
        off = jct_h / gavel_h - 1
        close = "-" if off != off else "yes" if abs(off) <= TOLERANCE else "no"
        rows.append(
            {
                "load": load,
                "policy": policy,
                "JCT h": jct_h,
                "least": group["jct_h"].min(),
                "most": group["jct_h"].max(),
                "FTF": group["ftf"].mean(),
                **({} if group["high h"].isna().all() else group[["high h", "low h"]].mean()),
                "Gavel h": gavel_h,
                "%": 100 * off,
                f"within {TOLERANCE:.0%}": close,
                "s per run": group["wall_s"].mean(),
            }
        )
    return pd.DataFrame(rows)


def _plot(table: pd.DataFrame, out: Path | None, window: Window) -> None:
    """Draw completion time against load: ours as lines, Gavel's as crosses."""
    with drawing(out, "gavel_load") as figure:
        if figure is None:
            return
        axes = figure.subplots()
        for policy, style in line_styles(list(dict.fromkeys(table["policy"]))).items():
            rows = table[table["policy"] == policy]
            axes.plot(rows["load"], rows["JCT h"], marker="o", ms=4, label=policy, **style)
            axes.fill_between(
                rows["load"], rows["least"], rows["most"], color=style["color"], alpha=0.15
            )
            axes.plot(rows["load"], rows["Gavel h"], "x", ms=7, color=style["color"])
        axes.set(
            xlabel="input load (jobs/hour)",
            ylabel="mean job completion time (hours)",
            ylim=(0, None),
            title=f"Jobs {window.first}-{window.last}; x: Gavel, jobs 4000-5000",
        )
        axes.legend(fontsize="small")


def _distributions(runs: pd.DataFrame, out: Path | None) -> None:
    """Draw the distribution of completion times at each load, over all seeds."""
    loads = sorted(set(runs["load"]))
    with drawing(out, "gavel_load_distributions", 3.2 * len(loads), 3.2) as figure:
        if figure is None:
            return
        panels: Any = figure.subplots(1, len(loads), sharey=True, squeeze=False)[0]
        for axes, load in zip(panels, loads, strict=True):
            for policy, style in line_styles(list(dict.fromkeys(runs["policy"]))).items():
                rows = runs[(runs["load"] == load) & (runs["policy"] == policy)]
                hours = [rows[f"q{at} h"].mean() for at in QUANTILES]
                axes.plot(hours, [at / 100 for at in QUANTILES], label=policy, **style)
            axes.set(xscale="log", title=f"{load:g} jobs/h", xlabel="completion time (hours)")
        panels[0].set(ylabel="part of the jobs")
        panels[-1].legend(fontsize="x-small")


if __name__ == "__main__":
    main()
