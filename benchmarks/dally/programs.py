"""Dally's decision as a program beside the heuristic and beside policies over tiers.

``python -m benchmarks.dally.programs`` runs the scheduler ``dally``, the policy ``dally_round``,
which decides the same lexicographically best at every offer, and two policies that share out time
over tiers, on bootstrap resamples of a batch of jobs drawn from the published marginals of Dally's
evaluation. Beside every decision of the program Algorithm 1 is asked what it would have done.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import apportion as ap
from apportion.mechanism.leases import AutoTunedTimers, OfferScheduler
from apportion.mechanism.leases.queue import accepts_from_s
from apportion.mechanism.leases.rules import DelayScheduling
from apportion.mechanism.placements.counts import BestFit, choose
from apportion.policies.dally_round import DallyRound
from apportion.sim.leasing import parts
from apportion.sim.tiers.round_plans import RoundPlans
from apportion.sim.tiers.tier_problem import at_tiers, tier_slowdowns
from benchmarks.experiment import Settings, parser, run_all
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.mechanism.leases import WaitingJobs
    from apportion.mechanism.leases.active import ActiveLeases
    from apportion.mechanism.leases.queue import Candidate
    from apportion.sim.about import AboutRun, Parts

PROGRAM = "dally_round"
DECIDERS = ("dally", PROGRAM, "network_sensitive", "max_min_fairness")
RACKS, JOBS_PER_RACK, RESAMPLES = (2, 4, 8, 16), 40, 3
QUICK_RACKS, QUICK_JOBS_PER_RACK, QUICK_RESAMPLES = (2,), 15, 1


def main() -> None:
    """Run all of them on all resamples and numbers of racks; print medians and differences."""
    text = f"{QUICK_JOBS_PER_RACK} jobs per rack on {QUICK_RACKS[0]} racks, one resample"
    options = parser("dally.programs", "Dally's decision as a program.", text).parse_args()
    print(f"Dally as a program on {machine()}")
    racks, jobs, seeds = (
        (QUICK_RACKS, QUICK_JOBS_PER_RACK, QUICK_RESAMPLES)
        if options.quick
        else (RACKS, JOBS_PER_RACK, RESAMPLES)
    )
    settings = [
        {"racks": count, "decider": decider, "seed": seed, "jobs": jobs * count}
        for count in racks
        for seed in range(seeds)
        for decider in DECIDERS
    ]
    runs = run_all(_work, settings, options, "dally_programs")
    print(f"{jobs} jobs per rack at once, {seeds} resamples: median [least, most].")
    figures = ["JCT h", "makespan h", "stops", "CPU s"]
    table = _intervals(runs, figures)
    show(table)
    print("\nDecisions of the program that Algorithm 1 takes otherwise, of all with a lease:")
    show(_intervals(runs[runs["decider"] == PROGRAM], ["rounds", "other %", "jobs %", "blocked %"]))
    write_csv(runs, options.out, "dally_programs_runs")
    write_csv(table, options.out, "dally_programs", bars=True)


def _work(settings: Settings, data: Path | None) -> dict[str, float]:
    """Run one policy or scheduler on one resample."""
    workload = ap.resample(ap.generate_rack_workload(jobs=settings["jobs"]), settings["seed"])
    cluster, decider = ap.Cluster.of_racks(settings["racks"]), settings["decider"]
    began, watched = time.process_time(), _Watched()
    if decider == PROGRAM:
        run = _watched_run(workload, cluster, watched)
    else:
        run = ap.simulate(
            decider,
            workload,
            cluster,
            mechanism="leases",
            network="table1",
            preemption_overhead_seconds=0.0,
        )
    figures = run.summary()
    return {
        "JCT h": figures["mean_jct_s"] / 3600,
        "makespan h": figures["makespan_s"] / 3600,
        "stops": float(run.jobs["preemptions"].sum()),
        "CPU s": time.process_time() - began - watched.seconds,
        **watched.figures(),
    }


def _watched_run(workload: ap.Workload, cluster: ap.Cluster, watched: _Watched) -> ap.Run:
    """Simulate ``dally_round``, each of its decisions looked at."""
    rule = DelayScheduling()
    terms = OfferScheduler(PROGRAM, rule=rule, timers=AutoTunedTimers())

    class WatchedLeases(ap.Leases):
        def parts(self, decider: object, about: AboutRun) -> Parts:
            told = parts.racks(about, terms)
            alone = about.workload.throughput_of(cluster).to_numpy(dtype=float)
            speed = at_tiers(alone, tier_slowdowns(about.workload, told.devices.placings))
            plans = _WatchedPlans(DallyRound(), rule, speed, watched)
            return parts.offered(about, told, terms.make(told, plans), terms)

    return ap.simulate(DallyRound(), workload, cluster, mechanism=WatchedLeases(network="table1"))


class _Watched:
    """What Algorithm 1 would have decided otherwise.

    Attributes
    ----------
    seconds
        CPU time spent on finding out.
    """

    def __init__(self) -> None:
        self.rounds = self.others = self.jobs = self.moved = self.blocked = 0
        self.seconds = 0.0

    def compare(self, program: dict[int, int], heuristic: dict[int, int]) -> None:
        """Count the jobs whose tiers differ, and rounds in which a job is better off."""
        served = program.keys() | heuristic.keys()
        differs = [job for job in served if program.get(job) != heuristic.get(job)]
        better = [job for job in differs if program.get(job, 9) < heuristic.get(job, 9)]
        self.rounds += 1
        self.jobs += len(served)
        self.others += bool(differs)
        self.moved += len(differs)
        self.blocked += len(better)

    def figures(self) -> dict[str, float]:
        """Return the counts, as parts of all."""
        rounds, jobs = max(self.rounds, 1), max(self.jobs, 1)
        return {
            "rounds": float(self.rounds),
            "other %": 100 * self.others / rounds,
            "jobs %": 100 * self.moved / jobs,
            "blocked %": 100 * self.blocked / jobs,
        }


class _WatchedPlans(RoundPlans):
    """Asks Algorithm 1, too, about every round."""

    def __init__(
        self, policy: DallyRound, rule: DelayScheduling, speed: np.ndarray, watched: _Watched
    ) -> None:
        super().__init__(policy, rule, speed)
        self._watched, self._waits = watched, rule

    def plan(self, now_s: float, waiting: WaitingJobs, leases: ActiveLeases) -> list[Candidate]:
        plan = super().plan(now_s, waiting, leases)
        began = time.process_time()
        if plan:
            heuristic = self._algorithm_1(now_s, waiting, leases)
            self._watched.compare({each.job: each.widest for each in plan}, heuristic)
        self._watched.seconds += time.process_time() - began
        return plan

    def _algorithm_1(
        self, now_s: float, waiting: WaitingJobs, leases: ActiveLeases
    ) -> dict[int, int]:
        """Give each job in its turn the tightest tier that is open and free, by best fit."""
        opened = waiting.fits & (accepts_from_s(self._waits, waiting) <= now_s)
        (priority,) = self._order.keys(now_s, waiting)
        free, tiers = leases.pools[0].free.copy(), {}
        for position in np.lexsort((waiting.job, waiting.released_s, priority)).tolist():
            gpus = int(waiting.scale_factor[position])
            room = free.max(), free.sum(axis=1).max(), free.sum()
            tier = next((k for k in range(3) if opened[position, k] and room[k] >= gpus), None)
            if tier is not None:
                tiers[int(waiting.job[position])] = tier
                for rack, place, taken in choose(free, gpus, tier, BestFit()):
                    free[rack, place] -= taken
        return tiers


def _intervals(runs: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Write the median and the range over resamples, by racks and decider."""
    groups = runs.groupby(["racks", "decider"], sort=False)
    rows = []
    for (racks, decider), each in groups:
        row: dict[str, object] = {"racks": racks, "decider": decider}
        for column in columns:
            values = each[column]
            row[column] = f"{values.median():.4g} [{values.min():.4g}, {values.max():.4g}]"
        rows.append(row)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
