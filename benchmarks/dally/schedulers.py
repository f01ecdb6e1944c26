"""Dally's evaluation: its variants, Tiresias and Gandiva on 2 to 16 racks, batch and Poisson.

``python -m benchmarks.dally.schedulers`` draws a list of jobs from the published marginals,
resamples it several times (bootstrap) and runs every scheduler on each, overheads as in Dally's
Table I. A single straggler can decide a makespan, so medians over the resamples and gains paired
by resample, with their intervals, are shown, never one list. The claims are those of Dally (Sharma
et al., arXiv 2401.16492), in the file of `benchmarks.papers.claims`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

import apportion as ap
from apportion.report.style import line_styles
from apportion.statistics import paired
from benchmarks.experiment import Settings, chosen, claimed, drawing, parser, run_all
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

DALLY, MANUAL, NO_WAIT = "dally", "dally_manual", "dally_no_wait"
FULL, TIRESIAS, GANDIVA = "dally_fully_consolidated", "tiresias", "gandiva"
SCHEDULERS = (DALLY, MANUAL, NO_WAIT, FULL, TIRESIAS, GANDIVA)
ARRIVALS = ("batch", "poisson")
RACKS, QUICK_RACKS = (2, 4, 8, 16), (2,)
RESAMPLES, QUICK_RESAMPLES = 20, 2
QUICK_JOBS = 60

FIGURES = {
    "mean_jct_s": "JCT",
    "median_jct_s": "median",
    "p95_jct_s": "p95",
    "p99_jct_s": "p99",
    "makespan_s": "makespan",
    "queueing_s": "wait",
    "p95_queueing_s": "p95 wait",
    "p99_queueing_s": "p99 wait",
    "communication_s": "comm",
}

# Dally's Tables II (batch) and III (Poisson), 8 racks, seconds: JCT mean, median, p95, p99.
PAPER_S = {
    ("batch", GANDIVA): (5828719, 183717, 17485823, 39214710),
    ("batch", TIRESIAS): (4461998, 2547080, 17841606, 25696135),
    ("batch", MANUAL): (3128566, 2552189, 7097646, 8868401),
    ("batch", DALLY): (2828955, 2401390, 5983042, 8395214),
    ("poisson", GANDIVA): (17371514, 22722917, 71362014, 208939883),
    ("poisson", TIRESIAS): (4329941, 4212795, 15059080, 15390860),
    ("poisson", MANUAL): (4960727, 2787855, 39298828, 39817762),
    ("poisson", DALLY): (2831880, 2595529, 16469069, 16681241),
}


class Judged(NamedTuple):
    """Whose figure is set beside whose, on how many racks, for a claim of the paper."""

    scheduler: str
    against: str
    figure: str
    arrivals: str = "batch"
    racks: tuple[int, ...] = (4, 8, 16)


ALL = (2, 4, 8, 16)
CLAIMS = {
    "jct-tiresias-batch": Judged(DALLY, TIRESIAS, "JCT", racks=ALL),
    "jct-gandiva-2-racks": Judged(DALLY, GANDIVA, "JCT", racks=(2,)),
    "jct-gandiva-batch": Judged(DALLY, GANDIVA, "JCT"),
    "jct-gandiva-direction": Judged(DALLY, GANDIVA, "JCT"),
    "jct-tiresias-poisson": Judged(DALLY, TIRESIAS, "JCT", "poisson", (2, 8, 16)),
    "jct-gandiva-poisson": Judged(DALLY, GANDIVA, "JCT", "poisson"),
    "makespan-tiresias": Judged(DALLY, TIRESIAS, "makespan"),
    "makespan-gandiva": Judged(DALLY, GANDIVA, "makespan"),
    "wait-mean": Judged(DALLY, TIRESIAS, "wait"),
    "wait-p95": Judged(DALLY, TIRESIAS, "p95 wait"),
    "wait-p99": Judged(DALLY, TIRESIAS, "p99 wait"),
    "wait-gandiva": Judged(DALLY, GANDIVA, "p95 wait", racks=(16,)),
    "median-tiresias": Judged(DALLY, TIRESIAS, "median", racks=(8,)),
    "median-gandiva": Judged(DALLY, GANDIVA, "median", racks=(8,)),
    "median-tiresias-poisson": Judged(DALLY, TIRESIAS, "median", "poisson", (8,)),
    "median-gandiva-poisson": Judged(DALLY, GANDIVA, "median", "poisson", (8,)),
    "comm-tiresias": Judged(DALLY, TIRESIAS, "comm"),
    "comm-gandiva": Judged(DALLY, GANDIVA, "comm"),
    "manual-batch": Judged(DALLY, MANUAL, "JCT", racks=(8,)),
    "manual-poisson": Judged(DALLY, MANUAL, "JCT", "poisson", (4,)),
    "manual-median": Judged(DALLY, MANUAL, "median", racks=(8,)),
    "manual-median-poisson": Judged(DALLY, MANUAL, "median", "poisson", (4,)),
    "makespan-no-wait": Judged(NO_WAIT, TIRESIAS, "makespan"),
    "makespan-no-wait-2": Judged(NO_WAIT, TIRESIAS, "makespan", racks=(2,)),
    "makespan-full": Judged(FULL, TIRESIAS, "makespan"),
}
"""Where the figures of a claim come from; criteria are those of the file of claims."""

TAILS = {
    "jct-tails": ("batch", 8, (TIRESIAS, GANDIVA)),
    "jct-tails-gandiva": ("poisson", 8, (GANDIVA,)),
    "jct-tails-tiresias": ("poisson", 8, (TIRESIAS,)),
    "manual-tails": ("batch", 8, (MANUAL,)),
    "manual-tails-poisson": ("poisson", 4, (MANUAL,)),
}
"""Claims of p95 and p99: which list of jobs, how many racks, and whose Dally's are set beside."""

