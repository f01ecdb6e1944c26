from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from tests.mechanism.offers.without_a_run import Alone

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.mechanism.deciders import get_scheduler
from apportion.mechanism.offers import AutoTunedTimers, ManualTimers
from apportion.mechanism.offers.timer_book import TimerBook
from apportion.mechanism.scheduler import MACHINE, RACK

if TYPE_CHECKING:
    from apportion.mechanism.offers.timers import Timers

HOUR_S = 3600.0


def book_of(timers: Timers) -> TimerBook:
    return TimerBook(timers, HOUR_S, gpus_per_machine=8, gpus_per_rack=64, gpus=128)


def test_the_rack_timer_of_a_large_gang_can_count_from_the_machine_timer_on() -> None:
    book = book_of(ManualTimers(rack_timer_when_oversize="less_machine_timer"))
    assert book.rack_s[[8, 16, 65]].tolist() == [86400.0, 43200.0, 0.0]
    endless = ManualTimers(math.inf, math.inf, rack_timer_when_oversize="less_machine_timer")
    assert book_of(endless).rack_s[16] == math.inf


def test_auto_tuned_timers_by_hand() -> None:
    book = book_of(AutoTunedTimers(history_s=100.0, initial=(50.0, 70.0), nested=False))
    assert (book.machine_s[4], book.rack_s[4]) == (50.0, 70.0)
    book.record(MACHINE, 4, 0.0, 10.0)
    assert (book.machine_s[4], book.rack_s[4]) == (10.0, 70.0)
    book.record(MACHINE, 4, 60.0, 20.0)
    # Mean 15, squared deviations 25 + 25 over n - 1 = 1.
    assert book.machine_s[4] == pytest.approx(15 + 2 * math.sqrt(50))
    book.record(MACHINE, 4, 100.0, 30.0)
    assert book.machine_s[4] == pytest.approx(20 + 2 * 10)
    book.record(MACHINE, 4, 160.5, 40.0)
    assert book.waits_s(MACHINE, 4).tolist() == [30.0, 40.0]
    assert book.machine_s[4] == pytest.approx(35 + 2 * math.sqrt(50))
    assert (book.machine_s[5], book.rack_s[4]) == (50.0, 70.0)


def test_a_machine_timer_longer_than_the_rack_timer_lifts_it_where_there_is_a_machine() -> None:
    book = book_of(AutoTunedTimers())
    for size in (4, 16):
        book.record(RACK, size, 0.0, 100.0)
    assert book.rack_s[[4, 16]].tolist() == [43200.0, 100.0]
    less = book_of(AutoTunedTimers(rack_timer_when_oversize="less_machine_timer"))
    assert less.rack_s[16] == 43200.0
    less.record(RACK, 16, 0.0, 50000.0)
    assert less.rack_s[16] == 50000.0


def test_the_deviation_of_the_authors_simulator() -> None:
    population = book_of(AutoTunedTimers(population_deviation=True))
    for wait_s in (10.0, 20.0):
        population.record(MACHINE, 4, 0.0, wait_s)
    assert population.machine_s[4] == pytest.approx(15 + 2 * 5)


def test_waits_of_less_than_a_lease_can_be_left_out() -> None:
    long = book_of(AutoTunedTimers(drops_short_waits=True))
    long.record(MACHINE, 4, 0.0, 3599.0)
    assert long.waits_s(MACHINE, 4).size == 0
    long.record(MACHINE, 4, 0.0, 3600.0)
    assert long.waits_s(MACHINE, 4).tolist() == [3600.0]


def test_bounded_timers_are_whole_leases_within_the_history() -> None:
    book = book_of(AutoTunedTimers(history_s=48 * HOUR_S, bounded=True))
    assert (book.machine_s[4] / HOUR_S, book.rack_s[4] / HOUR_S) == (6.0, 12.0)
    book.record(MACHINE, 4, 0.0, 7.2 * HOUR_S)
    book.record(RACK, 4, 0.0, 20.9 * HOUR_S)
    assert (book.machine_s[4] / HOUR_S, book.rack_s[4] / HOUR_S) == (8.0, 21.0)
    book.record(MACHINE, 4, 0.0, 90 * HOUR_S)
    book.record(RACK, 4, 0.0, 90 * HOUR_S)
    assert (book.machine_s[4] / HOUR_S, book.rack_s[4] / HOUR_S) == (39.0, 48.0)


def test_a_history_meant_for_a_smaller_cluster_is_shorter_on_a_larger_one() -> None:
    dally = get_scheduler("dally", history_s=48 * HOUR_S, history_gpus=128)
    for racks, hours in ((1, 96), (2, 48), (8, 12)):
        timers = Alone(dally, Cluster.of_racks(racks)).scheduler.timers
        assert timers.history_s == hours * HOUR_S
    assert (
        Alone(get_scheduler("dally"), Cluster.of_racks(8)).scheduler.timers.history_s == 48 * HOUR_S
    )
    with pytest.raises(InputError, match="history_gpus is 0"):
        get_scheduler("dally", history_gpus=0)
