"""Gavel's physical-cluster experiments in simulation: 8 V100, 16 P100 and 24 K80.

``python -m benchmarks.gavel.testbed`` runs the trace with arrivals under least attained service and
the static trace under makespan, each unaware and aware of accelerator types, with space sharing,
and with ad-hoc packing; and the small trace of Gavel's artefact, timed on real GPUs. ``--draws 5``
has five draws of jobs of the shape of each trace as well, and means over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.report.style import line_styles
from apportion.statistics import paired
from benchmarks.experiment import Settings, claimed, data_of, drawing, parser, run_all
from benchmarks.gavel.workloads import hours, read_trace
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

RESOLVE_SECONDS = 1920.0
QUICK_JOBS = 12
ARTEFACT = "artifact_evaluation"

# Makespan and mean completion time in hours of the artefact's trace under makespan: Gavel's own
# simulator (commit c4fa400), and GPUs (stanford-futuredata/gavel, pull request 208).
GAVEL_SIMULATED = {"makespan_h": 1.572, "mean_jct_h": 1.416}
GAVEL_REAL = {"makespan_h": 1.764, "mean_jct_h": 1.636}


@dataclass(frozen=True)
class Part:
    """A trace, the cluster it runs on, the figure that counts, and the policies."""

    trace: str
    cluster: str
    figure: str
    policies: tuple[str, ...]


CLUSTER = "v100=8,p100=16,k80=24"
LAS, MAKESPAN = "max_min_fairness", "makespan"
PARTS = (
    Part(
        "arrivals",
        CLUSTER,
        "mean_jct_h",
        (f"{LAS}_agnostic", "gandiva_packing", LAS, f"{LAS}_space_sharing"),
    ),
    Part(
        "makespan",
        CLUSTER,
        "makespan_h",
        (f"{MAKESPAN}_agnostic", "gandiva_packing", MAKESPAN, f"{MAKESPAN}_space_sharing"),
    ),
)
DRAWN = ", drawn"
"""Behind the name of a trace: jobs of its shape."""
CASES = ("arrivals", "static")
GAINS = {"aware": (0, 2), "sharing": (2, 3), "packing": (1, 3)}
"""Claims: whose figure is over whose, by their places in a part."""
SMALL = Part(ARTEFACT, "v100=2,k80=4", "makespan_h", (MAKESPAN,))


def main() -> None:
    """Run the traces, print hours and ratios, and judge the claims."""
    what = parser(
        "gavel.testbed", "Gavel's 48-GPU experiments.", f"{QUICK_JOBS} jobs of each trace"
    )
    what.add_argument("--draws", type=int, default=0, metavar="N", help="of the like of a trace")
    options = what.parse_args()
    print(f"Gavel's physical-cluster experiments on {machine()}")
    data = data_of(options)
    parts = PARTS if data is None else (*PARTS, SMALL)
    limit = QUICK_JOBS if options.quick else 0
    settings = [
        {"trace": part.trace, "cluster": part.cluster, "policy": policy, "limit": limit}
        for part in parts
        for policy in part.policies
    ]
    drawn = [
        {**each, "trace": f"{each['trace']}{DRAWN}", "seed": seed}
        for each in settings
        if each["trace"] != ARTEFACT
        for seed in range(options.draws)
    ]
    runs = each_run = run_all(_work, settings + drawn, options, "gavel_testbed")
    keys = ["trace", "cluster", "policy", "limit"]
    runs = runs.drop(columns="seed", errors="ignore").groupby(keys, sort=False).mean().reset_index()
    table = _with_ratios(runs)
    print(
        "Hours; ratio: what the unaware policy takes (mean completion time with arrivals, "
        "makespan\nwithout) over what this one takes. Gavel, GPUs: its simulator, and real ones."
    )
    show(table.drop(columns=["cluster", "limit", "preemptions", "wall_s"]), digits=4)
    verdicts = [] if options.quick else _verdicts(table) + _drawn_verdicts(each_run)
    if options.quick:
        print("No verdicts: they need the whole traces.")
    write_csv(table, options.out, "gavel_testbed")
    write_csv(pd.DataFrame(verdicts), options.out, "gavel_testbed_verdicts")
    _plot(table, options.out)


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    trace = settings["trace"].removesuffix(DRAWN)
    workload = read_trace(data, trace, settings["limit"] or None, settings.get("seed"))
    run = ap.simulate(
        settings["policy"],
        workload,
        settings["cluster"],
        resolve_seconds=RESOLVE_SECONDS,
        preemption_overhead_seconds=0.0,
    )
    return hours(run)


def _with_ratios(runs: pd.DataFrame) -> pd.DataFrame:
    """Add the ratio to the unaware policy, and Gavel's figures of the artefact's trace."""
    counts = {part.trace: part.figure for part in (*PARTS, SMALL)}
    table = runs.drop(columns=["ftf_max", "rounds"])
    table["ratio"] = np.nan
    for trace, rows in runs.groupby("trace"):
        hours_of = rows[counts[str(trace).removesuffix(DRAWN)]]
        unaware = hours_of[rows["policy"].str.endswith("_agnostic")]
        if not unaware.empty:
            table.loc[rows.index, "ratio"] = unaware.iloc[0] / hours_of
    whole = (table["trace"] == ARTEFACT) & (table["limit"] == 0)
    for figure in ("makespan_h", "mean_jct_h"):
        table[f"Gavel {figure}"] = np.where(whole, GAVEL_SIMULATED[figure], np.nan)
        table[f"GPUs {figure}"] = np.where(whole, GAVEL_REAL[figure], np.nan)
    return table


def _verdicts(table: pd.DataFrame) -> list[dict[str, str]]:
    """Judge order and, where there are figures, distance."""
    ratios: dict[str, list[Figure]] = {name: [] for name in GAINS}
    for part, case in zip(PARTS, CASES, strict=True):
        rows = table[table["trace"] == part.trace].set_index("policy")[part.figure]
        for name, (worse, better) in GAINS.items():
            ratio = rows[part.policies[worse]] / rows[part.policies[better]]
            ratios[name].append(Figure(case, float(ratio)))
    verdicts = [claimed("gavel", f"testbed-{name}", found) for name, found in ratios.items()]
    small = table[table["trace"] == ARTEFACT]
    for name, known in (("simulator", GAVEL_SIMULATED), ("fidelity", GAVEL_REAL)):
        if not small.empty:
            ours = small.iloc[0]
            cases = {"makespan": "makespan_h", "mean JCT": "mean_jct_h"}
            near = [Figure(case, float(ours[at]) / known[at]) for case, at in cases.items()]
            verdicts.append(claimed("gavel", name, near))
    return verdicts


def _drawn_verdicts(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the order of the policies over draws, paired."""
    ratios: dict[str, list[Figure]] = {name: [] for name in GAINS}
    for part, case in zip(PARTS, CASES, strict=True):
        rows = runs[runs["trace"] == part.trace + DRAWN]
        if rows.empty or rows["seed"].nunique() < 2:
            return []
        by_seed = rows.pivot(index="seed", columns="policy", values=part.figure)
        for name, (worse, better) in GAINS.items():
            sides = (by_seed[part.policies[at]] for at in (worse, better))
            found = paired(*sides, ratio=True)
            ratios[name].append(Figure(case, found.estimate, found.low, found.high))
    return [claimed("gavel", f"testbed-{name}-drawn", found) for name, found in ratios.items()]


def _plot(table: pd.DataFrame, out: Path | None) -> None:
    """Draw a bar for every policy, one panel per trace."""
    there = [name for name in ("", DRAWN) if (table["trace"] == PARTS[0].trace + name).any()]
    with drawing(out, "gavel_testbed", 9.0, 3.0 * len(there)) as figure:
        if figure is None:
            return
        panels: Any = figure.subplots(len(there), len(PARTS)).ravel()
        shown = [(part, name) for name in there for part in PARTS]
        for axes, (part, drawn) in zip(panels, shown, strict=True):
            rows = table[table["trace"] == part.trace + drawn].set_index("policy")[part.figure]
            styles = line_styles(list(part.policies))
            colours = [styles[name]["color"] for name in part.policies]
            bars = axes.barh(list(part.policies), rows[list(part.policies)], color=colours)
            axes.bar_label(bars, fmt="%.2f", padding=3)
            axes.invert_yaxis()
            axes.margins(x=0.15)
            axes.grid(visible=False, axis="y")
            what = "mean completion time" if part.figure == "mean_jct_h" else "makespan"
            axes.set(title=f"Trace '{part.trace}'{drawn}", xlabel=f"{what} (hours)")


if __name__ == "__main__":
    main()
