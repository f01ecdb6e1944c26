"""The small parts of offers against loops and lists: ends, renewals, timers, orders, patience."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from statistics import fmean, pstdev, stdev
from typing import TYPE_CHECKING

import numpy as np
import pytest

from apportion.mechanism.job_table import JobTable
from apportion.mechanism.offers import AutoTunedTimers, ManualTimers
from apportion.mechanism.offers.candidates import InOrder, Served, first_served
from apportion.mechanism.offers.holders import End, Ends, next_tick, whole_ticks
from apportion.mechanism.offers.keeping import Renewals
from apportion.mechanism.offers.leased_jobs import LeasedJobs
from apportion.mechanism.offers.rules import DelayScheduling, FullyConsolidated, NoWait
from apportion.mechanism.offers.timer_book import TimerBook
from apportion.mechanism.offers.waiting import ClusterSize, WaitingJobs, on_tick
from apportion.mechanism.orders import (
    ByArrival,
    DiscretizedLeastAttainedService,
    LeastAttainedService,
    MostSlowedFirst,
    RoundRobin,
    UnfairestFirst,
)
from apportion.mechanism.scheduler import Room
from apportion.mechanisms.settings import TICK_S

if TYPE_CHECKING:
    from apportion.mechanism.offers.rules import Rule
    from apportion.mechanism.orders import Order

LEASE_S = 100.0


@pytest.mark.parametrize("seed", range(20))
def test_ends_are_those_set_last(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ends, book, now_s = Ends(6), dict[int, tuple[float, End]](), 0.0
    for _ in range(40):
        job, move = int(rng.integers(6)), rng.random()
        if move < 0.5:
            kind = End(int(rng.integers(2)))
            book[job] = (now_s + float(rng.integers(0, 5)), kind)
            ends.put(*book[job], job)
        elif move < 0.65:
            ends.drop(job)
            book.pop(job, None)
        elif book:
            now_s = min(time_s for time_s, _ in book.values())
            for kind in End:
                due = sorted(job for job, end in book.items() if end == (now_s, kind))
                first = min(book.values(), default=None)
                assert ends.due(now_s, kind) == (first == (now_s, kind))
                assert ends.pop(now_s, kind) == (due if first == (now_s, kind) else [])
                if first == (now_s, kind):
                    book = {job: end for job, end in book.items() if job not in due}
        assert ends.next_s == min((time_s for time_s, _ in book.values()), default=np.inf)
        if rng.random() < 0.2:
            state = json.loads(json.dumps(ends.state()))
            ends = Ends(6)
            ends.restore(state)
            assert ends.state() == state


@pytest.mark.parametrize("seed", range(20))
def test_renewals_are_counted_as_by_a_clock(seed: int) -> None:
    rng = np.random.default_rng(seed)
    renewals = Renewals(float(rng.integers(0, 50)), float(rng.integers(1, 20)))
    now_s, history_s = float(rng.integers(0, 400)), float(rng.integers(1, 100))
    times, at_s = list[float](), renewals.first_s
    while at_s < now_s:
        times.append(at_s)
        at_s += renewals.cycle_s
    assert renewals.before(now_s) == len(times)
    assert [renewals.start_s(k) for k in range(len(times))] == times
    told = renewals.remembered(now_s, history_s)
    assert told == sorted(set(told))
    assert set(told) <= set(times)
    # Whatever waits were known before, timers that are told of these few end with the same waits.
    for older in ([], [(renewals.first_s - 5, 70.0), (renewals.first_s - 1, 80.0)]):
        after = []
        for which in (times, told):
            waits = list(older)
            for time_s in which:
                waits.append((time_s, 0.0))
                waits = [each for each in waits if each[0] >= time_s - history_s]
            after.append(waits)
        assert after[0] == after[1]


@pytest.mark.parametrize("time_s", [0.0, 1 / 3, 3600.1, 1e9 + 0.3, TICK_S / 2, math.pi * 1e6])
def test_instants_are_whole_ticks(time_s: float) -> None:
    for found in (whole_ticks(time_s), float(on_tick(np.array([time_s]))[0])):
        assert (found / TICK_S).is_integer()
        assert abs(found - time_s) <= TICK_S / 2
    following = next_tick(time_s)
    assert (following / TICK_S).is_integer()
    assert 0 <= following - time_s < TICK_S
    assert whole_ticks(following) == next_tick(following) == following
    assert next_tick(math.inf) == math.inf
    assert on_tick(np.array([np.inf])).tolist() == [np.inf]


@pytest.mark.parametrize("seed", range(20))
def test_timers_follow_from_the_waits_that_are_remembered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    timers = AutoTunedTimers(
        history_s=float(rng.choice([150.0, 900.0])),
        initial=(50.0, 70.0),
        nested=bool(rng.random() < 0.5),
        population_deviation=bool(rng.random() < 0.5),
        drops_short_waits=bool(rng.random() < 0.5),
    )

    def made() -> TimerBook:
        return TimerBook(timers, LEASE_S, gpus_per_machine=4, gpus_per_rack=8, gpus=12)

    book, waits, now_s = made(), dict[tuple[int, int], list[tuple[float, float]]](), 0.0
    for _ in range(60):
        now_s += float(rng.uniform(0, 30))
        tier, gpus = int(rng.integers(3)), int(rng.choice([1, 4, 6, 12]))
        waited_s = float(rng.choice([0.0, 99.0, 100.0, rng.uniform(0, 500)]))
        book.record(tier, gpus, now_s, waited_s)
        if tier < 2 and (waited_s >= LEASE_S or not timers.drops_short_waits):
            known = [*waits.get((tier, gpus), []), (now_s, waited_s)]
            waits[tier, gpus] = [each for each in known if each[0] >= now_s - timers.history_s]
        if rng.random() < 0.1:
            state = json.loads(json.dumps(book.state()))
            book = made()
            book.restore(state)
    for gpus in (1, 4, 6, 12):
        typical = list(timers.initial)
        for tier in (0, 1):
            had = [wait for _, wait in waits.get((tier, gpus), [])]
            assert book.waits_s(tier, gpus).tolist() == had
            if had:
                deviation = pstdev if timers.population_deviation else stdev
                spread = deviation(had) if len(had) > 1 else 0.0
                typical[tier] = fmean(had) + 2 * spread
        machine_s, rack_s = typical
        if gpus > 4:
            machine_s = 0.0
        elif timers.nested:
            rack_s = max(rack_s, machine_s)
        assert book.machine_s[gpus] == pytest.approx(machine_s)
        assert book.rack_s[gpus] == pytest.approx(0.0 if gpus > 8 else rack_s)


ORDERS: list[Order] = [
    *(ByArrival(), RoundRobin(), LeastAttainedService(), MostSlowedFirst(), UnfairestFirst()),
    DiscretizedLeastAttainedService((500.0, 900.0)),
]
RULES: list[Rule] = [NoWait(), FullyConsolidated(), DelayScheduling()]


def crowd(rng: np.random.Generator) -> WaitingJobs:
    """Jobs with a past, some of which wait, on 2 racks of 2 machines of 4 GPUs."""
    told = JobTable.empty(np.array([16.0]))
    records = LeasedJobs(told)
    for _ in range(int(rng.integers(1, 8))):
        gpus = int(rng.integers(1, 17))
        at_s, ideal_s = float(rng.integers(0, 100)), float(rng.integers(100, 1000))
        slowdown = [1.0 if gpus <= 4 else np.inf, 2.0 if gpus <= 8 else np.inf, 3.0]
        number = told.add(arrival_s=at_s, job_type="m", scale=gpus, total=ideal_s, speed=[1.0])
        records.enter(number, at_s, "m", slowdown)
    count = told.jobs
    records.compute_s[:] = rng.choice([0.0, 30.0, 60.0], count)
    records.run_s[:, 1] = records.compute_s * rng.choice([1.0, 1.5, 2.0], count)
    records.released_s[:] = told.arrival_s + rng.choice([0.0, 40.0], count)
    records.waiting[:] = rng.random(count) < 0.8
    for done in np.flatnonzero(~records.waiting & (rng.random(count) < 0.5)).tolist():
        told.complete(done)
    free = rng.integers(0, 5, (2, 2))
    room = Room(int(free.max()), int(free.sum(axis=1).max()), int(free.sum()))
    book = TimerBook(
        ManualTimers(60.0, 110.0), LEASE_S, gpus_per_machine=4, gpus_per_rack=8, gpus=16
    )
    job = np.flatnonzero(records.waiting)
    return WaitingJobs(job, records, book, ClusterSize(4, 8, 16), room)


def key_of(order: Order, waiting: WaitingJobs, job: int, now_s: float) -> float:
    """Whose turn it is, from the definitions of the papers."""
    known = waiting.records
    run_s, gpus = known.run_s[job].sum(), known.told.scale[job]
    if isinstance(order, MostSlowedFirst):
        return float(known.compute_s[job] / run_s) if run_s else 0.0
    if isinstance(order, LeastAttainedService):
        return float(run_s * gpus)
    if isinstance(order, DiscretizedLeastAttainedService):
        queue = sum(1 for limit in order.queue_limits if run_s * gpus >= limit)
        return queue * 1e6 + float(known.told.arrival_s[job])
    if isinstance(order, UnfairestFirst):
        active = known.told.active.size
        slow = min(known.slowdown[job])
        alone_s = known.told.total[job] * slow / min(1.0, 16 / active / gpus)
        left_s = (known.told.total[job] - known.compute_s[job]) * slow
        return -float((now_s - known.told.arrival_s[job] + left_s) / alone_s)
    return float(known.told.arrival_s[job]) if isinstance(order, ByArrival) else 0.0


def accepted(rule: Rule, waiting: WaitingJobs, job: int, now_s: float) -> list[int]:
    gpus = int(waiting.records.told.scale[job])
    tightest = 0 if gpus <= 4 else 1 if gpus <= 8 else 2
    waits = [0.0, 0.0, 0.0]
    if isinstance(rule, FullyConsolidated):
        waits = [0.0 if tier <= tightest else math.inf for tier in range(3)]
    elif isinstance(rule, DelayScheduling):
        waits = [0.0, 0.0 if tightest > 0 else 60.0, 0.0 if tightest > 1 else 110.0]
    waited_s = now_s - waiting.records.released_s[job]
    return [k for k in range(3) if waited_s >= waits[k] and gpus <= waiting.room[k]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
def test_the_first_in_order_to_accept_is_served(order: Order, rule: Rule) -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        waiting, now_s = crowd(rng), float(rng.choice([150.0, 200.0, 260.0]))
        known = waiting.records
        takers = [
            (
                round(key_of(order, waiting, job, now_s), 9),
                *(known.released_s[job], known.told.arrival_s[job], job),
            )
            for job in waiting.job.tolist()
            if accepted(rule, waiting, job, now_s)
        ]
        served = first_served(InOrder(order, rule), now_s, waiting)
        if not takers:
            assert served is None
            continue
        job = min(takers)[-1]
        tiers = accepted(rule, waiting, job, now_s)
        assert served == Served(job, tiers[0], tiers[-1])


def test_what_a_job_holds_it_may_keep_whatever_its_rule() -> None:
    rng = np.random.default_rng(1)
    waiting = crowd(rng)
    while waiting.job.size < 2:
        waiting = crowd(rng)
    waiting = replace(waiting, room=Room(0, 0, 0))
    assert first_served(InOrder(ByArrival(), NoWait()), 300.0, waiting) is None
    held = np.full(waiting.job.size, -1)
    held[1] = 2
    keeps = replace(waiting, held_option=held, room=Room(0, 0, 16))
    served = first_served(InOrder(ByArrival(), FullyConsolidated()), 300.0, keeps.at(np.array([1])))
    assert served == Served(int(waiting.job[1]), 2, 2)
