"""Policies over tiers beside the schedulers that decide by a rule, on racks.

``python -m benchmarks.dally.policies`` runs policies that share out time over the options
(accelerator, tier), and Dally and Tiresias, on bootstrap resamples of a batch of jobs drawn from
the published marginals of Dally's evaluation, overheads as in its Table I. The criterion stands in
`_verdicts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

import apportion as ap
from benchmarks.experiment import Settings, parser, run_all, verdict
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

POLICIES = ("max_min_fairness", "network_sensitive")
HEURISTICS = ("dally", "tiresias")
RACKS, JOBS, RESAMPLES = 2, 200, 8
QUICK_JOBS, QUICK_RESAMPLES = 30, 1


def main() -> None:
    """Run all of them on all resamples, print medians and gains, and judge."""
    text = f"{QUICK_JOBS} jobs, one resample"
    options = parser("dally.policies", "Policies over tiers beside schedulers.", text).parse_args()
    print(f"Policies over tiers on {machine()}")
    jobs, seeds = (QUICK_JOBS, QUICK_RESAMPLES) if options.quick else (JOBS, RESAMPLES)
    settings = [
        {"decider": decider, "seed": seed, "jobs": jobs}
        for seed in range(seeds)
        for decider in (*POLICIES, *HEURISTICS)
    ]
    runs = run_all(_work, settings, options, "dally_policies")
    print(
        f"{jobs} jobs at once on {RACKS} racks, {seeds} resamples; medians. Hours; comm %: exposed "
        "communication over time held."
    )
    table = runs.drop(columns=["seed", "jobs"]).groupby("decider", sort=False).median()
    show(table.reset_index(), digits=4)
    print("\nMean JCT that the first has less than the second, %: median [least, most]")
    gains = _gains(runs)
    show(gains)
    verdicts = [] if options.quick else _verdicts(gains)
    write_csv(runs, options.out, "dally_policies_runs")
    write_csv(table.reset_index(), options.out, "dally_policies", bars=True)
    write_csv(pd.DataFrame(verdicts), options.out, "dally_policies_verdicts")


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Run one policy or scheduler on one resample."""
    workload = ap.resample(ap.generate_rack_workload(jobs=settings["jobs"]), settings["seed"])
    cluster = ap.Cluster.of_racks(RACKS)
    run = ap.simulate(
        settings["decider"],
        workload,
        cluster,
        mechanism="leases",
        network="table1",
        preemption_overhead_seconds=0.0,
    )
    figures, jobs = run.summary(), run.jobs
    held_s = (jobs["jct_s"] - jobs["queueing_s"]).sum()
    return {
        "JCT h": figures["mean_jct_s"] / 3600,
        "p95 h": figures["p95_jct_s"] / 3600,
        "makespan h": figures["makespan_s"] / 3600,
        "wait h": figures["queueing_s"] / 3600,
        "comm %": 100 * jobs["communication_s"].sum() / held_s,
        "max FTF": figures["ftf_max"],
    }


def _gains(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare mean JCT by resample, each policy with each scheduler."""
    jct = runs.pivot(index="seed", columns="decider", values="JCT h")
    rows = []
    for policy in POLICIES:
        for other in HEURISTICS:
            less = 100 * (1 - jct[policy] / jct[other])
            row = {"first": policy, "second": other, "median": less.median()}
            rows.append(row | {"least": less.min(), "most": less.max()})
    return pd.DataFrame(rows)


def _verdicts(gains: pd.DataFrame) -> list[dict[str, str]]:
    """Judge that a policy has the shorter mean JCT in every resample."""
    return [
        verdict(
            f"{row['first']} over tiers has a shorter mean JCT than {row['second']} in every "
            "resample",
            bool(row["least"] > 0),
            f"{row['median']:.1f} % [{row['least']:.1f}, {row['most']:.1f}]",
        )
        for row in gains.to_dict("records")
    ]


if __name__ == "__main__":
    main()