PAIRS = tuple(
    dict.fromkeys(
        [
            *((DALLY, other) for other in SCHEDULERS if other != DALLY),
            *((each.scheduler, each.against) for each in CLAIMS.values()),
        ]
    )
)


def main() -> None:
    """Run all schedulers on all resamples, print medians, improvements and verdicts."""
    options = _options()
    print(f"Schedulers on racks, on {machine()}")
    jobs = QUICK_JOBS if options.quick else options.generate_jobs
    settings = [
        {"arrivals": arrivals, "racks": racks, "seed": seed, "jobs": jobs, "scheduler": scheduler}
        for arrivals in options.arrivals
        for racks in options.racks
        for seed in range(options.resamples)
        for scheduler in options.schedulers
    ]
    runs = run_all(_work, settings, options, "dally_schedulers")
    size = f"{jobs} jobs" if jobs else "500 (batch) and 411 (Poisson) jobs"
    print(
        f"{size}, {options.resamples} resamples; racks of 8 machines of 8 GPUs; overheads of Table "
        f"I; leases of 3600 s.\nHours, medians over resamples. JCT is the mean over jobs, wait the "
        f"time without GPUs, comm the exposed communication."
    )
    medians = _medians(runs)
    show(medians, digits=4)
    print(
        "\nWhat Dally has less than each other one, %, paired by resample: geometric mean [95 % "
        "interval]; 'paper': its Tables II and III."
    )
    gains = _gains(runs)
    show(_readable(gains[gains["scheduler"] == DALLY]))
    verdicts = [] if options.quick else _verdicts(medians, gains)
    write_csv(runs, options.out, "dally_schedulers_runs")
    write_csv(medians, options.out, "dally_schedulers")
    write_csv(gains, options.out, "dally_schedulers_gains")
    write_csv(pd.DataFrame(verdicts), options.out, "dally_schedulers_verdicts")
    _plot(runs, options.out)


