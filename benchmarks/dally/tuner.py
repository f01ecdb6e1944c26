"""Dally's delay timers as they tune themselves, and what becomes of Dally without one of its parts.

``python -m benchmarks.dally.tuner`` runs Dally on 2 to 16 racks and prints the timers in force, and
on 4 racks with one thing changed at a time: the shapes of gangs that do not divide evenly, the
tuner of the authors' simulator in place of the paper's, the length of leases and of the history,
and jobs that keep their GPUs at the end of a lease. The jobs are bootstrap resamples of a list
drawn from the published marginals, as in `benchmarks.dally.schedulers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.report.style import line_styles
from apportion.sim.network import get_network
from benchmarks.experiment import Settings, claimed, drawing, parser, run_all
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

RACKS, QUICK_RACKS = (2, 4, 8, 16), (2,)
RESAMPLES, QUICK_RESAMPLES = 8, 1
QUICK_JOBS = 120
ABLATED_ON, QUICK_ABLATED_ON = 4, 2
"""Racks of the runs with one thing changed."""

# Timer, and GPUs of the gangs that it is for: the most frequent ones that it matters to.
TIMERS = {"machine timer of 8 GPUs": ("machine_s", 8), "rack timer of 16 GPUs": ("rack_s", 16)}

AS_PAPER = "as in the paper"
VARIANTS: dict[str, dict[str, Any]] = {
    AS_PAPER: {},
    "no flat rings for uneven gangs": {"network": {"flat_if_unbalanced": False}},
    "waits of less than a lease left out": {"scheduler": {"drops_short_waits": True}},
    "tuner of the authors' code": {
        "scheduler": {"population_deviation": True, "bounded": True, "drops_short_waits": True}
    },
    "leases of 15 min": {"scheduler": {"lease_s": 900.0}},
    "leases of 4 h": {"scheduler": {"lease_s": 14400.0}},
    "history of 12 h": {"scheduler": {"history_s": 43200.0}},
    "history of 8 days": {"scheduler": {"history_s": 691200.0}},
}
FIGURES = {
    "mean_jct_s": "JCT",
    "p95_jct_s": "p95",
    "makespan_s": "makespan",
    "queueing_s": "wait",
    "communication_s": "comm",
}


def main() -> None:
    """Print timers by number of racks and figures by variant, and judge that the tuner adapts."""
    text = f"{QUICK_JOBS} jobs, {QUICK_RACKS[0]} racks, one resample"
    what = "Dally's timers, and Dally with a part changed."
    options = parser("dally.tuner", what, text).parse_args()
    print(f"Delay timers on {machine()}")
    racks = QUICK_RACKS if options.quick else RACKS
    ablated_on = QUICK_ABLATED_ON if options.quick else ABLATED_ON
    seeds = range(QUICK_RESAMPLES if options.quick else RESAMPLES)
    jobs = QUICK_JOBS if options.quick else None
    common = [{"seed": seed, "jobs": jobs} for seed in seeds]
    settings = [
        *({"racks": number, "variant": AS_PAPER, **each} for number in racks for each in common),
        *(
            {"racks": ablated_on, "variant": variant, **each}
            for variant in VARIANTS
            if variant != AS_PAPER
            for each in common
        ),
    ]
    runs = run_all(_work, settings, options, "dally_tuner")
    print(f"{jobs or 500} jobs at once, {len(seeds)} resamples; hours, medians over resamples.")
    timers = _timers(runs)
    show(timers)
    variants = _variants(runs[runs["racks"] == ablated_on])
    print(
        f"\nOn {ablated_on} racks; behind each figure by how much it is more than in the paper's."
    )
    show(variants)
    verdicts = [] if options.quick else _verdicts(timers)
    write_csv(runs, options.out, "dally_tuner_runs")
    write_csv(timers, options.out, "dally_tuner_timers")
    write_csv(variants, options.out, "dally_tuner_variants")
    write_csv(pd.DataFrame(verdicts), options.out, "dally_tuner_verdicts")
    _plot(options.out, racks, jobs)


def _run(settings: Settings) -> ap.Run:
    """Run Dally on one resample, with what the variant changes."""
    changed, cluster = VARIANTS[settings["variant"]], ap.Cluster.of_racks(settings["racks"])
    workload = ap.resample(ap.generate_rack_workload(jobs=settings["jobs"]), settings["seed"])
    network = get_network("table1", cluster=cluster, **changed.get("network", {}))
    scheduler = ap.get_scheduler("dally", **changed.get("scheduler", {}))
    return ap.simulate(
        scheduler, workload, cluster, network=network, preemption_overhead_seconds=0.0
    )


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    run = _run(settings)
    figures = run.summary()
    hours = {f"{name} h": figures[column] / 3600 for column, name in FIGURES.items()}
    for name, (column, gpus) in TIMERS.items():
        hours[f"{name} h"] = _mean_in_force(run, column, gpus) / 3600
    return {**hours, "preemptions": figures["preemptions"], "wall_s": run.wall_seconds}


def _set(run: ap.Run, gpus: int) -> pd.DataFrame:
    """Return when and to what the timers of a size were set."""
    timers = run.tables["timers"]
    return timers[timers["scale_factor"] == gpus]


def _mean_in_force(run: ap.Run, column: str, gpus: int) -> float:
    """Return the mean of a timer over time, from the first to the last time that it was set."""
    timers = _set(run, gpus)
    lengths = np.diff(timers["time_s"])
    if not lengths.sum() > 0:
        return float("nan")
    return float(np.average(timers[column].iloc[:-1], weights=lengths))


def _timers(runs: pd.DataFrame) -> pd.DataFrame:
    """Take medians of the timers by number of racks."""
    names = [f"{name} h" for name in TIMERS]
    rows = runs[runs["variant"] == AS_PAPER]
    return rows.groupby("racks")[names].median().reset_index()


def _variants(runs: pd.DataFrame) -> pd.DataFrame:
    """Take medians by variant, and of the ratios to the run that the paper describes."""
    names = [f"{name} h" for name in FIGURES.values()]
    of = {name: rows.set_index("seed")[names] for name, rows in runs.groupby("variant", sort=False)}
    rows = []
    for variant, figures in of.items():
        more = 100 * (figures / of[AS_PAPER] - 1)
        cells = {
            name: f"{figures[name].median():.2f} ({more[name].median():+.0f} %)" for name in names
        }
        own = runs[runs["variant"] == variant]
        rows.append({"variant": variant, **cells, "preempted": own["preemptions"].median()})
    return pd.DataFrame(rows)


def _verdicts(timers: pd.DataFrame) -> list[dict[str, str]]:
    """Judge that the tuner is the more patient, the smaller the cluster."""
    hours = timers.set_index("racks")
    ratios = {name: hours[f"{name} h"].iloc[0] / hours[f"{name} h"].iloc[-1] for name in TIMERS}
    return [claimed("dally", "tuner", [Figure(name, float(each)) for name, each in ratios.items()])]


def _plot(out: Path | None, racks: tuple[int, ...], jobs: int | None) -> None:
    """Draw the timers over time, of the first resample."""
    with drawing(out, "dally_tuner", height=5.0) as figure:
        if figure is None:
            return
        panels = figure.subplots(len(TIMERS), 1, sharex=True)
        styles = line_styles([str(number) for number in racks])
        for number in racks:
            run = _run({"racks": number, "variant": AS_PAPER, "seed": 0, "jobs": jobs})
            for axes, (name, (column, gpus)) in zip(panels, TIMERS.items(), strict=True):
                timers = _set(run, gpus)
                hours = timers[["time_s", column]].to_numpy(float).T / 3600
                axes.step(*hours, where="post", label=f"{number} racks", **styles[str(number)])
                axes.set(title=name, ylabel="hours")
        panels[-1].set_xlabel("time (hours)")
        panels[0].legend(fontsize="small")


if __name__ == "__main__":
    main()
