from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.mechanism.offers import tier_of
from apportion.mechanism.offers.holdings import Holdings
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements.counts import (
    BestFit,
    EmptiestFirst,
    Fit,
    LowestFirst,
    RandomDraw,
    choose,
)
from apportion.mechanism.scheduler import MACHINE, NETWORK, RACK

FITS: dict[str, Fit] = {
    "best_fit": BestFit(),
    "first_fit": LowestFirst(),
    "emptiest": EmptiestFirst(),
    "random": RandomDraw(np.random.default_rng(0)),
}


def of(racks: int, machines: int, gpus: int) -> Holdings:
    cluster = Cluster.of_racks(racks, machines_per_rack=machines, gpus_per_machine=gpus)
    return Holdings(Placer(cluster, "best_fit"))


def racks_with(free: list[list[int]]) -> Holdings:
    racks = of(len(free), len(free[0]), 8)
    for rack, machines in enumerate(free):
        for machine, left in enumerate(machines):
            racks.hold(-1 - 10 * rack - machine, 0, ((rack, machine, 8 - left),))
    return racks


@pytest.mark.parametrize(
    ("fit", "tier", "gpus", "expected"),
    [
        ("best_fit", MACHINE, 2, ((1, 1, 2),)),
        ("first_fit", MACHINE, 2, ((0, 0, 2),)),
        ("emptiest", MACHINE, 2, ((0, 1, 2),)),
        ("best_fit", RACK, 8, ((1, 0, 6), (1, 1, 2))),
        ("first_fit", RACK, 8, ((0, 0, 3), (0, 1, 5))),
        ("emptiest", RACK, 8, ((0, 0, 1), (0, 1, 7))),
        ("best_fit", RACK, 4, ((1, 0, 4),)),
        ("best_fit", NETWORK, 12, ((0, 0, 3), (0, 1, 7), (1, 1, 2))),
        ("first_fit", NETWORK, 12, ((0, 0, 3), (0, 1, 7), (1, 0, 2))),
        ("emptiest", NETWORK, 12, ((0, 0, 3), (0, 1, 7), (1, 0, 2))),
    ],
)
def test_where_each_fit_places_a_gang(
    fit: str, tier: int, gpus: int, expected: tuple[tuple[int, int, int], ...]
) -> None:
    racks = racks_with([[3, 7], [6, 2]])
    assert choose(racks.pools[0].free, gpus, tier, FITS[fit]) == expected


def test_best_fit_in_a_rack_uses_the_fewest_machines_and_the_fullest_for_the_rest() -> None:
    racks = racks_with([[5, 6, 2, 3]])
    assert choose(racks.pools[0].free, 9, RACK, FITS["best_fit"]) == ((0, 1, 6), (0, 3, 3))


def test_random_gpus_are_every_set_alike() -> None:
    # 4 free GPUs, 1 + 3: a pair has one of the first machine in 3 of 6 sets.
    free = np.array([[1], [3]])
    split = Counter(len(choose(free, 2, NETWORK, FITS["random"])) for _ in range(1000))
    assert split[2] / 1000 == pytest.approx(0.5, abs=0.05)


def test_tiers_follow_from_placements() -> None:
    assert tier_of(((1, 4, 8),)) == MACHINE
    assert tier_of(((1, 4, 2), (1, 5, 2))) == RACK
    assert tier_of(((0, 4, 2), (1, 4, 2))) == NETWORK


def test_gpus_are_held_once_and_given_back_once() -> None:
    racks = of(1, 2, 2)
    racks.hold(0, 0, ((0, 0, 2),))
    with pytest.raises(InputError, match="already holds"):
        racks.hold(0, 0, ((0, 1, 1),))
    with pytest.raises(InputError, match="not all free"):
        racks.hold(1, 0, ((0, 0, 1),))
    racks.give_back(0)
    with pytest.raises(InputError, match="holds no GPUs"):
        racks.give_back(0)


@settings(max_examples=60, deadline=None)
@given(
    fit=st.sampled_from(sorted(FITS)),
    moves=st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 20), st.integers(0, 2)), max_size=40
    ),
)
def test_no_gpu_is_held_twice_and_a_gang_lies_within_its_tier(
    fit: str, moves: list[tuple[int, int, int]]
) -> None:
    racks, choice = of(2, 3, 4), FITS[fit]
    (pool,) = racks.pools
    for job, gpus, tier in moves:
        if job in racks.held:
            racks.give_back(job)
        elif gpus <= pool.room[tier]:
            placement = choose(pool.free, gpus, tier, choice)
            racks.hold(job, 0, placement)
            assert tier_of(placement) <= tier
            assert sum(part for _, _, part in placement) == gpus
        used = np.zeros((2, 3), dtype=int)
        for placement in racks.held.values():
            for rack, machine, part in placement:
                used[rack, machine] += part
        assert (used + pool.free == 4).all()
        assert (pool.free >= 0).all()
        assert pool.room == (pool.free.max(), pool.free.sum(axis=1).max(), pool.free.sum())
        if job in racks.held:
            without = of(2, 3, 4)
            for other, placement in racks.held.items():
                if other != job:
                    without.hold(other, 0, placement)
            assert (racks.free_with([job])[0] == without.pools[0].free).all()
