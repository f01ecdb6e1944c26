from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.errors import InputError
from apportion.mechanism.devices import Devices
from apportion.mechanism.machines import MachinePool
from apportion.mechanism.placements import (
    PLACEMENTS,
    Gang,
    get_placement,
    least_workload_first,
    register,
)


def algorithm_1(
    gpus: int, kappa: float, servers: list[list[int]], room: set[int], load: list[float]
) -> list[int] | None:
    """Wang et al., Algorithm 1, as it is written, ties by number."""
    if len(room) < gpus:
        return None
    if gpus <= kappa:
        return sorted(room, key=lambda gpu: (load[gpu], gpu))[:gpus]
    chosen: list[int] = []
    for server in sorted(servers, key=lambda server: (sum(load[gpu] for gpu in server), server)):
        chosen += sorted(room & set(server), key=lambda gpu: (load[gpu], gpu))
    return chosen[:gpus]


def some_state(rng: np.random.Generator) -> tuple[Devices, list[list[int]]]:
    """GPUs of 16 GB of which gangs take some, with loads that are often equal."""
    sizes = rng.integers(1, 5, int(rng.integers(1, 6))).tolist()
    devices = Devices([MachinePool(sizes)], ["v100"], memory_gb={"v100": 16.0}, shared=True)
    total = sum(sizes)
    for gang in range(int(rng.integers(0, 12))):
        memory_gb = float(rng.choice([3, 5, 9]))
        free = devices.free_for(Gang(gang, 1, memory_gb=memory_gb)).free_devices
        size = int(rng.integers(1, total + 1))
        if len(free) >= size:
            on = rng.choice(free, size, replace=False).tolist()
            devices.hold(gang, 0, on, memory_gb, load=float(rng.integers(1, 4)) / 4)
    firsts = np.cumsum([0, *sizes])
    return devices, [list(range(a, b)) for a, b in itertools.pairwise(firsts)]


@pytest.mark.parametrize("seed", each_seed(25, 150))
def test_it_is_algorithm_1(seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices, servers = some_state(rng)
    gang = Gang(99, int(rng.integers(1, 9)), memory_gb=float(rng.choice([2, 4, 8])))
    room = set(devices.free_for(gang).free_devices)
    load = devices.loads(0).tolist()
    for name, kappa in (("lwf_1", 1), ("lwf_2", 2), ("lwf_4", 4), ("list_scheduling", math.inf)):
        expected = algorithm_1(gang.gpus, kappa, servers, room, load)
        assert get_placement(name).choose(gang, devices) == expected


def test_strict_servers_wait_where_others_spill() -> None:
    devices = Devices([MachinePool([4, 4, 4])], ["v100"], memory_gb={"v100": 16.0}, shared=True)
    devices.hold(0, 0, [0], 12.0, load=1.0)  # little to do, and no memory
    devices.hold(1, 0, [4, 8], 4.0, load=9.0)
    gang = Gang(2, 4, memory_gb=8.0)
    assert least_workload_first(1)().choose(gang, devices) == [1, 2, 3, 5]
    assert least_workload_first(1, strict_servers=True)().choose(gang, devices) is None
    assert least_workload_first(4, strict_servers=True)().choose(gang, devices) == [1, 2, 3, 5]


def test_loads_that_differ_by_rounding_are_equal() -> None:
    devices = Devices([MachinePool([1, 1])], ["v100"], memory_gb={"v100": 16.0}, shared=True)
    devices.hold(0, 0, [0], 4.0, load=0.1 + 0.2)
    devices.hold(1, 0, [1], 4.0, load=0.3)
    assert get_placement("lwf_1").choose(Gang(2, 1, memory_gb=4.0), devices) == [0]


@pytest.mark.parametrize("kappa", [0, -1, 1.5, "2"])
def test_kappa_is_a_whole_number_above_0(kappa: Any) -> None:
    with pytest.raises(InputError, match="kappa is"):
        least_workload_first(kappa)


def test_any_kappa_by_name() -> None:
    made = least_workload_first(3, strict_servers=True)
    register(made)
    try:
        assert PLACEMENTS["lwf_3_strict"] is made
    finally:
        del PLACEMENTS["lwf_3_strict"]
