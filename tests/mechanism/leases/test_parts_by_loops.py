"""Delay timers against lists of waits."""

from __future__ import annotations

from statistics import fmean, pstdev, stdev

import numpy as np
import pytest

from apportion.mechanism.leases.timers import AutoTunedTimers, DelayTimers

LEASE_S = 100.0


@pytest.mark.parametrize("seed", range(20))
def test_timers_follow_from_the_waits_that_are_remembered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    timers = AutoTunedTimers(
        history_s=float(rng.choice([150.0, 900.0])),
        initial=(50.0, 70.0),
        population_deviation=bool(rng.random() < 0.5),
        drops_short_waits=bool(rng.random() < 0.5),
    )

    book = DelayTimers(timers, LEASE_S, machine_gpus=4, rack_gpus=8)
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
            assert book.waits(tier, gpus).seconds.tolist() == pytest.approx(had)
            if had:
                deviation = pstdev if timers.population_deviation else stdev
                spread = deviation(had) if len(had) > 1 else 0.0
                typical[tier] = fmean(had) + 2 * spread
        machine_s, rack_s = typical
        if gpus > 4:
            machine_s = 0.0
        rack_s = max(rack_s, machine_s)
        assert book.of_size(gpus)[0] == pytest.approx(machine_s)
        assert book.of_size(gpus)[1] == pytest.approx(0.0 if gpus > 8 else rack_s)
