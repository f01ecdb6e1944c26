"""Rounds against exact shares: what the round-based mechanism costs, and how long rounds may be.

``python -m benchmarks.gavel.rounds`` runs policies on Gavel's two physical-cluster traces and two
generated workloads, one with gangs of up to eight GPUs and one with single-GPU jobs; once with
every share had exactly and once for each length of a round. The
policies are solved after every event, so that the mechanism is all that differs. ``--draws 5`` has
five draws of the generated ones, and means over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.report.style import line_styles
from benchmarks.experiment import Settings, claimed, data_of, drawing, parser, run_all
from benchmarks.gavel.workloads import draw_jobs, hours, read_trace
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "v100=8,p100=16,k80=24"
POLICIES = ("max_min_fairness", "finish_time_fairness", "makespan")
WORKLOADS = ("arrivals", "makespan", "generated", "single-GPU")
GENERATED: dict[str, dict[str, Any]] = {
    "generated": {"jobs_per_hour": 4.0, "scale_factors": "gavel"},
    "single-GPU": {"jobs_per_hour": 8.0},
}
LENGTHS_S = (60.0, 180.0, 360.0, 720.0, 1440.0)
QUICK_LENGTHS_S = (360.0, 1440.0)
QUICK_JOBS = 10
GAVEL_LENGTH_S = 360.0


def main() -> None:
    """Run every workload, policy and length of a round, and compare with exact shares."""
    what = parser("gavel.rounds", "Rounds against exact shares.", f"{QUICK_JOBS} jobs")
    what.add_argument("--policies", nargs="+", default=list(POLICIES), choices=POLICIES)
    what.add_argument("--draws", type=int, default=1, metavar="N", help="of the generated jobs")
    options = what.parse_args()
    print(f"Rounds against exact shares on {machine()}")
    data_of(options)
    lengths = QUICK_LENGTHS_S if options.quick else LENGTHS_S
    settings = [
        {
            "workload": workload,
            "policy": policy,
            "round_s": length,
            "limit": QUICK_JOBS if options.quick else 100,
            "seed": seed,
        }
        for workload in WORKLOADS
        for seed in range(1, 1 + (options.draws if workload in GENERATED else 1))
        for policy in options.policies
        for length in (0.0, *lengths)
    ]
    runs = run_all(_work, settings, options, "gavel_rounds")
    table = _against_ideal(runs)
    print("Hours with exact shares, and in % above them by the length of a round in seconds.")
    show(table, digits=4)
    verdicts = [] if options.quick else _verdicts(table)
    write_csv(runs, options.out, "gavel_rounds_runs")
    write_csv(table, options.out, "gavel_rounds")
    write_csv(pd.DataFrame(verdicts), options.out, "gavel_rounds_verdicts")
    _plot(table, options.out, lengths)


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Simulate in rounds, or exactly where their length is 0."""
    name, limit = settings["workload"], settings["limit"]
    if name in GENERATED:
        workload = draw_jobs(data, jobs=limit, seed=settings["seed"], **GENERATED[name])
    else:
        workload = read_trace(data, name, limit)
    if settings["round_s"] == 0:
        return hours(ap.simulate(settings["policy"], workload, CLUSTER, mechanism="exact"))
    return hours(
        ap.simulate(
            settings["policy"],
            workload,
            CLUSTER,
            round_seconds=settings["round_s"],
            preemption_overhead_seconds=0.0,
        )
    )


def _against_ideal(runs: pd.DataFrame) -> pd.DataFrame:
    """Make a row for each workload, policy and figure: exact hours, and % above them."""
    rows: list[dict[str, Any]] = []
    for (workload, policy), group in runs.groupby(["workload", "policy"], sort=False):
        by_length = group.groupby("round_s", sort=False).mean(numeric_only=True)
        for figure in ("mean_jct_h", "makespan_h"):
            ideal = float(by_length[figure][0.0])
            row: dict[str, Any] = {"workload": workload, "policy": policy, "figure": figure}
            row["ideal h"] = ideal
            for length, value in by_length[figure].drop(0.0).items():
                row[f"{length:g} s"] = round(100 * (value / ideal - 1), 6)
            rows.append(row)
    return pd.DataFrame(rows)


def _verdicts(table: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the paper's claims: rounds of 360 s come close, and longer ones come less close."""
    rows = table[(table["figure"] == "mean_jct_h") & (table["policy"] == POLICIES[0])]
    off = rows.set_index("workload")
    long, short = (off[f"{length:g} s"] for length in (LENGTHS_S[-1], LENGTHS_S[0]))
    found = {"rounds": off[f"{GAVEL_LENGTH_S:g} s"], "rounds-longer": long - short}
    return [
        claimed("gavel", name, [Figure(str(case), float(each)) for case, each in figures.items()])
        for name, figures in found.items()
    ]


def _plot(table: pd.DataFrame, out: Path | None, lengths: tuple[float, ...]) -> None:
    """Draw what rounds cost against their length, one panel per workload."""
    with drawing(out, "gavel_rounds", 10.0, 3.4) as figure:
        if figure is None:
            return
        panels: Any = figure.subplots(1, len(WORKLOADS), sharey=True)
        for axes, workload in zip(panels, WORKLOADS, strict=True):
            for policy, style in line_styles(list(dict.fromkeys(table["policy"]))).items():
                chosen = (table["workload"] == workload) & (table["policy"] == policy)
                rows = table[chosen].set_index("figure")[[f"{length:g} s" for length in lengths]]
                for name, dash in (("mean_jct_h", "-"), ("makespan_h", ":")):
                    line = style | {"linestyle": dash}
                    label = policy if dash == "-" else None
                    axes.plot(lengths, rows.loc[name], marker="o", ms=3, label=label, **line)
            axes.set_xscale("log")
            axes.set_xticks(lengths, [f"{length:g}" for length in lengths])
            axes.minorticks_off()
            axes.set(title=workload, xlabel="round (seconds)")
        panels[0].set_ylabel("% above exact shares\n(full: mean completion time, dotted: makespan)")
        panels[0].legend(fontsize="small")


if __name__ == "__main__":
    main()
