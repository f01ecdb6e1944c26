"""What it costs to stop and start jobs, with and without leases that let a job go on.

``python -m benchmarks.gavel.leases`` charges seconds for every start of a job. With leases a job
that keeps its accelerator type goes on for free; without, it starts again in every round. A start
costs all jobs the same, or each what the text measured of its model ("by model"). ``--draws 5`` has
five draws of the generated jobs, and means over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.report.style import line_styles
from benchmarks.experiment import Settings, claimed, data_of, drawing, parser, run_all
from benchmarks.gavel.workloads import draw_jobs, read_trace
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "v100=8,p100=16,k80=24"
RESOLVE_SECONDS = 1920.0
POLICY = "max_min_fairness"
WORKLOADS = ("arrivals", "makespan", "generated")
BY_MODEL = "by model"
OVERHEADS_S: tuple[float | str, ...] = (0.0, 5.0, 30.0, 60.0, BY_MODEL)
QUICK_OVERHEADS_S: tuple[float | str, ...] = (0.0, 60.0, BY_MODEL)
ROUND_S = 360.0
PUBLISHED = {
    "ResNet-18": 0.94,
    "ResNet-50": 1.58,
    "A3C": 0.22,
    "LM": 2.91,
    "Transformer": 0.77,
    "CycleGAN": 0.77,
}
"""% of a round of 360 s that a start takes without leases, as Gavel's text tells of its cluster."""
QUICK_JOBS = 16
JUDGED_S = 5.0


def main() -> None:
    """Run every workload and overhead with and without leases."""
    what = parser("gavel.leases", "Overhead of preemption.", f"{QUICK_JOBS} jobs")
    what.add_argument("--draws", type=int, default=1, metavar="N", help="of the generated jobs")
    options = what.parse_args()
    print(f"Overhead of preemption on {machine()}")
    data_of(options)
    settings = [
        {
            "workload": workload,
            "overhead_s": overhead,
            "leases": leases,
            "limit": QUICK_JOBS if options.quick else 100,
            "seed": seed,
        }
        for workload in WORKLOADS
        for seed in range(1, 1 + (options.draws if workload == "generated" else 1))
        for leases in (True, False)
        for overhead in (QUICK_OVERHEADS_S if options.quick else OVERHEADS_S)
    ]
    runs = run_all(_work, settings, options, "gavel_leases")
    keys = ["workload", "overhead_s", "leases", "limit"]
    table = _relative(runs.drop(columns="seed").groupby(keys, sort=False).mean().reset_index())
    print(
        f"{POLICY} on {CLUSTER}, rounds of 360 s. lost %: seconds of starting over seconds held. "
        "JCT, makespan: % above no\noverhead."
    )
    show(table.drop(columns=["limit"]))
    verdicts = [] if options.quick else _verdicts(table)
    write_csv(table, options.out, "gavel_leases")
    write_csv(pd.DataFrame(verdicts), options.out, "gavel_leases_verdicts")
    _plot(table, options.out)


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Simulate; return hours, starts per job and the share of time that starting took."""
    name, limit, overhead = settings["workload"], settings["limit"], settings["overhead_s"]
    if name == "generated":
        drawn: dict[str, Any] = {"jobs_per_hour": 4.0, "scale_factors": "gavel"}
        workload = draw_jobs(data, jobs=limit, seed=settings["seed"], **drawn)
    else:
        workload = read_trace(data, name, limit)
    job_types = workload.jobs["job_type"]
    each_s = job_types.map(_seconds_of if overhead == BY_MODEL else lambda _: overhead)
    run = ap.simulate(
        POLICY,
        workload,
        CLUSTER,
        round_seconds=ROUND_S,
        resolve_seconds=RESOLVE_SECONDS,
        preemption_overhead_seconds=dict(zip(job_types, each_s, strict=True)),
        leases=settings["leases"],
    )
    starts = run.jobs["preemptions"] + 1
    held_s = float(run.received.to_numpy().sum())
    figures = run.summary()
    return {
        "mean_jct_h": figures["mean_jct_s"] / 3600,
        "makespan_h": figures["makespan_s"] / 3600,
        "starts per job": float(starts.mean()),
        "lost %": 100 * float((each_s * starts).sum()) / held_s,
    }


def _seconds_of(job_type: str) -> float:
    """Return what a start costs a model; recommendation, of which nothing is told, the most."""
    model = job_type.partition(" (")[0]
    return ROUND_S / 100 * PUBLISHED.get(model, max(PUBLISHED.values()))


def _relative(runs: pd.DataFrame) -> pd.DataFrame:
    """Set completion times against those without overhead."""
    table = runs.copy()
    for (workload, leases), rows in runs.groupby(["workload", "leases"], sort=False):
        free = rows[rows["overhead_s"] == 0].iloc[0]
        own = (table["workload"] == workload) & (table["leases"] == leases)
        for figure, title in (("mean_jct_h", "JCT +%"), ("makespan_h", "makespan +%")):
            table.loc[own, title] = 100 * (table.loc[own, figure] / free[figure] - 1)
    return table


def _verdicts(table: pd.DataFrame) -> list[dict[str, str]]:
    """Judge what preemption costs without leases, by model, and what leases save."""
    lost = table.pivot_table(
        index=["overhead_s", "workload"], columns="leases", values="lost %", sort=False
    )
    by_model, five = lost.loc[BY_MODEL], lost.loc[JUDGED_S]
    costs = [Figure(str(name), float(each)) for name, each in by_model[False].items()]
    saved = [Figure(str(name), float(each)) for name, each in (five[True] / five[False]).items()]
    return [claimed("gavel", "preemption", costs), claimed("gavel", "leases", saved)]


def _plot(table: pd.DataFrame, out: Path | None) -> None:
    """Draw the time lost and the longer completion times against the seconds of a start."""
    with drawing(out, "gavel_leases", 9.0, 3.4) as figure:
        if figure is None:
            return
        panels: Any = figure.subplots(1, 2)
        for axes, column in zip(panels, ("lost %", "JCT +%"), strict=True):
            for workload, style in line_styles(WORKLOADS).items():
                for leases, dash in ((True, "-"), (False, ":")):
                    own = (table["workload"] == workload) & (table["leases"] == leases)
                    own &= table["overhead_s"] != BY_MODEL
                    label = f"{workload}, {'with' if leases else 'without'}"
                    line = style | {"linestyle": dash}
                    rows = table[own]
                    axes.plot(
                        rows["overhead_s"], rows[column], marker="o", ms=3, label=label, **line
                    )
            axes.set(xlabel="seconds of a start", ylim=(min(0.0, table[column].min()), None))
        panels[0].set_ylabel("% of the time held that starting takes")
        panels[1].set_ylabel("% that mean completion time grows")
        panels[0].legend(title="leases", fontsize="small")


if __name__ == "__main__":
    main()
