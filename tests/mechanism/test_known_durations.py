"""Who says that it goes by no durations must begin alike whatever durations jobs have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.mechanism.queue import QueueScheduler
from apportion.sim.deciders import get_decider, knows_durations

GANGS = [1, 2, 4, 1, 2, 1, 4, 1, 2, 1]

UNAWARE = [
    *("fcfs", "dally", "dally_no_wait", "tiresias", "gandiva", "kueue", "kai"),
    *("max_min_fairness", "fifo", "max_total_throughput", "proportional", "nash_welfare"),
]
AWARE = ["easy", "conservative", "shortest_job_first", "least_mean_completion"]


def jobs_with(seed: int, **more: Any) -> ap.Workload:
    """Jobs that are alike but for gangs and durations, all there at the beginning."""
    rng = np.random.default_rng(seed)
    names = [f"job{number}" for number in range(len(GANGS))]
    told = {"arrival_s": 0.0, "job_type": "ResNet18", "scale_factor": GANGS}
    told["total_steps"] = rng.permutation(np.geomspace(600.0, 60_000.0, len(GANGS)))
    index = pd.MultiIndex.from_tuples([("ResNet18", gang) for gang in (1, 2, 4)])
    index.names = ["job_type", "scale_factor"]
    speeds = pd.DataFrame({"v100": 1.0}, index=index)
    return ap.Workload("alike", pd.DataFrame({**told, **more}, index=names), speeds)


def begins_with(decider: str, seed: int) -> set[str]:
    schedule = ap.simulate(decider, jobs_with(seed), "v100=4", seed=0).schedule
    return {str(job) for job in schedule.loc[schedule["start_s"] == 0, "job"]}


@pytest.mark.parametrize("decider", UNAWARE)
def test_who_knows_no_durations_begins_alike(decider: str) -> None:
    assert not knows_durations(get_decider(decider), jobs_with(0).jobs)
    assert len({frozenset(begins_with(decider, seed)) for seed in range(2)}) == 1


@pytest.mark.parametrize("decider", AWARE)
def test_who_knows_durations_says_so(decider: str) -> None:
    assert knows_durations(get_decider(decider), jobs_with(0).jobs)
    assert len({frozenset(begins_with(decider, seed)) for seed in range(4)}) > 1


@pytest.mark.parametrize("decider", ["slurm", "srsf_1", "ada_srsf", "themis", "allox", "makespan"])
def test_others_that_go_by_durations_say_so(decider: str) -> None:
    assert knows_durations(get_decider(decider), jobs_with(0).jobs)


def test_backfilling_by_limits_of_users_needs_no_durations() -> None:
    every, some = np.full(len(GANGS), 60.0), np.r_[np.nan, np.full(len(GANGS) - 1, 60.0)]
    easy = get_decider("easy")
    assert not knows_durations(easy, jobs_with(0, time_limit_s=every).jobs)
    assert knows_durations(easy, jobs_with(0, time_limit_s=some).jobs)


def test_schedulers_of_ones_own_say_it_themselves() -> None:
    class Shortest(QueueScheduler):
        name = "own_shortest"

        def queue(self, jobs: Any, now_s: float) -> Any:
            for job in jobs.active[np.argsort(jobs.remaining[jobs.active])].tolist():
                yield job, [0]

        def knows_durations(self, jobs: pd.DataFrame) -> bool:
            return True

    class Decides:
        def decide(self, event: Any) -> None:
            return None

    jobs = jobs_with(0).jobs
    assert knows_durations(get_decider(Shortest()), jobs)
    assert not knows_durations(get_decider(Decides()), jobs)
