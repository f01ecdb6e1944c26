from __future__ import annotations

import numpy as np
import pytest

from apportion import Cluster, InputError
from apportion.mechanism.configurations import GangOptions, pack
from apportion.mechanism.devices import Devices


def devices_of(gpus: int, per_machine: int = 4) -> Devices:
    return Devices.of(Cluster({"v100": gpus}, gpus_per_machine=per_machine))


def machines(devices: Devices, gang: int) -> dict[int, int]:
    kind, held = devices.held[gang]
    numbers = [devices.pools[kind].machine_of[device] for device in held]
    return {machine: numbers.count(machine) for machine in sorted(set(numbers))}


def test_options_of_both_kinds() -> None:
    pools = devices_of(12).pools
    every = GangOptions.of(pools)
    assert every.gpus.tolist() == list(range(1, 13))
    assert every.nodes.tolist() == [1] * 4 + [2] * 4 + [3] * 4
    whole = GangOptions.of(pools, "whole_nodes")
    assert whole.gpus.tolist() == [1, 2, 4, 8, 12]
    assert whole.nodes.tolist() == [1, 1, 1, 2, 3]
    with pytest.raises(InputError, match="gang_sizes"):
        GangOptions.of(pools, "some")


def test_three_types_of_64_gpus_have_the_19_options_of_sia() -> None:
    cluster = Devices.of(Cluster({"t4": 24}, gpus_per_machine=4)).pools
    rtx = Devices.of(Cluster({"rtx": 24, "a100": 16}, gpus_per_machine=8)).pools
    assert GangOptions.of([*cluster, *rtx], "whole_nodes").count == 19


def test_best_fit_and_whole_machines_by_hand() -> None:
    devices = devices_of(12)
    devices.hold(0, 0, [0, 1, 2])  # machine 0 has one left
    devices.hold(1, 0, [4, 5])  # machine 1 has two left
    assert pack(devices, {2: (0, 5), 3: (0, 1)}) == []
    assert machines(devices, 3) == {0: 1}
    assert machines(devices, 2) == {1: 1, 2: 4}


def test_who_does_not_fit_is_declined_and_who_stays_stays() -> None:
    devices = devices_of(8)
    devices.hold(0, 0, [0, 5])
    assert pack(devices, {1: (0, 7), 2: (0, 2)}) == [1]
    assert devices.held[0] == (0, [0, 5])


def test_small_gangs_make_room_for_a_whole_machine() -> None:
    devices = devices_of(8)
    devices.hold(0, 0, [0, 1])
    devices.hold(1, 0, [4])
    assert pack(devices, {2: (0, 4)}, whole_nodes=True) == []
    assert machines(devices, 2) == {1: 4}
    assert devices.held[0] == (0, [0, 1])  # the fuller machine stays as it is
    assert machines(devices, 1) == {0: 1}


def test_whole_gangs_of_random_instances_always_fit_and_share_no_machine() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        count = int(rng.integers(1, 5))
        devices = devices_of(4 * count)
        sizes = GangOptions.of(devices.pools, "whole_nodes").gpus
        wanted, left = {}, 4 * count
        for gang in range(12):
            gpus = int(rng.choice(sizes))
            if gpus <= left:
                wanted[gang], left = (0, gpus), left - gpus
        # Half of them come first and some of these go, so that what is free is scattered.
        first = {gang: wanted[gang] for gang in list(wanted)[::2]}
        assert pack(devices, first, whole_nodes=True) == []
        gone = [gang for gang in first if rng.random() < 0.5]
        devices.release(gone)
        rest = {gang: own for gang, own in wanted.items() if gang not in devices.held}
        assert pack(devices, rest, whole_nodes=True) == []
        assert {gang: len(held) for gang, (_, held) in devices.held.items()} == {
            gang: gpus for gang, (_, gpus) in wanted.items()
        }
        taken = [device for _, held in devices.held.values() for device in held]
        assert len(taken) == len(set(taken))
        for gang, (_, gpus) in wanted.items():
            spread = machines(devices, gang)
            assert len(spread) == max(1, gpus // 4)
            assert gpus < 4 or set(spread.values()) == {4}


def test_any_gangs_of_random_instances_fit_as_long_as_there_are_gpus() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        devices = devices_of(int(rng.integers(2, 25)), int(rng.integers(1, 7)))
        total = len(devices.pools[0].machine_of)
        parts = rng.multinomial(total, np.ones(5) / 5)
        wanted = {gang: (0, int(gpus)) for gang, gpus in enumerate(parts) if gpus}
        assert pack(devices, wanted) == []
        assert sorted(d for _, held in devices.held.values() for d in held) == list(range(total))
