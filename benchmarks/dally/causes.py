"""What the differences between Dally, Tiresias and Gandiva hang on, one thing changed at a time.

``python -m benchmarks.dally.causes`` runs the batch of `benchmarks.dally.schedulers` on bootstrap
resamples, as it is and with one change: whose turn it is under Dally, how it tunes its timers, what
Gandiva knows of places, what ends of leases cost, how long leases are, how many jobs there are, and
what uneven gangs cost. Printed is what Dally has less than each of the two, paired by resample, and
how Gandiva's communication grows with the racks where every rack has as many jobs. ``--others
dally_manual`` sets it beside itself with timers by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.mechanism.leases.terms import OfferScheduler
from apportion.mechanism.leases.timers import ManualTimers
from apportion.mechanism.orders import DiscretizedLeastAttainedService
from apportion.mechanism.placements.by_speed import Placing, by_tier
from apportion.sim.network import get_network
from apportion.statistics import paired
from benchmarks.dally.schedulers import ARRIVALS, DALLY, FIGURES, GANDIVA, MANUAL, TIRESIAS
from benchmarks.experiment import Settings, chosen, drawing, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from apportion.mechanism.decider import About

RACKS, QUICK_RACKS = (2, 8), (2,)
RESAMPLES, QUICK_RESAMPLES = 5, 2
JOBS, QUICK_JOBS = {"batch": 500, "poisson": 411}, 60
FULL_RACKS = (2, 4, 8, 16)
OTHERS = (TIRESIAS, GANDIVA, MANUAL)
HOUR_S = 3600.0
SHOWN = ("JCT", "median", "p95", "p99", "makespan", "wait", "p95 wait", "p99 wait", "comm")


@dataclass(frozen=True, repr=False)
class SeesTiers(OfferScheduler):
    """A scheduler that knows in which tier gangs lie, and nothing of where within a tier.

    So a gang that is spread stays as it is until a tighter tier is free: Gandiva as in the
    simulator of Dally's authors.
    """

    def make(self, about: About, *args: Any, **more: Any) -> Any:
        """Let all placements of a tier be equally fast, as far as it is told."""
        devices = about.devices
        devices.placings[:] = [Placing(pool.gpus, by_tier) for pool in devices.pools]
        return super().make(about, *args, **more)


AS_MEASURED = "as measured"
FULL = "as many jobs on every rack"
CHANGES: dict[str, dict[str, Any]] = {
    AS_MEASURED: {},
    "Dally in the order of Tiresias": {DALLY: {"order": DiscretizedLeastAttainedService()}},
    "Dally without its timers": {DALLY: {"name": "dally_no_wait"}},
    "Dally leaves out short waits": {DALLY: {"drops_short_waits": True}},
    "Dally tunes as the authors' code": {
        DALLY: {"population_deviation": True, "bounded": True, "drops_short_waits": True}
    },
    "timers by hand of 3 and 6 h": {MANUAL: {"timers": ManualTimers(3 * HOUR_S, 6 * HOUR_S)}},
    "Gandiva moves between tiers only": {GANDIVA: {"tiers": True}},
    "Gandiva never moves": {GANDIVA: {"migrates": False}},
    "ends of leases are free": {"all": {"checkpoint_s_per_gpu": 0.0}},
    "leases of 15 min": {"all": {"lease_s": 900.0}},
    "leases of 4 h": {"all": {"lease_s": 14400.0}},
    "half the jobs": {"jobs": 0.5},
    "twice the jobs": {"jobs": 2.0},
    "no flat rings for uneven gangs": {"network": {"flat_if_unbalanced": False}},
}
"""What is changed: the options of one scheduler or of all, the number of jobs, the network."""


def main() -> None:
    """Run every change, and print the differences beside those of `AS_MEASURED`."""
    text = f"{QUICK_JOBS} jobs, {QUICK_RACKS[0]} racks, {QUICK_RESAMPLES} resamples"
    first = (__doc__ or "").partition("\n")[0]
    what = parser("dally.causes", first, text)
    what.add_argument("--arrivals", default="batch", choices=ARRIVALS)
    what.add_argument("--racks", type=int, nargs="+", metavar="N")
    what.add_argument("--changes", nargs="+", default=list(CHANGES), metavar="NAME")
    what.add_argument("--others", nargs="+", default=list(OTHERS[:2]), choices=OTHERS)
    options = what.parse_args()
    quick, changes = options.quick, chosen("change", options.changes, list(CHANGES))
    jobs, seeds = (QUICK_JOBS, QUICK_RESAMPLES) if quick else (JOBS[options.arrivals], RESAMPLES)
    settings = [
        {"change": change, "racks": racks, "seed": seed, "scheduler": scheduler}
        | {"jobs": int(jobs * CHANGES[change].get("jobs", 1)), "arrivals": options.arrivals}
        for racks in options.racks or (QUICK_RACKS if quick else RACKS)
        for change in dict.fromkeys([AS_MEASURED, *changes])
        for seed in range(seeds)
        for scheduler in _changed(change)
        if scheduler in (DALLY, *options.others)
    ]
    full = [
        {"change": FULL, "racks": racks, "seed": seed, "scheduler": GANDIVA}
        | {"jobs": jobs * racks // 8, "arrivals": "batch"}
        for racks in ((2, 4) if quick else FULL_RACKS if _of_gandiva(options) else ())
        for seed in range(seeds)
    ]
    runs = run_all(_work, [*settings, *full], options, "dally_causes")
    print(f"{jobs} jobs ({options.arrivals}), {seeds} resamples, on {machine()}")
    print("What Dally has less, %, paired by resample: geometric mean [95 % interval].")
    gains = _gains(runs[runs["change"] != FULL], options.others)
    show(gains)
    write_csv(runs, options.out, "dally_causes_runs")
    write_csv(gains, options.out, "dally_causes")
    if full:
        grown = runs[runs["change"] == FULL].groupby(["racks", "jobs"])["comm h"].median()
        print("\nGandiva's communication of a job, hours, medians; as many jobs on every rack.")
        show(grown.reset_index(), digits=3)
        write_csv(grown.reset_index(), options.out, "dally_causes_full_racks")
    _draw(runs, options.out)


def _of_gandiva(options: argparse.Namespace) -> bool:
    """Whether Gandiva is run on batches, of which as many jobs can be put on every rack."""
    return options.arrivals == "batch" and GANDIVA in options.others


def _changed(change: str) -> tuple[str, ...]:
    """Return whom a change concerns; the others' runs are those of `AS_MEASURED`."""
    named = [each for each in (DALLY, *OTHERS) if each in CHANGES[change]]
    return tuple(named) or (DALLY, *OTHERS)


