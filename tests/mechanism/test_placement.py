from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster import Cluster
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements.built_in import BUILT_IN


def machines_of(placer: Placer, gang: int) -> list[int]:
    kind, devices = placer.held[gang]
    return sorted({placer.pools[kind].machine_of[device] for device in devices})


def test_first_fit_splits_what_consolidation_keeps_together() -> None:
    cluster = Cluster({"a100": 8}, gpus_per_machine=4)
    placer = Placer(cluster, "first_fit")
    placer.place([0, 1], [0, 0], [1, 4])
    assert machines_of(placer, 1) == [0, 1]
    assert placer.held[1][1] == [1, 2, 3, 4]


@pytest.mark.parametrize("strategy", list(BUILT_IN))
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_no_device_is_held_twice_and_none_is_lost(data: st.DataObject, strategy: str) -> None:
    cluster = Cluster({"v100": 11, "k80": 6}, gpus_per_machine=4)
    placer = Placer(cluster, strategy, seed=1)
    running: dict[int, tuple[int, int]] = {}
    for gang in range(data.draw(st.integers(1, 25))):
        free = [11, 6]
        for kind, gpus in running.values():
            free[kind] -= gpus
        kind = data.draw(st.integers(0, 1))
        if free[kind] and data.draw(st.booleans()):
            running[gang] = (kind, data.draw(st.integers(1, free[kind])))
            placer.place([gang], [kind], [running[gang][1]])
        elif running:
            gone = data.draw(st.sampled_from(sorted(running)))
            placer.release([gone])
            del running[gone]
        for kind, total in enumerate((11, 6)):
            held = [d for k, devices in placer.held.values() if k == kind for d in devices]
            assert sorted([*held, *placer.pools[kind].free_devices]) == list(range(total))
    assert {g: (k, len(d)) for g, (k, d) in placer.held.items()} == running


def test_random_placement_repeats_with_its_seed() -> None:
    cluster = Cluster({"v100": 16})
    one, two = Placer(cluster, "random", seed=5), Placer(cluster, "random", seed=5)
    for placer in (one, two):
        placer.place([0, 1], [0, 0], [3, 4])
    assert one.held == two.held
    assert Placer(cluster, "random", seed=6).held != one.held


@pytest.mark.parametrize("strategy", list(BUILT_IN))
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_split_gangs_are_those_with_devices_in_several_machines(
    data: st.DataObject, strategy: str
) -> None:
    placer = Placer(Cluster({"v100": 14, "k80": 9}, gpus_per_machine=4), strategy)
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    kinds = [k % 2 if sum(sizes[:2]) <= 9 and k < 2 else 0 for k in range(len(sizes))]
    if sum(size for size, kind in zip(sizes, kinds, strict=True) if kind == 0) > 14:
        return
    gangs = list(range(10, 10 + len(sizes)))
    placer.place(gangs, kinds, sizes)
    placer.devices.hand_over(gangs[0], 99)
    if len(gangs) > 1:
        placer.release([gangs.pop()])
    there = np.array([99, *gangs[1:]])
    expected = [len(machines_of(placer, gang)) > 1 for gang in there.tolist()]
    assert placer.is_split(there).tolist() == expected
