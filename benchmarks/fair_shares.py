"""Users with few jobs beside one with many: who waits, and what it costs the one with many.

``python -m benchmarks.fair_shares`` lets a heavy user submit jobs all the time, three light ones a
few now and then, and compares first come first served, backfill, policies that are fair at each
instant, and those that remember: ``fair_over_time``, quotas (``cohort``, a quarter of the GPUs
each), and a queue in which the job of the user with the least decayed use comes first, which is
what rule-based schedulers do. Ratios are to first come first served, over the same jobs, with
intervals over seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.mechanism.job_table import EntityUse
from apportion.statistics import paired
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from apportion.mechanism.job_table import JobTable

CLUSTER = "v100=8,p100=8,k80=8"
HEAVY, LIGHT = "heavy", ("ann", "bob", "eve")
FIRST = "fcfs"
HALF_LIFE_S = 86_400.0


@dataclass(frozen=True)
class LeastUsed(ap.QueueScheduler):
    """The job of the user who has had least comes first, on its fastest type that is free."""

    name = "least_used_first"

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, Iterable[int]]]:
        """List the jobs in order of their users' decayed GPU-seconds, then of arrival."""
        if jobs.entity_use is None:
            jobs.entity_use = EntityUse(jobs, HALF_LIFE_S)
        used_s = jobs.entity_use.now(now_s).round(3)
        for job in jobs.active[np.lexsort((jobs.active, used_s))].tolist():
            yield job, np.argsort(-jobs.speed[job], kind="stable").tolist()


def deciders() -> dict[str, Any]:
    """Return who decides, by the name in the table."""
    quotas = dict.fromkeys((HEAVY, *LIGHT), 6.0)
    return {
        FIRST: FIRST,
        "easy": "easy",
        "slurm": ap.get_scheduler("slurm", half_life_s=HALF_LIFE_S),
        "max_min_fairness": "max_min_fairness",
        "hierarchical_fairness": "hierarchical_fairness",
        LeastUsed.name: LeastUsed(),
        "cohort": ap.Cohort(quotas=quotas),
        "fair_over_time": ap.FairOverTime(half_life_s=HALF_LIFE_S),
    }


def workload(heavy: int, light: int, seed: int) -> ap.Workload:
    """Draw so many jobs of the heavy user in a row, and so many of each light one among them."""
    jobs = heavy + light * len(LIGHT)
    load = ap.generate_workload(jobs=jobs, seed=seed, jobs_per_hour=5, scale_factors="gavel")
    rng = np.random.default_rng(seed)
    users = rng.permutation([HEAVY] * heavy + [name for name in LIGHT for _ in range(light)])
    table = load.jobs.assign(entity=users, scale_factor=load.jobs["scale_factor"].clip(upper=4))
    return ap.Workload(load.name, table, load.throughputs)


def main() -> None:
    """Run all and print a row for each who decides."""
    options = parser(
        "fair_shares", "Light users beside a heavy one, by who decides.", "one small workload"
    ).parse_args()
    (heavy, light), seeds = ((10, 1), 1) if options.quick else ((90, 6), 6)
    print(f"{heavy} jobs of one user, {light} of each of three others, on {CLUSTER}, {seeds} seeds")
    settings: list[Settings] = [
        {"decider": name, "heavy": heavy, "light": light, "seed": seed}
        for name in deciders()
        for seed in range(seeds)
    ]
    print(f"on {machine()}")
    runs = run_all(_work, settings, options, "fair_shares")
    show(_compared(runs))
    write_csv(runs, options.out, "fair_shares")


def _compared(runs: pd.DataFrame) -> pd.DataFrame:
    """Return means, and ratios to first come first served."""
    by_name = {name: runs[runs["decider"] == name].set_index("seed") for name in deciders()}
    rows = []
    for name, some in by_name.items():
        row: dict[str, Any] = {"decides": name}
        for whose in ("light", "heavy"):
            column = f"{whose} JCT h"
            ratio = paired(some[column], by_name[FIRST][column], ratio=True)
            row |= {column: some[column].mean(), f"{whose} ratio": ratio.estimate}
            row |= {f"{whose} low": ratio.low, f"{whose} high": ratio.high}
        row |= {name: some[name].mean() for name in ("makespan h", "preemptions")}
        rows.append(row)
    return pd.DataFrame(rows)


def _work(settings: Settings, _data: Path | None) -> dict[str, Any]:
    """Simulate one."""
    load = workload(settings["heavy"], settings["light"], settings["seed"])
    run = ap.simulate(
        deciders()[settings["decider"]], load, CLUSTER, preemption_overhead_seconds=0.0
    )
    hours, heavy = run.jobs["jct_s"] / 3600, run.jobs["entity"] == HEAVY
    summary = run.summary()
    return {
        "light JCT h": hours[~heavy].mean(),
        "heavy JCT h": hours[heavy].mean(),
        "makespan h": summary["makespan_s"] / 3600,
        "preemptions": summary["preemptions"],
    }


if __name__ == "__main__":
    main()
