"""The GPUs of gangs under a decision of a round: what they had before, and ways to be spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from apportion.policies import solve_instance
from apportion.policies.dally_round import DallyRound
from apportion.sim.tiers.round_places import RoundPlaces, Taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.intp]
    Free = list[NDArray[np.int64]]


def drawn(seed: int) -> tuple[Free, Ints, dict[int, Taken]]:
    """Gangs that have all just given GPUs back beside some that were free, of two types."""
    rng = np.random.default_rng(seed)
    free = rng.integers(0, 2, (2, 2, 3))
    scale, before = rng.integers(1, 7, 6), {}
    for job, gpus in enumerate(scale.tolist()):
        kind, racks = int(rng.integers(2)), rng.permutation(2)[: rng.integers(1, 3)]
        gang: dict[tuple[int, int], int] = {}
        machines = rng.permutation(3)[: rng.integers(1, 3)]
        for _ in range(gpus):
            place = int(rng.choice(racks)), int(rng.choice(machines))
            gang[place] = gang.get(place, 0) + 1
            free[kind][place] += 1
        before[job] = Taken(kind, tuple((*at, part) for at, part in sorted(gang.items())))
    return list(free), scale, before


def asked(places: RoundPlaces, scale: Ints, current: Ints | None) -> Ints:
    columns = {
        "network_priority": np.zeros(scale.size),
        "waited_s": np.zeros(scale.size),
        "order": np.arange(float(scale.size)),
    }
    if current is not None:
        columns["current_option"] = current.astype(float)
    speed = np.tile([3.0, 2.0, 1.0, 2.5, 1.5, 0.5], (scale.size, 1))
    X = solve_instance(DallyRound(), places.problem(speed, scale, columns)).X
    return np.where(X.any(axis=1), X.argmax(axis=1), -1)


def fits(taken: list[Taken | None], free: Free) -> bool:
    left = np.array(free)
    for each in taken:
        if each is not None:
            for rack, machine, gpus in each.where:
                left[each.kind, rack, machine] -= gpus
    return bool((left >= 0).all())


@pytest.mark.thorough
def test_gangs_have_again_what_they_had_and_nobody_anything_twice() -> None:
    again = 0
    for seed in range(60):
        free, scale, before = drawn(seed)
        places = RoundPlaces.of(free)
        current = np.array([places.option_of(before[job]) for job in range(scale.size)])
        option = asked(places, scale, current)
        taken = places.devices(option, scale, before=before)
        assert fits(taken, free)
        for job, each in enumerate(taken):
            assert (each is None) == (option[job] < 0)
            if each is not None:
                assert sum(gpus for _, _, gpus in each.where) == scale[job]
                again += each == before[job]
                # As tight as the decision says, and in its place.
                assert places.tier[places.option_of(each)] <= places.tier[option[job]]
                assert each.kind == places.kind[option[job]]
        first = option[0]
        if first == current[0] and places.tier[first] == 0:
            assert taken[0] == before[0]
    assert again > 50


def test_a_gang_in_a_rack_leaves_a_machine_to_whom_it_was_given() -> None:
    """It had three GPUs of the machine that another gang has to have now."""
    places = RoundPlaces.of([np.array([[4, 2, 2]])])
    option, scale = np.array([3, 0]), np.array([4, 4])
    assert places.tier[option].tolist() == [1, 0]
    had = {0: Taken(0, ((0, 0, 3), (0, 1, 1)))}
    first, second = places.devices(option, scale, before=had)
    assert first == Taken(0, ((0, 1, 2), (0, 2, 2)))
    assert second == Taken(0, ((0, 0, 4),))
    spare = {0: Taken(0, ((0, 1, 2), (0, 2, 2)))}
    assert places.devices(option, scale, before=spare)[0] == spare[0]


def test_a_gang_over_the_network_leaves_a_rack_to_whom_it_was_given() -> None:
    places = RoundPlaces.of([np.array([[2, 2], [2, 2], [2, 2]])])
    option = np.array([int(np.flatnonzero(places.tier == 2)[0]), 6])
    assert (places.tier[option[1]], places.rack[option[1]]) == (1, 0)
    scale = np.array([4, 4])
    had = {0: Taken(0, ((0, 0, 1), (1, 0, 2), (2, 0, 1)))}
    first, second = places.devices(option, scale, before=had)
    assert first is not None
    assert all(rack != 0 for rack, _, _ in first.where)
    assert second == Taken(0, ((0, 0, 2), (0, 1, 2)))
    spare = {0: Taken(0, ((1, 0, 1), (1, 1, 1), (2, 0, 1), (2, 1, 1)))}
    assert places.devices(option, scale, before=spare)[0] == spare[0]