def _scheduler(name: str, change: str) -> Any:
    changes = CHANGES.get(change, {})
    told = {**changes.get("all", {}), **changes.get(name, {})}
    scheduler = ap.get_scheduler(told.pop("name", name))
    if told.pop("tiers", False):
        scheduler = SeesTiers(**vars(scheduler))
    return ap.get_scheduler(scheduler, **told)


def _work(settings: Settings, _data: Path | None) -> dict[str, float]:
    """Run one scheduler on one resample, with one change."""
    cluster = ap.Cluster.of_racks(settings["racks"])
    listed = ap.generate_rack_workload(arrivals=settings["arrivals"], jobs=settings["jobs"])
    workload = ap.resample(listed, settings["seed"])
    told = CHANGES.get(settings["change"], {}).get("network", {})
    network = get_network("table1", cluster=cluster, **told)
    scheduler = _scheduler(settings["scheduler"], settings["change"])
    figures = ap.simulate(
        scheduler, workload, cluster, network=network, preemption_overhead_seconds=0.0
    ).summary()
    return {f"{name} h": figures[column] / 3600 for column, name in FIGURES.items()}


def _gains(runs: pd.DataFrame, others: Sequence[str]) -> pd.DataFrame:
    """Return what Dally has less than each of the others under each change."""
    by_key = dict(tuple(runs.groupby(["racks", "change", "scheduler"], sort=False)))
    rows = []
    for racks in runs["racks"].unique():
        for change in runs["change"].unique():
            for other in others:
                whose = _changed(change)
                if other not in whose and DALLY not in whose:
                    continue
                ours, theirs = (
                    by_key[racks, change if name in whose else AS_MEASURED, name].set_index("seed")
                    for name in (DALLY, other)
                )
                row: dict[str, Any] = {"racks": racks, "change": change, "less than": other}
                for figure in SHOWN:
                    found = paired(ours[f"{figure} h"], theirs[f"{figure} h"], ratio=True)
                    less = [100 * (1 - each) for each in (found.estimate, found.high, found.low)]
                    row[figure] = f"{less[0]:.0f} [{less[1]:.0f}, {less[2]:.0f}]"
                rows.append(row)
    return pd.DataFrame(rows)


def _draw(runs: pd.DataFrame, out: Path | None) -> None:
    """Draw mean completion times of the three under each change, on the most racks."""
    most = runs.loc[runs["change"] == AS_MEASURED, "racks"].max()
    here = runs[(runs["racks"] == most) & (runs["change"] != FULL)]
    hours = here.pivot_table(index="change", columns="scheduler", values="JCT h", sort=False)
    hours = hours.fillna(hours.loc[AS_MEASURED])
    with drawing(out, "dally_causes", 8.0, 5.0) as figure:
        if figure is not None:
            axes: Any = figure.subplots()
            for name, marker in zip(hours.columns, "osD^", strict=False):
                axes.plot(hours[name], hours.index, marker, label=name)
            axes.set(xlabel="mean completion time (hours)", title=f"{most} racks")
            axes.invert_yaxis()
            axes.legend(fontsize="small")


if __name__ == "__main__":
    main()