def _options() -> argparse.Namespace:
    text = f"{QUICK_JOBS} jobs, {QUICK_RACKS[0]} racks, {QUICK_RESAMPLES} resamples"
    what = parser("dally.schedulers", "Schedulers on racks: Dally's evaluation.", text)
    what.add_argument("--arrivals", nargs="+", default=list(ARRIVALS), choices=ARRIVALS)
    what.add_argument("--racks", type=int, nargs="+", metavar="N")
    what.add_argument("--resamples", type=int, metavar="N")
    what.add_argument("--generate-jobs", type=int, metavar="N", help="as published by default")
    what.add_argument("--schedulers", nargs="+", default=list(SCHEDULERS), metavar="NAME")
    options = what.parse_args()
    options.racks = options.racks or list(QUICK_RACKS if options.quick else RACKS)
    if options.resamples is not None and options.resamples < 2:
        what.error(f"--resamples {options.resamples}: gains with intervals need at least 2.")
    options.resamples = options.resamples or (QUICK_RESAMPLES if options.quick else RESAMPLES)
    options.schedulers = chosen("scheduler", options.schedulers, list(SCHEDULERS))
    return options


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Run one scheduler on one resample."""
    listed = ap.generate_rack_workload(arrivals=settings["arrivals"], jobs=settings["jobs"])
    workload = ap.resample(listed, settings["seed"])
    run = ap.simulate(
        settings["scheduler"],
        workload,
        ap.Cluster.of_racks(settings["racks"]),
        preemption_overhead_seconds=0.0,
    )
    figures = run.summary()
    hours = {f"{name} h": figures[column] / 3600 for column, name in FIGURES.items()}
    return {**hours, "wall_s": run.wall_seconds}


def _medians(runs: pd.DataFrame) -> pd.DataFrame:
    """Take the median of every figure over the resamples."""
    names = [*(f"{name} h" for name in FIGURES.values()), "wall_s"]
    keys = ["arrivals", "racks", "scheduler"]
    table = runs.groupby(keys, sort=False)[names].median().reset_index()
    return table.rename(columns={"wall_s": "s per run"})


def _gains(runs: pd.DataFrame) -> pd.DataFrame:
    """Return by how much each figure of a scheduler is less than another's, %, by resample."""
    names = [f"{name} h" for name in FIGURES.values()]
    columns = ["arrivals", "racks", "scheduler", "against", "figure", "mean", "low", "high"]
    rows: list[list[Any]] = []
    for (arrivals, racks), here in runs.groupby(["arrivals", "racks"], sort=False):
        by_name = {name: each.set_index("seed") for name, each in here.groupby("scheduler")}
        for one, other in PAIRS:
            if not {one, other} <= set(by_name):
                continue
            for name in names:
                found = paired(by_name[one][name], by_name[other][name], ratio=True)
                less = [100 * (1 - each) for each in (found.estimate, found.high, found.low)]
                rows.append([arrivals, racks, one, other, name.removesuffix(" h"), *less])
    return pd.DataFrame(rows, columns=columns)


def _paper_gain(arrivals: str, racks: int, against: str, figure: str) -> str:
    """Return the paper's figure, where its tables have one."""
    columns = ("JCT", "median", "p95", "p99")
    if racks != 8 or figure not in columns or (arrivals, against) not in PAPER_S:
        return ""
    place = columns.index(figure)
    ratio = PAPER_S[arrivals, DALLY][place] / PAPER_S[arrivals, against][place]
    return f" (paper {100 * (1 - ratio):.0f})"


def _readable(gains: pd.DataFrame) -> pd.DataFrame:
    """Write gains as 'mean [interval] (paper)', a column per figure."""
    if gains.empty:
        return gains
    texts = [
        _interval(row) + _paper_gain(row["arrivals"], row["racks"], row["against"], row["figure"])
        for row in gains.to_dict("records")
    ]
    table = gains.assign(text=texts)
    keys = ["arrivals", "against", "racks"]
    wide = table.pivot(index=keys, columns="figure", values="text")
    shown = [name for name in FIGURES.values() if name not in ("p99 wait", "median")]
    return wide[shown].reset_index().rename_axis(columns=None)


