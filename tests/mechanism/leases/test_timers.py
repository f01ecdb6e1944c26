from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from apportion.mechanism.leases.timers import AutoTunedTimers, DelayTimers
from apportion.mechanism.scheduler import MACHINE, RACK

if TYPE_CHECKING:
    from apportion.mechanism.leases.timers import Timers

HOUR_S = 3600.0


def book_of(timers: Timers) -> DelayTimers:
    return DelayTimers(timers, HOUR_S, machine_gpus=8, rack_gpus=64)


def test_auto_tuned_timers_by_hand() -> None:
    book = book_of(AutoTunedTimers(history_s=100.0, initial=(50.0, 70.0)))
    assert book.of_size(4) == (50.0, 70.0)
    book.record(MACHINE, 4, 0.0, 10.0)
    assert book.of_size(4) == (10.0, 70.0)
    book.record(MACHINE, 4, 60.0, 20.0)
    # Mean 15, squared deviations 25 + 25 over n - 1 = 1.
    assert book.of_size(4)[0] == pytest.approx(15 + 2 * math.sqrt(50))
    book.record(MACHINE, 4, 100.0, 30.0)
    assert book.of_size(4)[0] == pytest.approx(20 + 2 * 10)
    book.record(MACHINE, 4, 160.5, 40.0)
    assert book.waits(MACHINE, 4).seconds.tolist() == [30.0, 40.0]
    assert book.of_size(4)[0] == pytest.approx(35 + 2 * math.sqrt(50))
    assert book.of_size(5) == (50.0, 70.0)


def test_a_machine_timer_longer_than_the_rack_timer_lifts_it_where_there_is_a_machine() -> None:
    book = book_of(AutoTunedTimers())
    for size in (4, 16):
        book.record(RACK, size, 0.0, 100.0)
    assert [book.of_size(size)[1] for size in (4, 16, 65)] == [43200.0, 100.0, 0.0]


def test_the_deviation_of_the_authors_simulator() -> None:
    population = book_of(AutoTunedTimers(population_deviation=True))
    for wait_s in (10.0, 20.0):
        population.record(MACHINE, 4, 0.0, wait_s)
    assert population.of_size(4)[0] == pytest.approx(15 + 2 * 5)


def test_waits_of_less_than_a_lease_can_be_left_out() -> None:
    long = book_of(AutoTunedTimers(drops_short_waits=True))
    long.record(MACHINE, 4, 0.0, 3599.0)
    assert long.waits(MACHINE, 4).size == 0
    long.record(MACHINE, 4, 0.0, 3600.0)
    assert long.waits(MACHINE, 4).seconds.tolist() == [3600.0]


def test_bounded_timers_are_whole_leases_within_the_history() -> None:
    book = book_of(AutoTunedTimers(history_s=48 * HOUR_S, bounded=True))
    assert [each / HOUR_S for each in book.of_size(4)] == [6.0, 12.0]
    book.record(MACHINE, 4, 0.0, 7.2 * HOUR_S)
    book.record(RACK, 4, 0.0, 20.9 * HOUR_S)
    assert [each / HOUR_S for each in book.of_size(4)] == [8.0, 21.0]
    book.record(MACHINE, 4, 0.0, 90 * HOUR_S)
    book.record(RACK, 4, 0.0, 90 * HOUR_S)
    assert [each / HOUR_S for each in book.of_size(4)] == [39.0, 48.0]
