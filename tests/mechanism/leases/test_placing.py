"""Placements against all that there are, on clusters that are small enough to try them all."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import sampled

from apportion.cluster import Cluster
from apportion.mechanism.devices import Devices
from apportion.mechanism.machines import MachinePool
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import Gang
from apportion.mechanism.placements.built_in import BUILT_IN
from apportion.mechanism.placements.by_speed import by_tier
from apportion.mechanism.placements.counts import evenly_over, fewest_places
from apportion.mechanism.scheduler import can_hold
from apportion.sim.network import get_network
from apportion.sim.network.model import pace_of, placings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from apportion.mechanism.placements.by_speed import Pace
    from apportion.mechanism.scheduler import Placement

MODELS = ("VGG11", "AlexNet", "MobileNetV3", "ResNet18", "ResNet50", "BERT-large")
ONE_RACK = Cluster.of_racks(1, machines_per_rack=4, gpus_per_machine=8)
TWO_RACKS = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)


def all_placements(free: NDArray[np.int64], gpus: int) -> Iterator[Placement]:
    """Every way to take so many of the free GPUs."""
    places = list(np.ndindex(*free.shape))
    for parts in product(*(range(int(free[place]) + 1) for place in places)):
        if sum(parts) == gpus:
            taken = zip(places, parts, strict=True)
            yield tuple((rack, machine, part) for (rack, machine), part in taken if part)


def pool_of(free: NDArray[np.int64]) -> MachinePool:
    """Machines of 4 GPUs, or of 8, of which so many are free."""
    size = 4 if free.max() <= 4 else 8
    pool = MachinePool([size] * free.size, free.shape[1])
    for machine, left in enumerate(free.ravel().tolist()):
        pool.claim(pool.free_on(machine)[: size - left])
    return pool


def numbers(free: NDArray[np.int64], placement: Placement) -> list[int]:
    return pool_of(free).lowest(placement)


def chosen(free: NDArray[np.int64], pace: Pace, gang: Gang, name: str = "best_fit") -> Placement:
    """What a gang gets where so many GPUs of each machine are free."""
    pool = pool_of(free)
    devices = Placer(Devices([pool], ["gpu"]), name, pace=pace).choose(gang)
    assert devices is not None
    return pool.placement(devices)


def shape_of(placement: Placement) -> list[list[int]]:
    racks: dict[int, list[int]] = {}
    for rack, _, part in placement:
        racks.setdefault(rack, []).append(part)
    return sorted(sorted(parts) for parts in racks.values())


# What the ways that are tried may lose in a crowd against all that there are: nothing by default.
# Elsewhere they leave out gangs spread unevenly over racks, or over machines not all alike: of all
# 30,000 crowds, gangs and models here, that of Table I has one 29.2 % slower than the best.
# Alone, only the model of Table I has uneven shapes in one rack that are faster than even ones.
ALONE = {"none": 0.0, "table1": 0.0, "alpha_beta": 0.0, "table1_model": 0.02}
LOSS = {"none": 0.0, "table1": 0.0, "alpha_beta": 2e-3, "table1_model": 0.293}


@pytest.mark.parametrize("network", sampled(LOSS, 2))
@pytest.mark.parametrize("cluster", [ONE_RACK, TWO_RACKS], ids=["one rack", "two racks"])
def test_a_gang_alone_has_the_best_of_all_placements(network: str, cluster: Cluster) -> None:
    placing = placings_of(cluster, get_network(network, cluster=cluster))[0]
    whole = np.array(cluster.racks("gpu"))
    for gpus in range(1, cluster.total_gpus + 1):
        every = {str(shape_of(found)): found for found in all_placements(whole, gpus)}
        for model in MODELS:
            best = min(placing.worth(model, placement)[0] for placement in every.values())
            assert best <= placing.least_worth(model, gpus)[0] <= best * (1 + ALONE[network])


@pytest.mark.thorough
@settings(max_examples=150, deadline=None)
@given(
    free=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    gpus=st.integers(1, 16),
    model=st.sampled_from(MODELS),
    network=st.sampled_from(sorted(LOSS)),
)
def test_a_gang_in_a_crowd_has_the_best_of_what_is_free(
    free: list[int], gpus: int, model: str, network: str
) -> None:
    model_of = get_network(network, cluster=TWO_RACKS)
    placing, pace = placings_of(TWO_RACKS, model_of)[0], pace_of(model_of)
    table = np.array(free).reshape(2, 2)
    if table.sum() < gpus:
        return
    best = min(placing.worth(model, found) for found in all_placements(table, gpus))
    gang = Gang(0, gpus, model=model, tiers=(2, 2))
    found = chosen(table, pace, gang)
    assert can_hold(table, found)
    assert sum(part for _, _, part in found) == gpus
    assert placing.worth(model, found)[0] <= best[0] * (1 + LOSS[network])
    # What it had it keeps, unless there is better.
    for name in BUILT_IN:
        before = next(all_placements(table, gpus))
        kept = chosen(table, pace, gang._replace(before=numbers(table, before)), name)
        assert kept == before or placing.worth(model, kept) < placing.worth(model, before)
        assert placing.worth(model, kept)[0] <= best[0] * (1 + LOSS[network])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 80), st.integers(1, 9), st.integers(0, 2)), max_size=12))
def test_what_was_found_before_is_what_would_be_found(asked: list[tuple[int, int, int]]) -> None:
    model_of = get_network("table1", cluster=TWO_RACKS)
    remembers = placings_of(TWO_RACKS, model_of)[0]
    before = ((0, 0, 1), (1, 0, 1))
    for crowd, gpus, tier in [*asked, *asked]:
        free = np.array(np.unravel_index(crowd, (3, 3, 3, 3)), dtype=np.int64).reshape(2, 2)
        free[:, 0] += 1
        fresh = placings_of(TWO_RACKS, model_of)[0]
        for model in ("VGG11", "ResNet18"):
            for one, other in (
                (remembers.fastest, fresh.fastest),
                (partial(remembers.better, before=before), partial(fresh.better, before=before)),
            ):
                assert one(free, model, gpus, tier) == other(free, model, gpus, tier)
        free[:] = 0  # what is remembered does not hang on the array that was asked with


def test_without_a_network_gangs_are_packed_as_best_fit_does() -> None:
    free = np.array([[5, 6, 2, 3]])
    assert chosen(free, by_tier, Gang(0, 9, tiers=(1, 1))) == ((0, 1, 6), (0, 3, 3))
    assert chosen(free, by_tier, Gang(0, 5, tiers=(0, 2))) == ((0, 0, 5),)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(1, 5), st.integers(1, 20))
def test_gpus_are_shared_as_evenly_as_places_allow(free: list[int], places: int, gpus: int) -> None:
    shares = evenly_over(free, places, gpus)
    every = [
        parts
        for parts in product(*(range(most + 1) for most in free))
        if sum(parts) == gpus and sum(part > 0 for part in parts) == places
    ]
    if shares is None:
        assert not every
        return
    parts = [part for part in shares.values() if part]
    assert (sum(parts), len(parts)) == (gpus, places)
    assert all(0 < part <= free[place] for place, part in shares.items())

    def spread(found: list[int]) -> int:
        return max(found) - min(found)

    least = min(spread([part for part in one if part]) for one in every)
    assert spread(parts) <= max(least, 1)
    # The fewest places that hold so many.
    fewest = min(sum(part > 0 for part in one) for one in every)
    if sum(free) >= gpus:
        assert fewest_places(np.array(free), gpus) <= fewest
