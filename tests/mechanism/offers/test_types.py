"""Which of several accelerator types a job is served on, against loops over the definition."""

from __future__ import annotations

import numpy as np
import pytest
from tests.mechanism.offers.without_a_run import Alone, add, table_with_room

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.mechanism.deciders import get_scheduler
from apportion.mechanism.offers.candidates import InOrder, first_served
from apportion.mechanism.offers.leased_jobs import LeasedJobs
from apportion.mechanism.offers.rules import NoWait
from apportion.mechanism.offers.timer_book import TimerBook
from apportion.mechanism.offers.timers import ManualTimers
from apportion.mechanism.offers.waiting import ClusterSize, WaitingJobs
from apportion.mechanism.orders import ByArrival

TYPES = Cluster.of_racks({"a": 1, "b": 2, "c": 1}, machines_per_rack=2, gpus_per_machine=4)


def test_the_fastest_type_that_is_free_is_taken_then_the_tighter_tier_then_the_last_type() -> None:
    rng = np.random.default_rng(0)
    book = TimerBook(ManualTimers(), 3600.0, gpus_per_machine=4, gpus_per_rack=8, gpus=16)
    for _ in range(300):
        types = int(rng.integers(2, 4))
        records = LeasedJobs(table_with_room(1, types), types)
        slowdown = rng.choice([1.0, 1.5, 2.0, 3.0, np.inf], types * 3)
        if np.isinf(slowdown).all():
            continue
        job = add(records.told, 0.0, int(rng.integers(1, 6)), 1.0, [1.0] * types)
        records.enter(job, 0.0, "m", slowdown)
        records.kind[job] = last = int(rng.integers(types))
        room = [int(rng.integers(0, 9)) for _ in range(types * 3)]
        size = ClusterSize(4, 8, 16, (16,) * types)
        waiting = WaitingJobs(np.array([job]), records, book, size, room)
        choices = [
            (slowdown[3 * kind + tier], tier, kind != last, kind)
            for kind in range(types)
            for tier in range(3)
            if records.told.scale[job] <= room[3 * kind + tier]
            and any(np.isfinite(slowdown[3 * kind : 3 * kind + 3]))
        ]
        served = first_served(InOrder(ByArrival(), NoWait()), 0.0, waiting)
        if not choices:
            assert served is None
            continue
        assert served is not None
        assert served.kind == min(choices)[-1]
        tiers = [tier for _, tier, _, kind in choices if kind == served.kind]
        assert (served.tightest, served.widest) == (min(tiers), max(tiers))


def test_no_gpu_is_held_twice_and_a_state_goes_on_as_it_was() -> None:
    rng = np.random.default_rng(1)
    scheduler = get_scheduler("dally", placement="random")
    mechanism = Alone(scheduler, TYPES, seed=2)
    for step in range(60):
        now_s, speed = 900.0 * step, rng.choice([0.0, 0.5, 1.0, 2.0], 3)
        gpus = int(rng.integers(1, 9))
        if speed.any():
            mechanism.arrive(
                now_s, scale_factor=gpus, job_type="m", ideal_s=1e4, speed=speed.tolist()
            )
        for job in sorted(mechanism.held):
            ends = rng.random()
            mechanism.ran(np.array([job]), np.array([300.0]), np.array([400.0]))
            if ends < 0.1:
                mechanism.complete(job)
            elif ends < 0.4:
                mechanism.release(job, now_s)
        leases = mechanism.offer(now_s)
        for pool in mechanism.holdings.pools:
            assert (pool.free >= 0).all()
        used = np.zeros(3)
        for kind, devices in mechanism.placer.held.values():
            used[kind] += len(devices)
        free = np.array([pool.free.sum() for pool in mechanism.holdings.pools])
        np.testing.assert_array_equal(used + free, TYPES.counts)
        for lease in leases:
            assert np.isfinite(mechanism.jobs.type_slowdown(np.array([lease.job]))[0, lease.kind])


def test_a_gang_larger_than_any_type_on_which_it_runs_is_refused() -> None:
    mechanism = Alone(get_scheduler("dally"), TYPES)
    with pytest.raises(InputError, match="no type on which it runs has so many"):
        mechanism.arrive(0.0, scale_factor=9, job_type="m", ideal_s=1.0, speed=[1.0, 0.0, 1.0])
    assert mechanism.arrive(0.0, scale_factor=9, job_type="m", ideal_s=1.0, speed=[1, 1, 1]) == 0
    (lease,) = mechanism.offer(1e9)
    assert lease.kind == 1


@pytest.mark.parametrize("on", ["small", "large"])
def test_machines_that_a_gang_cannot_use_leave_it_no_timer(on: str) -> None:
    """Larger than the machines of its only type it takes two of them at once, as by itself."""
    counts, sizes = {"small": 8, "large": 32}, {"small": 2, "large": 8}
    both = Cluster(counts, sizes, machines_per_rack=4)
    alone = Cluster({on: counts[on]}, sizes[on], machines_per_rack=4)
    waits = []
    for cluster in (both, alone):
        mechanism = Alone(get_scheduler("dally"), cluster)
        speed = [float(name == on) for name in cluster.accelerators]
        for _ in range(2):
            mechanism.arrive(0.0, scale_factor=4, job_type="m", ideal_s=1.0, speed=speed)
        waits.append([len(mechanism.offer(now_s)) for now_s in (0.0, 1.0)])
    assert waits[0] == waits[1] == [2, 0]
