from __future__ import annotations

import numpy as np
import pytest
from tests.mechanism.offers.without_a_run import add, table_with_room

from apportion.mechanism.offers.leased_jobs import LeasedJobs
from apportion.mechanism.offers.timer_book import TimerBook
from apportion.mechanism.offers.timers import ManualTimers
from apportion.mechanism.offers.waiting import ClusterSize, WaitingJobs
from apportion.mechanism.orders import (
    ByArrival,
    DiscretizedLeastAttainedService,
    LeastAttainedService,
    MostSlowedFirst,
    Order,
    RoundRobin,
    UnfairestFirst,
)
from apportion.mechanism.scheduler import Room

Job = tuple[float, int, float, float, float]


def waiting_jobs(jobs: list[Job], gpus: int = 16) -> WaitingJobs:
    """Jobs of (arrival_s, scale_factor, ideal_s, compute_s, run_s)."""
    records = LeasedJobs(table_with_room(len(jobs)))
    for number, (arrival_s, scale_factor, ideal_s, compute_s, run_s) in enumerate(jobs):
        add(records.told, arrival_s, scale_factor, ideal_s)
        records.enter(number, arrival_s, "m", [1.0, np.inf, np.inf])
        records.compute_s[number], records.run_s[number, 2] = compute_s, run_s
    book = TimerBook(ManualTimers(), 3600.0, gpus_per_machine=4, gpus_per_rack=8, gpus=gpus)
    return WaitingJobs(np.arange(len(jobs)), records, book, ClusterSize(4, 8, gpus), Room(4, 8, 16))


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
