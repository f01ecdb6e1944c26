from __future__ import annotations

import numpy as np
import pytest

import apportion as ap
from apportion.mechanism.decider import About
from apportion.mechanism.job_table import JobTable
from apportion.mechanism.leases.jobs import LeasedJobs, WaitingJobs
from apportion.mechanism.leases.timers import DelayTimers, ManualTimers
from apportion.mechanism.orders import (
    ByArrival,
    DiscretizedLeastAttainedService,
    LeastAttainedService,
    MostSlowedFirst,
    Order,
    RoundRobin,
    UnfairestFirst,
)
from apportion.mechanism.placement import Placer

Job = tuple[float, int, float, float, float]


def waiting_jobs(jobs: list[Job]) -> WaitingJobs:
    """Jobs of (arrival_s, scale_factor, ideal_s, compute_s, run_s)."""
    count, zeros = len(jobs), np.zeros(len(jobs))
    arrival_s, scale, ideal_s, compute_s, run_s = np.array(jobs).T
    table = JobTable(
        job_type=["m"] * count,
        arrival_s=arrival_s,
        scale=scale.astype(np.intp),
        total=ideal_s,
        remaining=ideal_s - compute_s,
        speed=np.ones((count, 1)),
        capacity=np.array([16.0]),
        prices=np.zeros(1),
        facts={},
        texts={},
        accelerators=("gpu",),
        isolated_s=zeros,
        held_s=zeros[:, None],
        active=np.arange(count),
    )
    cluster = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    about = About(table, range(count), cluster, Placer(cluster, pace=lambda model, place: 1.0))
    records = LeasedJobs(about)
    for job in range(count):
        records.arrive(job)
    records.run_s[:, 2] = run_s
    timers = DelayTimers(ManualTimers(), 3600.0, machine_gpus=4, rack_gpus=8)
    return WaitingJobs(np.arange(count), records, timers, (4, 8, 16))


def keys(order: Order, jobs: list[Job], now_s: float = 0.0) -> list[list[float]]:
    return [key.tolist() for key in order.keys(now_s, waiting_jobs(jobs))]


def test_the_network_sensitive_priority_by_hand() -> None:
    # Job A: 300 of 1000 iterations of 2 s in 900 s; job B: 100 of 400 of 1 s in 500 s; a fresh one.
    a, b, fresh = (
        (0.0, 1, 2000.0, 600.0, 900.0),
        (0.0, 1, 400.0, 100.0, 500.0),
        (0.0, 1, 9.0, 0.0, 0.0),
    )
    assert keys(MostSlowedFirst(), [a, b, fresh])[0] == pytest.approx([2 / 3, 0.2, 0.0])
    longer = (0.0, 1, 4000.0, 600.0, 900.0)
    assert keys(MostSlowedFirst(), [longer])[0] == pytest.approx([2 / 3])


def test_at_one_placement_the_priority_is_that_of_the_overhead() -> None:
    run_s, overheads = 5000.0, [0.07, 1.16, 27.49]
    jobs = [(0.0, 8, 1e6, run_s / (1 + o), run_s) for o in overheads]
    assert keys(MostSlowedFirst(), jobs)[0] == pytest.approx([0.9346, 0.4630, 0.0351], abs=1e-4)


def test_a_job_stuck_on_the_network_comes_first_by_priority_and_last_by_attained_service() -> None:
    stuck, quick = (0.0, 8, 1e6, 1000.0, 28490.0), (0.0, 8, 1e6, 5000.0, 5350.0)
    by_priority = keys(MostSlowedFirst(), [stuck, quick])[0]
    by_service = keys(LeastAttainedService(), [stuck, quick])[0]
    assert by_priority[0] < by_priority[1]
    assert by_service[0] > by_service[1]


def test_queues_of_attained_service_by_hand() -> None:
    run_s = [0.0, 3249.0, 3250.0, 7199.0, 7200.0, 17999.0, 18000.0]
    jobs = [(10.0 - k, 1, 1e6, 0.0, value) for k, value in enumerate(run_s)]
    queue, arrival_s = keys(DiscretizedLeastAttainedService(), jobs)
    assert queue == [0, 0, 1, 1, 2, 2, 3]
    assert arrival_s == [10.0 - k for k in range(7)]
    # Two dimensions: 8 GPUs for 500 s are 4000 GPU-seconds.
    assert keys(DiscretizedLeastAttainedService(), [(0.0, 8, 1e6, 0.0, 500.0)])[0] == [1]


def test_finish_time_fairness_by_hand() -> None:
    # Two jobs on 16 GPUs: 8 each. The first needs 4; the second needs 16, so it runs half the time.
    jobs = [(0.0, 4, 100.0, 20.0, 30.0), (50.0, 16, 100.0, 0.0, 0.0)]
    key = keys(UnfairestFirst(), jobs, now_s=150.0)[0]
    assert key == pytest.approx([-(150 + 80) / 100, -(100 + 100) / 200])


def test_arrivals_and_turns() -> None:
    jobs = [(5.0, 1, 1.0, 0.0, 0.0), (3.0, 1, 1.0, 0.0, 0.0)]
    assert keys(ByArrival(), jobs)[0] == [5.0, 3.0]
    assert keys(RoundRobin(), jobs)[0] == [0.0, 0.0]
