"""CASSINI's curves: loads of the snapshots' links, four parallelisms, iterations over time, marks.

``python -m benchmarks.cassini.pictures [--quick] [--out DIR]``. Gb/s wanted of a link at random
starts and shifted, for each snapshot; what a gang of four sends over an iteration by each way to
train a transformer; and of a run under Themis, with random starts and with CASSINI, the mean
iteration over alone by the hour and marks an iteration by model. Tables of what is drawn are csv.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.report.link_plots import compatibility_figure
from apportion.sim.network import communication_profile
from apportion.sim.network.models.communicating import PARALLELISMS
from apportion.statistics import to_markdown
from benchmarks.cassini.paper import GBPS, SNAPSHOTS, of_period
from benchmarks.experiment import claimed, drawing
from benchmarks.papers.claims import Figure
from benchmarks.reporting import add_out, write_csv

if TYPE_CHECKING:
    from pathlib import Path

TRAINED = "GPT-2"
"""The transformer that is trained in four ways."""

WAYS: dict[str, dict[str, Any]] = {
    "random starts": {"network": "phases_unshifted"},
    "CASSINI": {"network": "phases", "placement": "cassini"},
}
POINTS = 400


def main() -> None:
    """Draw everything, and print the tables of it."""
    what = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what.add_argument("--quick", action="store_true", help="one snapshot, four jobs")
    add_out(what)
    options = what.parse_args()
    loads = [
        snapshot(number, models, period_s, options.out)
        for number, (models, period_s) in enumerate(SNAPSHOTS[: 1 if options.quick else None])
    ]
    parallelisms(options.out)
    marks = series(*((3, 1) if options.quick else (8, 5)), options.out)
    if not options.quick:
        claimed("cassini", "snapshot-loads", loads)
        claimed("cassini", "marks-models", marks)


def snapshot(number: int, models: tuple[str, ...], period_s: float, out: Path | None) -> Figure:
    """Print how much of the time a snapshot wants more than its link has; draw its loads.

    Returns shifted over random.
    """
    found = ap.compatibility([of_period(model, period_s) for model in models], GBPS)
    rng = np.random.default_rng(number)
    at_s = np.linspace(0.0, period_s, POINTS, endpoint=False)
    starts = {
        "random": [float(rng.uniform(0.0, period_s)) for _ in models],
        "shifted": [float(each) for each in found.shifts_s],
    }
    table = pd.DataFrame({"s": at_s})
    for way, shifts in starts.items():
        loads = [
            of_period(model, period_s).demand(at_s - shift)
            for model, shift in zip(models, shifts, strict=True)
        ]
        table[way] = np.sum(loads, axis=0)
    part = {way: float((table[way] > GBPS * (1 + 1e-9)).mean()) for way in starts}
    over = {way: f"{100 * each:.0f} %" for way, each in part.items()}
    print(f"{', '.join(models)}: score {found.score:.2f}, link wanted above 50 Gb/s: {over}")
    write_csv(table, out, f"cassini_snapshot_{number}")
    if out is not None:
        compatibility_figure(found).savefig(out / f"cassini_snapshot_{number}.png", dpi=110)
    return Figure(f"{found.score:.2f}, {len(models)} jobs", part["shifted"] / part["random"])


def parallelisms(out: Path | None) -> None:
    """Print what an iteration of each kind sends; draw it over an iteration."""
    profiles = {
        each: communication_profile(TRAINED, gpus=4, parallelism=each) for each in PARALLELISMS
    }
    rows = [
        {
            "trained": name,
            "period, ms": 1000 * each.period_s,
            "phases": len(each.phases),
            "sends, part of the time": sum(p.duration_s for p in each.phases) / each.period_s,
            "most Gb/s": max(p.gbps for p in each.phases),
        }
        for name, each in profiles.items()
    ]
    print(f"\n{TRAINED} on four GPUs\n{to_markdown(pd.DataFrame(rows))}")
    write_csv(pd.DataFrame(rows), out, "cassini_parallelisms")
    with drawing(out, "cassini_parallelisms", 8.0, 5.0) as figure:
        if figure is not None:
            panels: Any = figure.subplots(len(profiles), 1, sharex=True)
            for axes, (name, each) in zip(panels, profiles.items(), strict=True):
                at = np.linspace(0.0, 1.0, 4 * POINTS, endpoint=False)
                axes.fill_between(at, each.demand(at * each.period_s), step="post", alpha=0.6)
                axes.set(ylabel="Gb/s", ylim=(0, 1.1 * GBPS), title=name)
            panels[-1].set(xlabel="part of an iteration")


def runs_of(jobs: int, seed: int) -> tuple[ap.Workload, dict[str, ap.Run]]:
    """Draw jobs and run them under Themis, at random starts and with CASSINI."""
    workload = ap.generate_communicating_workload(
        jobs, jobs_per_hour=9, gpus=(3, 5), models=("DLRM", "GPT-1"), seed=seed
    )
    cluster = ap.Cluster({"a100": 24}, gpus_per_machine=1, machines_per_rack=2)
    common: dict[str, Any] = {"lease_seconds": 600, "topology": "cassini"}
    common |= {"preemption_overhead_seconds": 0.0}
    return workload, {
        way: ap.simulate("themis", workload, cluster, **common, **options)
        for way, options in WAYS.items()
    }


def series(jobs: int, draws: int, out: Path | None) -> list[Figure]:
    """Print iterations by the hour of one draw, and marks by model of all; draw the former.

    Returns marks of a model with CASSINI over those at random starts.
    """
    workload, runs = runs_of(jobs, 0)
    others = [runs_of(jobs, seed)[1] for seed in range(1, draws)]
    by_hour, marks = {}, {}
    for way, run in runs.items():
        made = run.tables["iterations"]
        keys = pd.MultiIndex.from_frame(
            workload.jobs.loc[made["job"], ["job_type", "scale_factor"]]
        )
        slowdown = made["iteration_s"] * workload.throughputs["a100"].loc[keys].to_numpy()
        ends = np.arange(0.0, made["to_s"].max(), 600.0)
        by_hour[way] = pd.Series(
            {
                end / 3600: slowdown[(made["from_s"] <= end) & (end < made["to_s"])].mean()
                for end in ends
            }
        )
        every = [each[way].tables["iteration_times"]["marks_gigabits"] for each in [runs, *others]]
        marks[way] = pd.concat(every, axis=1).mean(axis=1)
    table = pd.DataFrame(by_hour).rename_axis("hour").reset_index()
    by_model = pd.DataFrame(marks).rename_axis("model").reset_index()
    print(f"\nGigabits marked an iteration\n{to_markdown(by_model)}")
    print(f"\nmean iteration over alone: {table[list(WAYS)].mean().round(3).to_dict()}")
    write_csv(table, out, "cassini_series")
    write_csv(by_model, out, "cassini_marks")
    with drawing(out, "cassini_series") as figure:
        if figure is not None:
            axes = figure.subplots()
            for way in WAYS:
                axes.plot(table["hour"], table[way], label=way)
            axes.set(xlabel="hours", ylabel="iteration over alone, mean of jobs")
            axes.legend()
    before, ours = (marks[way] for way in WAYS)
    ratios = (ours / before).drop("all").dropna()
    return [Figure(str(name), float(ratio)) for name, ratio in ratios.items()]


if __name__ == "__main__":
    main()
