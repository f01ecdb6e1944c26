"""Devices against books kept in the plainest way, over generated moves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import each_seed

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.mechanism.devices import Devices
from apportion.mechanism.machines import MachinePool
from apportion.mechanism.placements import PLACEMENTS, Gang, get_placement

MACHINES = ([4, 2, 4, 1, 3], [2, 2, 2])
PER_RACK = (2, None)
TYPES = ("v100", "k80")
WHERE = [
    [(machine, device) for machine, size in enumerate(sizes) for device in range(size)]
    for sizes in MACHINES
]
"""Machine of each device of a type, by its number."""


def made(**options: object) -> Devices:
    pools = [MachinePool(*each) for each in zip(MACHINES, PER_RACK, strict=True)]
    return Devices(pools, TYPES, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", each_seed(20, 300))
def test_loads_are_sums_from_the_lowest_gang_on(seed: int) -> None:
    """To the last bit, in whichever order gangs came, were told of, went, and were renamed."""
    rng, due_s = np.random.default_rng(seed), dict[int, float]()
    devices = made(memory_gb=dict.fromkeys(TYPES, 99.0), shared=True)
    for gang in rng.permutation(40).tolist():
        kind, move = int(rng.integers(0, 2)), int(rng.integers(0, 6))
        size = len(WHERE[kind])
        asking = Gang(gang, 1, kind, memory_gb=float(rng.choice([9.0, 49.0])))
        open_to = devices.are_free_for(asking).nonzero()[0].tolist()
        assert open_to == devices.free_for(asking).free_devices
        chosen = rng.permutation(open_to)[: int(rng.integers(1, size))].tolist()
        load = float(rng.choice([0.0, 0.1, rng.random()]))
        devices.hold(gang, kind, chosen, asking.memory_gb, load)
        due_s |= {gang: load} if load else {}
        there = rng.permutation([*devices.held])[: int(rng.integers(0, 9))].tolist()
        if move == 0:
            devices.release(there)
            due_s = {each: due for each, due in due_s.items() if each not in there}
        elif move == 1 and there:
            devices.hand_over(there[0], 100 + gang)
            due_s |= {100 + gang: due_s.pop(there[0])} if there[0] in due_s else {}
        else:
            due = rng.random(len(there)).tolist()
            devices.set_loads(there, due)
            due_s |= dict(zip(there, due, strict=True))
        for of in (0, 1):
            expected = [0.0] * len(WHERE[of])
            for each in sorted(due_s):
                for device in devices.held[each][1] if devices.held[each][0] == of else ():
                    expected[device] += due_s[each]
            assert devices.loads(of).tolist() == expected


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_gpus_are_shared_as_far_as_their_memory_goes(data: st.DataObject) -> None:
    full = {"v100": 16.0, "k80": 12.0}
    devices = made(memory_gb=full, shared=True)
    needs: dict[int, tuple[int, list[int], float, float]] = {}

    def left(kind: int, device: int) -> float:
        taken = [
            gb or full[TYPES[kind]] for k, on, gb, _ in needs.values() if k == kind and device in on
        ]
        return full[TYPES[kind]] - sum(taken)

    for gang in range(data.draw(st.integers(1, 12))):
        if needs and data.draw(st.integers(0, 3)) == 0:
            gone = data.draw(st.sampled_from(sorted(needs)))
            devices.release([gone])
            del needs[gone]
            continue
        kind, gb = data.draw(st.integers(0, 1)), data.draw(st.sampled_from([0.0, 3.0, 4.0, 13.0]))
        size = len(WHERE[kind])
        room = [one for one in range(size) if left(kind, one) >= (gb or full[TYPES[kind]])]
        asking = Gang(gang, 1, kind, memory_gb=gb)
        assert devices.free_for(asking).free_devices == room
        chosen = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=4, unique=True))
        if set(chosen) <= set(room):
            devices.hold(gang, kind, chosen, gb, 10.0 + gang)
            needs[gang] = (kind, chosen, gb, 10.0 + gang)
        else:
            with pytest.raises(InputError, match=r"cannot be had|needs"):
                devices.hold(gang, kind, chosen, gb)
    for kind in (0, 1):
        nobody = [d for d in range(len(WHERE[kind])) if left(kind, d) == full[TYPES[kind]]]
        assert devices.pools[kind].free_devices == nobody
        due = [
            sum(load for k, on, _, load in needs.values() if k == kind and device in on)
            for device in range(len(WHERE[kind]))
        ]
        assert devices.loads(kind).tolist() == due


def test_a_gang_that_no_gpu_has_memory_for_gets_none() -> None:
    devices = made(memory_gb={"v100": 16, "k80": 12})
    assert devices.free_for(Gang(0, 1, 0, memory_gb=16.0)).free_devices == list(range(14))
    for name in PLACEMENTS:
        assert get_placement(name).choose(Gang(0, 1, 1, memory_gb=16.0), devices) is None
    with pytest.raises(InputError, match=r"needs 16 GB; no 'k80' has"):
        devices.hold(0, 1, [0], 16.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shared": True}, "memory_gb must say"),
        ({"shared": True, "memory_gb": {"v100": 16}}, "no entry for 'k80'"),
        ({"memory_gb": {"v100": 16, "k80": 12, "k8": 1}}, "'k8'"),
        ({"memory_gb": {"v100": 16, "k80": 0}}, "memory_gb of 'k80'"),
    ],
)
def test_memory_is_told_for_every_type(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        made(**options)


def test_the_devices_of_a_cluster_lie_in_its_machines_and_racks() -> None:
    cluster = Cluster({"v100": 22, "k80": 8}, gpus_per_machine=4, machines_per_rack=2)
    devices = Devices.of(cluster)
    assert devices.pools[0].gpus.tolist() == [[4, 4], [4, 4], [4, 2]]
    assert devices.pools[1].gpus.tolist() == [[4, 4]]
    devices.hold(7, 0, [15, 16, 21])
    assert devices.placement(7) == ((1, 1, 1), (2, 0, 1), (2, 1, 1))
