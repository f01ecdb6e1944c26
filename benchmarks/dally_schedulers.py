"""Dally's evaluation: its variants, Tiresias and Gandiva on 2 to 16 racks, batch and Poisson.

``python -m benchmarks.dally_schedulers`` draws a list of jobs from the published marginals,
resamples it several times (bootstrap) and runs every scheduler on each, overheads as in Dally's
Table I. A single straggler can decide a makespan, so medians and ranges over the resamples are
shown, never one list. The claims are those of Dally (Sharma et al., arXiv 2401.16492); criteria
stand in `_verdicts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.report.style import line_styles
from benchmarks.experiment import Settings, chosen, drawing, parser, run_all, verdict
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

DALLY, MANUAL, NO_WAIT = "dally", "dally_manual", "dally_no_wait"
FULL, TIRESIAS, GANDIVA = "dally_fully_consolidated", "tiresias", "gandiva"
SCHEDULERS = (DALLY, MANUAL, NO_WAIT, FULL, TIRESIAS, GANDIVA)
ARRIVALS = ("batch", "poisson")
RACKS, QUICK_RACKS = (2, 4, 8, 16), (2,)
RESAMPLES, QUICK_RESAMPLES = 8, 2
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


def main() -> None:
    """Run all schedulers on all resamples, print medians, improvements and verdicts."""
    options = _options()
    print(f"Schedulers on racks, on {machine()}")
    jobs = QUICK_JOBS if options.quick else options.generate_jobs
    settings = [
        {"arrivals": arrivals, "racks": racks, "seed": seed, "jobs": jobs, "scheduler": scheduler}
        for arrivals in ARRIVALS
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
        "\nWhat Dally has less than each other one, %: median over resamples [least, most]; "
        "'paper': its Tables II and III."
    )
    gains = _gains(runs)
    show(_readable(gains))
    verdicts = [] if options.quick else _verdicts(medians, gains)
    write_csv(runs, options.out, "dally_schedulers_runs")
    write_csv(medians, options.out, "dally_schedulers")
    write_csv(gains, options.out, "dally_schedulers_gains")
    write_csv(pd.DataFrame(verdicts), options.out, "dally_schedulers_verdicts")
    _plot(runs, options.out)


def _options() -> argparse.Namespace:
    text = f"{QUICK_JOBS} jobs, {QUICK_RACKS[0]} racks, {QUICK_RESAMPLES} resamples"
    what = parser("dally_schedulers", "Schedulers on racks: Dally's evaluation.", text)
    what.add_argument("--racks", type=int, nargs="+", metavar="N")
    what.add_argument("--resamples", type=int, metavar="N")
    what.add_argument("--generate-jobs", type=int, metavar="N", help="as published by default")
    what.add_argument("--schedulers", nargs="+", default=list(SCHEDULERS), metavar="NAME")
    options = what.parse_args()
    options.racks = options.racks or list(QUICK_RACKS if options.quick else RACKS)
    options.resamples = options.resamples or (QUICK_RESAMPLES if options.quick else RESAMPLES)
    options.schedulers = chosen("scheduler", options.schedulers, list(SCHEDULERS))
    return options


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Run one scheduler on one resample."""
    listed = ap.generate_rack_workload(arrivals=settings["arrivals"], jobs=settings["jobs"])
    workload = ap.resample(listed, settings["seed"])
    run = ap.simulate(settings["scheduler"], workload, ap.Cluster.of_racks(settings["racks"]))
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
    """Return by how much each figure of Dally is less, %, paired by resample."""
    keys = ["arrivals", "racks", "seed"]
    names = [f"{name} h" for name in FIGURES.values()]
    by_scheduler = {name: rows.set_index(keys)[names] for name, rows in runs.groupby("scheduler")}
    if DALLY not in by_scheduler:
        return pd.DataFrame()
    rows: list[dict[str, Any]] = []
    for other in [name for name in SCHEDULERS if name in by_scheduler and name != DALLY]:
        less = 100 * (1 - by_scheduler[DALLY] / by_scheduler[other])
        for (arrivals, racks), group in less.groupby(["arrivals", "racks"], sort=False):
            for name in names:
                row = {"arrivals": arrivals, "racks": racks, "against": other}
                row |= {"figure": name.removesuffix(" h"), "median": group[name].median()}
                rows.append(row | {"least": group[name].min(), "most": group[name].max()})
    return pd.DataFrame(rows)


