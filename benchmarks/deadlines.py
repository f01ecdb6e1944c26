"""Deadlines met: admission after ElasticFlow, of gangs of a fixed size, beside what heeds none.

``python -m benchmarks.deadlines`` runs jobs with deadlines under ``fcfs``, ``easy``, earliest
deadline first with preemptions, ``min_cost_slos``, and a queue that admits a job only if it and all
that were admitted before it can end in time. ElasticFlow (Gu et al., ASPLOS 2023)
admits if the minimum satisfactory shares of all admitted jobs fit, the fewest GPUs over time with
which each meets its deadline; here gangs have the size that their users ask for, so that the share
of a job is its gang for as long as it takes, planned in order of deadlines, and who is not admitted
is not dropped but runs on GPUs that no plan needs. Differences are in percentage points to
``fcfs`` over the same jobs, with 95 % intervals over seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.mechanism.batch.scheduler import BatchScheduler, InBatch
from apportion.mechanism.batch.serving import FreeGpus
from apportion.statistics import paired
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from apportion.mechanism.decider import About
    from apportion.mechanism.job_table import JobTable

    Ints = NDArray[np.intp]

CLUSTER = "v100=8,p100=8,k80=8"
FIRST = "fcfs"


def due_s(jobs: JobTable) -> NDArray[np.float64]:
    """Return when jobs are due; infinite for those without a deadline."""
    due = jobs.arrival_s + np.asarray(jobs.facts["deadline_s"], dtype=float)
    return np.where(np.isnan(due), np.inf, due)


@dataclass(frozen=True)
class EarliestDeadlineFirst(ap.QueueScheduler):
    """Whoever is due first comes first, and takes the GPUs of who is due later."""

    name = "earliest_deadline_first"

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, Iterable[int]]]:
        """List the jobs by deadline, each with its types, the fastest first."""
        due = due_s(jobs)[jobs.active]
        for job in jobs.active[np.argsort(due, kind="stable")].tolist():
            yield job, np.argsort(-jobs.speed[job], kind="stable").tolist()


@dataclass(frozen=True)
class AdmitsByDeadline(BatchScheduler):
    """Admits who can end in time beside all that were admitted; the others come behind them."""

    def make(self, about: About) -> InAdmitted:
        """Return what serves the jobs of a run."""
        return InAdmitted(self, about)


class InAdmitted(InBatch):
    """Serves the jobs of a run, those first that were admitted, by deadline."""

    def __init__(self, decider: BatchScheduler, about: About) -> None:
        super().__init__(decider, about)
        self._admitted = np.zeros(len(about.jobs.arrival_s), dtype=bool)
        self._asked = self._admitted.copy()

    def waiting(self, running: dict[int, int], now_s: float) -> Ints:
        """Ask those that have come for admission; return who waits, the admitted in front."""
        jobs, waits = self._jobs, super().waiting(running, now_s)
        due = due_s(jobs)
        for job in waits[~self._asked[waits]].tolist():
            self._asked[job] = True
            planned = np.append(waits[self._admitted[waits]], job)
            by_due = planned[np.argsort(due[planned], kind="stable")]
            self._admitted[job] = self._in_time(by_due, due, running, now_s)
        last = np.where(self._admitted[waits], due[waits], np.inf)
        return waits[np.argsort(last, kind="stable")]

    def _in_time(
        self, by_due: Ints, due: NDArray[np.float64], running: dict[int, int], now_s: float
    ) -> bool:
        """Whether each ends by its deadline if all, in order, have the GPUs that end it first."""
        jobs = self._jobs
        free = [FreeGpus(now_s, int(gpus)) for gpus in jobs.capacity]
        for job, kind in running.items():
            free[kind].take(now_s, self.seconds(job, kind), int(jobs.scale[job]))
        for job in by_due.tolist():
            gpus = int(jobs.scale[job])
            ways = [(self.seconds(job, kind), kind) for kind in self.types(job)]
            starts = [(free[kind].earliest_s(gpus, needs), needs, kind) for needs, kind in ways]
            at_s, needs, kind = min(starts, key=lambda way: way[0] + way[1])
            if at_s + needs > due[job]:
                return False
            free[kind].take(at_s, needs, gpus)
        return True


def deciders() -> dict[str, Any]:
    """Return who decides, by the name in the table."""
    plan: dict[str, Any] = {"backfill": "conservative", "chooses": "first_end", "depth": 1000}
    return {
        FIRST: FIRST,
        "easy": "easy",
        EarliestDeadlineFirst.name: EarliestDeadlineFirst(),
        "min_cost_slos": "min_cost_slos",
        "admission": AdmitsByDeadline("admission", **plan),
    }


def main() -> None:
    """Run all and print a row for each load and who decides."""
    options = parser("deadlines", "Deadlines met.", "one small load").parse_args()
    jobs, seeds, loads = (10, 2, (2.0,)) if options.quick else (60, 10, (1.0, 4.0))
    print(f"{jobs} jobs on {CLUSTER}, due after 1.2, 2 or 10 times their duration, {seeds} seeds")
    settings: list[Settings] = [
        {"jobs/h": load, "decides": name, "jobs": jobs, "seed": seed}
        for load in loads
        for name in deciders()
        for seed in range(seeds)
    ]
    print(f"on {machine()}")
    runs = run_all(_work, settings, options, "deadlines")
    show(_compared(runs))
    write_csv(runs, options.out, "deadlines")


def _work(settings: Settings, _data: Path | None) -> dict[str, Any]:
    """Simulate one."""
    load = ap.generate_workload(
        jobs=settings["jobs"],
        seed=settings["seed"],
        jobs_per_hour=settings["jobs/h"],
        scale_factors="gavel",
        deadlines="gavel",
    )
    summary = ap.simulate(
        deciders()[settings["decides"]], load, CLUSTER, preemption_overhead_seconds=0.0
    ).summary()
    return {
        "in time %": 100 * summary["deadlines_met"],
        "mean JCT h": summary["mean_jct_s"] / 3600,
        "preemptions": float(summary["preemptions"]),
    }


def _compared(runs: pd.DataFrame) -> pd.DataFrame:
    """Return means, and differences to first come first served with their intervals."""
    rows = []
    for load, some in runs.groupby("jobs/h", sort=False):
        by_name = {name: some[some["decides"] == name].set_index("seed") for name in deciders()}
        for name, own in by_name.items():
            more = paired(own["in time %"], by_name[FIRST]["in time %"])
            means = own[["in time %", "mean JCT h", "preemptions"]].mean().to_dict()
            row: dict[str, Any] = {"jobs/h": load, "decides": name, "more": more.estimate}
            row |= {"low": more.low, "high": more.high}
            rows.append(row | means)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