def _interval(row: Mapping[Any, Any]) -> str:
    if row["mean"] != row["mean"]:  # no wait at all, with either of the two
        return "-"
    return f"{row['mean']:.0f} [{row['low']:.0f}, {row['high']:.0f}]"


def _verdicts(medians: pd.DataFrame, gains: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the claims of the paper whose schedulers were run."""
    verdicts = []
    for name, judged in CLAIMS.items():
        wanted = gains.loc[
            (gains["arrivals"] == judged.arrivals)
            & (gains["scheduler"] == judged.scheduler)
            & (gains["against"] == judged.against)
            & (gains["figure"] == judged.figure)
            & gains["racks"].isin(judged.racks)
            & gains["mean"].notna()  # nobody waits, with either of the two
        ]
        if len(wanted):
            rows = wanted.sort_values("racks").to_dict("records")
            figures = [
                Figure(f"{row['racks']} racks", row["mean"], row["low"], row["high"])
                for row in rows
            ]
            verdicts.append(claimed("dally", name, figures))
    own = gains[(gains["scheduler"] == DALLY) & gains["figure"].isin(["p95", "p99"])]
    for name, (arrivals, racks, others) in TAILS.items():
        here = own[(own["arrivals"] == arrivals) & (own["racks"] == racks)]
        tails = [
            Figure(f"{row['against']}, {row['figure']}", row["mean"], row["low"], row["high"])
            for row in here[here["against"].isin(others)].to_dict("records")
        ]
        if tails:
            verdicts.append(claimed("dally", name, tails))
    comm = medians[(medians["arrivals"] == "batch") & (medians["scheduler"] == GANDIVA)]
    hours = comm.set_index("racks")["comm h"].sort_index()
    if len(hours) > 1:
        ratios = (hours / hours.shift()).dropna()
        rises = [Figure(f"{racks} racks", float(ratio)) for racks, ratio in ratios.items()]
        verdicts.append(claimed("dally", "gandiva-degrades", rises))
    return verdicts


def _plot(runs: pd.DataFrame, out: Path | None) -> None:
    """Draw mean JCT and communication against racks: medians, and from least to most."""
    with drawing(out, "dally_schedulers", width=11.0, height=7.0) as figure:
        if figure is None:
            return
        lists = list(dict.fromkeys(runs["arrivals"]))
        panels: Any = figure.subplots(2, len(lists), sharex=True, squeeze=False)
        styles = line_styles(list(dict.fromkeys(runs["scheduler"])))
        labels = {"JCT h": "mean completion time", "comm h": "exposed communication of a job"}
        for row, (name, label) in zip(panels, labels.items(), strict=True):
            for axes, arrivals in zip(row, lists, strict=True):
                for rank, (scheduler, style) in enumerate(styles.items()):
                    rows = runs[(runs["arrivals"] == arrivals) & (runs["scheduler"] == scheduler)]
                    found = rows.groupby("racks")[name].agg(["median", "min", "max"])
                    beside = found.index * 1.02 ** (rank - len(styles) / 2)  # none hides another
                    ends = found["median"] - found["min"], found["max"] - found["median"]
                    axes.errorbar(
                        beside, found["median"], ends, marker="o", label=scheduler, **style
                    )
                axes.set(xscale="log", yscale="log", title=arrivals, xlabel="racks")
                axes.set(ylabel=f"{label} (hours)")
                axes.set_xticks(sorted(set(runs["racks"])), sorted(set(runs["racks"])))
                axes.set_xticks([], minor=True)
        named = panels[0][0].get_legend_handles_labels()
        figure.legend(*named, loc="outside lower center", ncols=len(styles), fontsize="small")


if __name__ == "__main__":
    main()