def _paper_gain(arrivals: str, racks: int, against: str, figure: str) -> str:
    """Return the paper's figure, where its tables have one."""
    columns = ("JCT", "median", "p95", "p99")
    if racks != 8 or figure not in columns or (arrivals, against) not in PAPER_S:
        return ""
    place = columns.index(figure)
    ratio = PAPER_S[arrivals, DALLY][place] / PAPER_S[arrivals, against][place]
    return f" (paper {100 * (1 - ratio):.0f})"


def _readable(gains: pd.DataFrame) -> pd.DataFrame:
    """Write gains as 'median [least, most] (paper)', a column per figure."""
    if gains.empty:
        return gains
    texts = [
        "-"
        if row["median"] != row["median"]  # no wait at all, with either of the two
        else f"{row['median']:.0f} [{row['least']:.0f}, {row['most']:.0f}]"
        + _paper_gain(row["arrivals"], row["racks"], row["against"], row["figure"])
        for row in gains.to_dict("records")
    ]
    table = gains.assign(text=texts)
    keys = ["arrivals", "against", "racks"]
    wide = table.pivot(index=keys, columns="figure", values="text")
    shown = [name for name in FIGURES.values() if name not in ("p99 wait", "median")]
    return wide[shown].reset_index().rename_axis(columns=None)


