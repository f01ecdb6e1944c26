"""The rounds table and the jobs table, worked out again from the schedule alone."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from tests.sim.workloads.generated import SCHEDULERS, Case, draw

from apportion.cluster import TIERS

if TYPE_CHECKING:
    import apportion as ap
    from apportion.sim import Run

POLICIES = ("max_min_fairness", "fifo", "makespan_agnostic", "isolated")


class Stay(NamedTuple):
    """A row of the schedule."""

    job: Any
    accelerator: str
    machines: tuple[int, ...]
    devices: tuple[int, ...]
    start_s: float
    end_s: float

    def within(self, since_s: float, until_s: float) -> float:
        return max(0.0, min(self.end_s, until_s) - max(self.start_s, since_s))

    def tier(self, cluster: ap.Cluster) -> int:
        racks = {machine // (cluster.machines_per_rack or 10**9) for machine in self.machines}
        return 0 if len(self.machines) == 1 else 1 if len(racks) == 1 else 2


def stays_of(run: Run) -> list[Stay]:
    return [Stay(*row) for row in run.schedule[list(Stay._fields)].itertuples(index=False)]


def drawn(decider: str) -> tuple[Case, Run, list[Stay]]:
    case = draw(decider, np.random.default_rng([3, *decider.encode()]), most_jobs=9)
    run = case.run()
    return case, run, stays_of(run)


def gpu_seconds(stays: list[Stay], row: tuple[float, float]) -> float:
    return sum(len(stay.devices) * stay.within(*row) for stay in stays)


@pytest.mark.parametrize("decider", POLICIES)
def test_rounds_are_told_by_the_schedule(decider: str) -> None:
    case, run, stays = drawn(decider)
    jobs, rounds = run.jobs, run.rounds
    for row in rounds.to_dict("records"):
        span = row["start_s"], row["end_s"]
        for name in case.cluster.gpus:
            busy = gpu_seconds([stay for stay in stays if stay.accelerator == name], span)
            assert row.get(f"{name}_busy", 0.0) == pytest.approx(busy, abs=1e-6)
        running = {stay.job for stay in stays if stay.start_s <= span[0] < stay.end_s}
        assert row["running_jobs"] == len(running)
        here = (jobs["arrival_s"] <= span[0]) & (jobs["completion_s"] > span[0])
        assert row["active_jobs"] == here.sum()
        # Who had devices until now, is not done, and has others or none.
        ended = [stay for stay in stays if stay.end_s == span[0]]
        stopped = [stay.job for stay in ended if jobs.loc[stay.job, "completion_s"] > span[0]]
        assert row["preemptions"] == len(stopped)
    check_jobs(run, stays)


@pytest.mark.parametrize("decider", SCHEDULERS)
def test_rows_of_leases_are_told_by_the_schedule(decider: str) -> None:
    case, run, stays = drawn(decider)
    jobs, cluster = run.jobs, case.cluster
    for row in run.rounds.to_dict("records"):
        span = row["start_s"], row["end_s"]
        length_s = span[1] - span[0]
        running = sum(stay.within(*span) for stay in stays) / length_s
        assert row["running_jobs"] == pytest.approx(running, abs=1e-5)
        here_s = np.minimum(jobs["completion_s"], span[1]) - np.maximum(jobs["arrival_s"], span[0])
        active = np.maximum(here_s, 0.0).sum() / length_s
        assert row["active_jobs"] == pytest.approx(active, abs=1e-5)
        for tier, name in enumerate(TIERS):
            held = gpu_seconds([stay for stay in stays if stay.tier(cluster) == tier], span)
            assert row[f"{name}_gpus"] == pytest.approx(held, rel=1e-6, abs=1e-3)
    for job, times in jobs[[f"{name}_s" for name in TIERS]].iterrows():
        own = [stay for stay in stays if stay.job == job]
        expected = [
            sum(stay.end_s - stay.start_s for stay in own if stay.tier(cluster) == tier)
            for tier in range(3)
        ]
        assert times.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-3)
    check_jobs(run, stays)


def check_jobs(run: Run, stays: list[Stay]) -> None:
    """The first stay begins at the start, the last one ends with the job."""
    for job, told in run.jobs.iterrows():
        own = sorted((stay.start_s, stay.end_s) for stay in stays if stay.job == job)
        assert own[0][0] == pytest.approx(told["start_s"], abs=1e-5)
        assert own[-1][1] == pytest.approx(told["completion_s"], abs=1e-5)
        assert all(one[1] <= other[0] for one, other in pairwise(own))
        assert told["preemptions"] == len(own) - 1
        held_s = sum(end_s - start_s for start_s, end_s in own)
        waited_s = told["completion_s"] - told["arrival_s"] - held_s
        assert told["queueing_s"] == pytest.approx(waited_s, rel=1e-6, abs=1e-3)
    assert run.rounds["preemptions"].sum() == run.jobs["preemptions"].sum()
