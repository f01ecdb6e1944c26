"""Columns of leases beside a job table, one that is given or one that grows."""

from __future__ import annotations

import json

import numpy as np

from apportion.cluster import Cluster
from apportion.mechanism.deciders import get_scheduler
from apportion.mechanism.job_table import JobTable
from apportion.mechanism.offers import LeaseMechanism
from apportion.mechanism.offers.leased_jobs import LeasedJobs


def test_a_table_that_grows_is_as_one_made_at_once() -> None:
    rng = np.random.default_rng(0)
    grown = JobTable.empty(np.array([8.0, 4.0]))
    rows = [
        (float(rng.integers(9)), f"m{k}", int(rng.integers(1, 4)), 10.0 * (k + 1), rng.random(2))
        for k in range(7)
    ]
    for at_s, kind, scale, total, speed in rows:
        grown.add(arrival_s=at_s, job_type=kind, scale=scale, total=total, speed=speed.tolist())
    grown.complete(3)
    again = JobTable.empty(np.array([8.0, 4.0]))
    again.restore(json.loads(json.dumps(grown.state())))
    for table in (grown, again):
        assert table.jobs == 7
        assert table.active.tolist() == [0, 1, 2, 4, 5, 6]
        assert list(table.job_type) == [row[1] for row in rows]
        for name, place in (("arrival_s", 0), ("scale", 2), ("total", 3), ("remaining", 3)):
            assert getattr(table, name).tolist() == [row[place] for row in rows]
        np.testing.assert_array_equal(table.speed, [row[4] for row in rows])
        assert table.held_s.shape == (7, 2)


def test_columns_keep_their_entries_when_the_table_grows() -> None:
    told = JobTable.empty(np.array([8.0]))
    jobs = LeasedJobs(told)
    for number in range(70):
        told.add(arrival_s=1.0, job_type="m", scale=1 + number % 3, total=5.0, speed=[1.0])
        jobs.enter(number, float(number), f"type {number % 2}")
        jobs.run_s[number, 2], jobs.tier[number] = number, number % 2
    assert jobs.released_s.tolist() == list(range(70))
    assert jobs.run_s[:, 2].tolist() == list(range(70))
    assert jobs.type_code.tolist() == [0, 1] * 35
    jobs.waiting[::2] = False
    told.complete(1)
    assert jobs.able(2).tolist() == [k for k in range(3, 70, 2) if k % 3 < 2]


def test_jobs_of_a_given_table_are_served_as_those_that_arrive_by_themselves() -> None:
    """The same jobs in the same order, once in the mechanism's own table, once in another's."""
    rng = np.random.default_rng(3)
    types = Cluster.of_racks({"a": 1, "b": 1}, machines_per_rack=2, gpus_per_machine=4)
    told = JobTable.empty(types.counts.astype(float))
    own = LeaseMechanism(get_scheduler("themis"), types)
    given = LeaseMechanism(get_scheduler("themis"), types, told=told)
    for step in range(40):
        now_s, gpus = 100.0 * step, int(rng.integers(1, 9))
        speed = [[1.0, 1.0], [1.0, 0.5], [0.25, 1.0]][int(rng.integers(3))]
        job = told.add(arrival_s=now_s, job_type="m", scale=gpus, total=1e4, speed=speed)
        given.admit(job, now_s, "m")
        arrived = own.arrive(now_s, scale_factor=gpus, job_type="m", ideal_s=1e4, speed=speed)
        assert arrived == job
        for held in sorted(own.held):
            for each in (own, given):
                each.ran(np.array([held]), np.array([60.0]), np.array([90.0]))
            ends = rng.random()
            if ends < 0.2:
                own.complete(held)
                given.complete(held)
                told.complete(held)
            elif ends < 0.6:
                own.release(held, now_s)
                given.release(held, now_s)
        assert own.offer(now_s) == given.offer(now_s)
        assert own.next_change_s(now_s) == given.next_change_s(now_s)
    assert own.jobs.state() == given.jobs.state()
