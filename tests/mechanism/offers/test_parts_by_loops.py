"""The small parts of offers against loops and lists: ends, renewals, instants, timers."""

from __future__ import annotations

import math
from statistics import fmean, pstdev, stdev

import numpy as np
import pytest

from apportion.mechanism.offers import AutoTunedTimers
from apportion.mechanism.offers.holders import End, Ends, next_tick, whole_ticks
from apportion.mechanism.offers.keeping import Renewals
from apportion.mechanism.offers.timer_book import TimerBook
from apportion.mechanism.offers.waiting import on_tick
from apportion.mechanisms.settings import TICK_S

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

    book = TimerBook(timers, LEASE_S, gpus_per_machine=4, gpus_per_rack=8, gpus=12)
    waits, now_s = dict[tuple[int, int], list[tuple[float, float]]](), 0.0
    for _ in range(60):
        now_s += float(rng.uniform(0, 30))
        tier, gpus = int(rng.integers(3)), int(rng.choice([1, 4, 6, 12]))
        waited_s = float(rng.choice([0.0, 99.0, 100.0, rng.uniform(0, 500)]))
        book.record(tier, gpus, now_s, waited_s)
        if tier < 2 and (waited_s >= LEASE_S or not timers.drops_short_waits):
            known = [*waits.get((tier, gpus), []), (now_s, waited_s)]
            waits[tier, gpus] = [each for each in known if each[0] >= now_s - timers.history_s]
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
