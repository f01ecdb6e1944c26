"""Placements: what each chooses, what they may not, and one of one's own."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.mechanism.devices import Devices
from apportion.mechanism.machines import MachinePool
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import PLACEMENTS, Gang, Strategy, get_placement, register
from apportion.mechanism.placements.built_in import BUILT_IN
from apportion.mechanism.placements.by_speed import by_tier
from apportion.mechanism.placements.registry import ON_LINKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OWN = sorted({**BUILT_IN, **ON_LINKS})
"""Those of the library: benchmarks in this process may have brought others."""


class LeastLoaded(Strategy):
    """The devices with least service due, wherever they are; small gangs only."""

    name = "least_loaded"

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        load, free = devices.loads(gang.kind), devices.free_for(gang).free_devices
        if not gang.gpus <= min(len(free), 2):
            return None
        return sorted(free, key=lambda device: load[device])[: gang.gpus]


@pytest.fixture
def own() -> Iterator[str]:
    register(LeastLoaded)
    yield LeastLoaded.name
    del PLACEMENTS[LeastLoaded.name]


def test_what_each_placement_chooses() -> None:
    pool = MachinePool([2, 4, 3])
    pool.claim([2])
    devices = Devices([pool], ["v100"])
    chosen = {name: get_placement(name).choose(Gang(0, 2), devices) for name in OWN}
    del chosen["random"]
    by_workload = ["lwf_1", "lwf_2", "lwf_4", "lwf_8", "list_scheduling"]  # nothing is due
    assert chosen == {
        **{key: [0, 1] for key in by_workload},
        "consolidated": [0, 1],
        "best_fit": [0, 1],
        "cassini": [0, 1],  # nothing is known of links
        "cassini_by_gang": [0, 1],
        "first_fit": [0, 1],
        "emptiest": [3, 4],
    }
    large = {name: get_placement(name).choose(Gang(0, 5), devices) for name in OWN}
    del large["random"]
    assert large == {
        **{key: [0, 1, 3, 4, 5] for key in by_workload},
        "consolidated": [3, 4, 5, 0, 1],
        "best_fit": [3, 4, 5, 0, 1],
        "cassini": [3, 4, 5, 0, 1],
        "cassini_by_gang": [3, 4, 5, 0, 1],
        "first_fit": [0, 1, 3, 4, 5],
        "emptiest": [3, 4, 5, 6, 7],
    }
    # With a network the gang stays in a rack, be it over more machines.
    pool = MachinePool([1, 1, 2, 2, 2, 2], 2)
    pool.claim([8, 9])
    devices = Devices([pool], ["v100"])
    placed = {pace: Placer(devices, pace=pace).choose(Gang(0, 3)) for pace in (None, by_tier)}
    assert placed == {None: [2, 3, 0], by_tier: [2, 3, 4]}


def test_a_placement_of_ones_own_sees_the_load_and_declines(own: str) -> None:
    cluster = Cluster({"v100": 6}, gpus_per_machine=2)
    devices = Devices.of(cluster, memory_gb={"v100": 16}, shared=True)
    placer = Placer(devices, own)
    for job, (gpus, load) in enumerate([(2, 9.0), (2, 1.0), (2, 5.0), (1, 3.0), (2, 2.0)]):
        assert placer.give(Gang(job, gpus, memory_gb=4.0, load=load)) is not None
    assert devices.held[3] == (0, [2])  # least due: 1 on devices 2 and 3
    assert devices.held[4] == (0, [3, 2])  # then 1 and 4 there
    devices.set_loads([0], [0.5])
    assert placer.give(Gang(5, 1, memory_gb=4.0)) == [0]
    assert placer.place([6, 7], [0, 0], [3, 1]) == [0, 1]  # whoever tells no memory needs it all
    assert 6 not in placer.held


def test_gangs_that_get_nothing_are_told(own: str) -> None:
    placer = Placer(Cluster({"v100": 8}), own)
    assert placer.place([0, 1, 2], [0, 0, 0], [1, 3, 2]) == [1]
    assert sorted(placer.held) == [0, 2]


def test_an_installed_package_offers_a_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("offered", f"{__name__}:LeastLoaded", "apportion.placements")

    def installed(*, group: str, name: str) -> list[EntryPoint]:
        return [entry] if (group, name) == (entry.group, entry.name) else []

    monkeypatch.setattr("apportion.registry.offered", installed)
    try:
        placer = Placer(Cluster({"v100": 8}), "offered")
        assert placer.give(Gang(0, 2)) == [0, 1]
        with pytest.raises(InputError, match="Did you mean 'offered'"):
            get_placement("ofered")
    finally:
        del PLACEMENTS["offered"]