def _verdicts(medians: pd.DataFrame, gains: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the claims of the paper whose schedulers were run on 4 racks and more."""
    verdicts = []
    # Claim, arrivals, against, figure, statistic over resamples, least improvement in %.
    claims = (
        ("makespan at least 60 % below Gandiva's", "batch", GANDIVA, "makespan", "least", 60),
        ("communication at least 60 % below Gandiva's", "batch", GANDIVA, "comm", "least", 60),
        ("mean JCT at least 10 % below no wait's", "batch", NO_WAIT, "JCT", "median", 10),
        ("communication at least 20 % below no wait's", "batch", NO_WAIT, "comm", "median", 20),
        ("mean JCT 19 % or more below Tiresias'", "batch", TIRESIAS, "JCT", "median", 19),
        ("makespan 60 % or more below Tiresias'", "batch", TIRESIAS, "makespan", "median", 60),
        ("mean wait 18 % or more below Tiresias'", "batch", TIRESIAS, "wait", "median", 18),
        ("p95 wait 58 % or more below Tiresias'", "batch", TIRESIAS, "p95 wait", "median", 58),
        ("communication 53 % or more below Tiresias'", "batch", TIRESIAS, "comm", "median", 53),
        ("mean JCT 23 % or more below Gandiva's", "batch", GANDIVA, "JCT", "median", 23),
        ("mean JCT 23 % or more below Gandiva's", "poisson", GANDIVA, "JCT", "median", 23),
    )
    for claim, arrivals, other, figure, statistic, least in claims:
        found = _gain(gains, arrivals, other, figure, statistic)
        found = found[found.index >= 4]
        if len(found):
            text = f"{statistic} of {arrivals}: {_listed(found)} %"
            holds = bool((found >= least).all())
            verdicts.append(verdict(f"{claim} on 4 racks and more, {arrivals}", holds, text))
    # The paper has a loss on 4 racks itself.
    found = _gain(gains, "poisson", TIRESIAS, "JCT", "median")
    if len(found := found[found.index >= 8]):
        claim = "mean JCT 16 % or more below Tiresias' on 8 racks and more, poisson"
        verdicts.append(verdict(claim, bool((found >= 16).all()), f"{_listed(found)} %"))
    found = _gain(gains, "batch", TIRESIAS, "JCT", "median")
    if 2 in found.index:
        claim = "mean JCT above Tiresias' on 2 racks, batch"
        verdicts.append(verdict(claim, bool(found[2] < 0), f"{found[2]:.0f} %"))
    return verdicts + _verdicts_of_medians(medians)


def _verdicts_of_medians(medians: pd.DataFrame) -> list[dict[str, str]]:
    """Judge claims that are about other schedulers than Dally."""
    batch = medians[medians["arrivals"] == "batch"]
    verdicts = []
    comm = batch[batch["scheduler"] == GANDIVA].set_index("racks")["comm h"].sort_index()
    if len(comm) > 1:
        claim = "Gandiva's communication rises with every doubling of the racks, batch"
        rises = bool(comm.is_monotonic_increasing)
        verdicts.append(verdict(claim, rises, f"{_listed(comm, 1)} h"))
    jct = batch.pivot(index="racks", columns="scheduler", values="JCT h")
    jct = jct[jct.index >= 4]
    if {DALLY, NO_WAIT, FULL, TIRESIAS} <= set(jct.columns) and len(jct):
        ratio = jct[NO_WAIT] / jct[TIRESIAS]
        claim = "no wait has a longer mean JCT than Tiresias on 4 racks and more, batch"
        verdicts.append(verdict(claim, bool((ratio > 1).all()), f"ratios {_listed(ratio, 2)}"))
        between = (jct[DALLY] <= jct[FULL]) & (jct[FULL] <= jct[TIRESIAS])
        claim = "full consolidation lies between Dally and Tiresias in mean JCT, batch"
        text = f"to Dally {_listed(jct[FULL] / jct[DALLY], 2)}"
        text += f"; to Tiresias {_listed(jct[FULL] / jct[TIRESIAS], 2)}"
        verdicts.append(verdict(claim, bool(between.all()), text))
    return verdicts


def _gain(
    gains: pd.DataFrame, arrivals: str, against: str, figure: str, statistic: str
) -> pd.Series:
    """Return one statistic of one figure by number of racks."""
    if gains.empty:
        return pd.Series(dtype=float)
    wanted = (gains["arrivals"] == arrivals) & (gains["against"] == against)
    rows = gains[wanted & (gains["figure"] == figure)]
    return rows.set_index("racks")[statistic].sort_index()


def _listed(values: pd.Series, digits: int = 0) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def _plot(runs: pd.DataFrame, out: Path | None) -> None:
    """Draw mean JCT and communication against racks: medians, and ranges as bands."""
    with drawing(out, "dally_schedulers", width=11.0, height=7.0) as figure:
        if figure is None:
            return
        panels = figure.subplots(2, 2, sharex=True)
        styles = line_styles(list(dict.fromkeys(runs["scheduler"])))
        for row, name in zip(panels, ("JCT h", "comm h"), strict=True):
            for axes, arrivals in zip(row, ARRIVALS, strict=True):
                for scheduler, style in styles.items():
                    rows = runs[(runs["arrivals"] == arrivals) & (runs["scheduler"] == scheduler)]
                    found = rows.groupby("racks")[name].agg(["median", "min", "max"])
                    axes.plot(found.index, found["median"], marker="o", label=scheduler, **style)
                    axes.fill_between(
                        found.index, found["min"], found["max"], color=style["color"], alpha=0.12
                    )
                axes.set(xscale="log", yscale="log", title=arrivals, xlabel="racks", ylabel=name)
                axes.set_xticks(sorted(set(runs["racks"])), sorted(set(runs["racks"])))
        panels[0][0].legend(fontsize="small")


if __name__ == "__main__":
    main()
