"""A cap on power: as a constraint of the policy, and by the rule that an operator would follow.

``python -m benchmarks.power_cap`` runs max-min fairness under caps of a part of the power of all
GPUs: ``power_capped``, which chooses anew who runs on what, and the rule that switches off the GPUs
that make least of a watt until what is left may all run, with ``max_min_fairness`` on these. What a
GPU of a type makes of a watt is the mean over jobs of its speed over the fastest type's, by watt.
Ratios are of the policy to the rule over the same jobs, with intervals over seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.statistics import paired
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

GPUS = {"v100": 8, "p100": 8, "k80": 8}
WATTS = ap.accelerators()["watts"][[*GPUS]].to_dict()
ALL_W = sum(WATTS[name] * number for name, number in GPUS.items())
PARTS = (0.4, 0.5, 0.65)
"""Of the power of all; a gang of 8 has room under the least."""
WAYS = ("rule", "power_capped")
MEASURES = ("mean JCT h", "p95 JCT h", "makespan h", "MWh")


def main() -> None:
    """Run all and print two rows for each cap, and their ratios."""
    options = parser(
        "power_cap", "Caps on power, by who keeps them.", "one small load"
    ).parse_args()
    (jobs, seeds), parts = ((8, 2), PARTS[1:2]) if options.quick else ((60, 10), PARTS)
    print(f"{jobs} jobs on {GPUS}, {ALL_W:,.0f} W in all, {seeds} seeds")
    settings: list[Settings] = [
        {"part": part, "way": way, "jobs": jobs, "seed": seed}
        for part in parts
        for way in WAYS
        for seed in range(seeds)
    ]
    print(f"on {machine()}")
    runs = run_all(_work, settings, options, "power_cap")
    show(
        runs.groupby(["part", "way"], sort=False)[["on", *MEASURES, "most W"]]
        .agg(_shown)
        .reset_index()
    )
    show(_compared(runs))
    write_csv(runs, options.out, "power_cap")


def left_on(workload: ap.Workload, cap_w: float) -> dict[str, int]:
    """Return the GPUs of each type that the rule leaves on."""
    speed = workload.throughput_of(GPUS)[[*GPUS]]
    made = speed.div(speed.max(axis=1), axis=0).mean() / list(WATTS.values())
    left, watts = dict(GPUS), ALL_W
    for name in made.sort_values(kind="stable").index:
        off = min(left[name], max(0, int(np.ceil((watts - cap_w) / WATTS[name]))))
        left[name] -= off
        watts -= off * WATTS[name]
    return {name: number for name, number in left.items() if number}


def _work(settings: Settings, _data: Path | None) -> dict[str, Any]:
    """Simulate one."""
    load = ap.generate_workload(
        jobs=settings["jobs"], seed=settings["seed"], jobs_per_hour=5, scale_factors="gavel"
    )
    cap_w = settings["part"] * ALL_W
    on = left_on(load, cap_w) if settings["way"] == "rule" else GPUS
    policy = "max_min_fairness" if settings["way"] == "rule" else ap.PowerCapped(cap_w=cap_w)
    run = ap.simulate(policy, load, on, preemption_overhead_seconds=0.0)
    summary, rounds = run.summary(), run.rounds
    seconds = rounds["end_s"] - rounds["start_s"]
    joules = pd.concat([rounds[f"{name}_busy"] * WATTS[name] for name in on], axis=1).sum(axis=1)
    return {
        "on": " ".join(f"{name}={number}" for name, number in on.items()),
        "mean JCT h": summary["mean_jct_s"] / 3600,
        "p95 JCT h": summary["p95_jct_s"] / 3600,
        "makespan h": summary["makespan_s"] / 3600,
        "MWh": joules.sum() / 3.6e9,
        "most W": (joules / seconds).max(),
    }


def _shown(column: pd.Series) -> Any:
    """Return the mean of figures, or the texts that there are."""
    return column.mean() if column.dtype.kind == "f" else " or ".join(dict.fromkeys(column))


def _compared(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the ratios of the policy to the rule."""
    rows = []
    for part, some in runs.groupby("part", sort=False):
        rule, policy = (some[some["way"] == way].set_index("seed") for way in WAYS)
        for measure in MEASURES:
            ratio = paired(policy[measure], rule[measure], ratio=True)
            told = "differs" if ratio.sure else "within noise"
            named = {"ratio": ratio.estimate, "low": ratio.low, "high": ratio.high}
            named |= {"wins": ratio.wins, "pairs": ratio.pairs}
            rows.append({"part": part, "measure": measure, **named, "95 %": told})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
