"""Mistakes are named with what would be valid, and change nothing."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.mechanism.deciders import get_scheduler
from apportion.mechanism.devices import Devices
from apportion.mechanism.leases import AutoTunedTimers, ManualTimers, OfferScheduler
from apportion.mechanism.leases.rules import SkewBased
from apportion.mechanism.machines import MachinePool
from apportion.mechanism.orders import DiscretizedLeastAttainedService
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import PLACEMENTS, Gang, Strategy, register
from apportion.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_rule_by_skew_knows_the_job_types() -> None:
    with pytest.raises(InputError, match=r"Unknown job type in skews 'VGG1'. Did you mean 'VGG11'"):
        SkewBased().check("VGG1")


class OnesOwn(Strategy):
    """A placement of one's own: what it chooses is checked before it is looked at."""

    name = "ones_own"

    def choose(self, gang: Gang, devices: Devices) -> list[int]:
        return devices.free_for(gang).free_devices[: gang.gpus]


def devices() -> Placer:
    pools = [MachinePool([2, 2]), MachinePool([4])]
    placer = Placer(Devices(pools, ["v100", "k80"]), OnesOwn)
    placer.devices.hold(7, 0, [1, 2])
    return placer


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda p: p.devices.hold(7, 1, [0]), "Job 7 already holds GPUs; it must give them back"),
        (lambda p: p.devices.hold(8, 0, [0, 1]), "[0, 1] cannot be had: 1 is not free"),
        (lambda p: p.devices.hold(8, 0, [0, 4]), "cannot be had: they are numbered from 0 to 3"),
        (lambda p: p.devices.hold(8, 0, [0, 3, 0]), "cannot be had: 0 is named twice"),
        (lambda p: p.devices.give_back(8), "Job 8 holds no GPUs that it could give back"),
        (lambda p: p.pools[0].lowest(((0, 0, 2),)), "((0, 0, 2),) are not all free"),
        (lambda p: p.where(Gang(8, 2), [1, 3]), "placement 'ones_own' chose [1, 3] for job 8"),
        (lambda p: p.where(Gang(8, 1), [0, 3]), "needs 1 free devices of type 'v100'"),
        (lambda p: Placer(p.devices, "consolidatd"), "Did you mean 'consolidated'"),
    ],
)
def test_devices_and_placements(mistake: Callable[[Placer], object], message: str) -> None:
    placer = devices()
    before, free = {**placer.held}, [pool.free_devices for pool in placer.pools]
    with pytest.raises(InputError, match=re.escape(message)):
        mistake(placer)
    assert placer.held == before
    assert [pool.free_devices for pool in placer.pools] == free


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ManualTimers(machine_s=-1.0), "machine_s is -1.0; it must be a number"),
        (lambda: ManualTimers(rack_s=math.nan), "rack_s"),
        (lambda: AutoTunedTimers(history_s=0.0), "history_s is 0.0; it must be a number of"),
        (lambda: AutoTunedTimers(initial=(1.0, -2.0)), "initial is -2.0"),
        (lambda: DiscretizedLeastAttainedService((2.0, 2.0)), "each larger than the one before"),
        (lambda: DiscretizedLeastAttainedService((0.0, 2.0)), "GPU-seconds above 0"),
        (lambda: OfferScheduler("mine", lease_s=0.0), "lease_s is 0.0; it must be a number of"),
        (lambda: OfferScheduler("mine", checkpoint_s_per_gpu=-1.0), "checkpoint_s_per_gpu is -1"),
        (lambda: OfferScheduler("mine", restore_s_per_gpu=math.inf), "restore_s_per_gpu is inf"),
        (lambda: OfferScheduler("mine", placement="best_fitt"), "Did you mean 'best_fit'"),
        (lambda: SkewBased().check("VGG12"), "Did you mean 'VGG11'"),
        (lambda: get_scheduler("daly"), "Unknown scheduler 'daly'. Did you mean 'dally'"),
        (lambda: get_scheduler("fifo"), "'fifo' is a policy, not a scheduler"),
        (lambda: get_scheduler(3), "a name or a scheduler, not int"),
        (lambda: get_scheduler("dally", histry_s=5.0), "Did you mean 'history_s'"),
        (
            lambda: get_scheduler("dally_manual", history_s=1.0),
            "option of scheduler 'dally_manual'",
        ),
        (lambda: get_scheduler("dally", name="x"), "option of scheduler"),
        (lambda: get_scheduler("dally_manual", machine_s=-1.0), "machine_s is -1"),
        (lambda: get_scheduler("dally", order="first"), "Unknown order 'first'"),
        (lambda: get_scheduler("dally", rule="first"), "rule is 'first'; see `OfferScheduler`"),
        (lambda: get_scheduler("tiresias", history_s=5.0, lease_s=-1.0), "history_s"),
    ],
)
def test_parts_of_schedulers(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()


def test_placements_of_ones_own_that_are_none() -> None:
    known = dict(PLACEMENTS)

    class Nameless(Strategy):
        def choose(self, gang: Gang, devices: Devices) -> None:
            return None

    class Taken(Nameless):
        name = "first_fit"

    @dataclass
    class NoStrategy:
        name: str = field(default="none", init=False)

    class Chooses(Strategy):
        name = "no_choose"

    for other, message in (
        (Nameless, "has no name: give the class a text `name`"),
        (Taken, "There is already a placement 'first_fit'"),
        (NoStrategy, "is no placement; 'none' must be one"),
        (Chooses, "is no placement; 'no_choose' must be one"),
    ):
        with pytest.raises(InputError, match=message):
            register(other)  # type: ignore[arg-type]
    assert dict(PLACEMENTS) == known
    assert not np.isin(["none"], list(PLACEMENTS)).any()


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (True, "chose True for job 7"),
        ([0.0, 1.0], r"chose \[0.0, 1.0\] for job 7"),
        ("01", "chose '01' for job 7"),
        ([True, False], "a list of 2 devices, by their numbers, or None"),
        ([0, 0], "0 is named twice"),
        ([-1, 0], "numbered from 0 to 3"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_what_placements_of_ones_own_choose(
    monkeypatch: pytest.MonkeyPatch, chosen: Any, message: str, again: bool
) -> None:
    class Chooses(Strategy):
        name = "chooses"

        def choose(self, gang: Gang, devices: Devices) -> Any:
            return self.choose_again(gang, (), devices)

        def choose_again(self, gang: Gang, stay: Any, devices: Devices) -> Any:
            return answer

    monkeypatch.setitem(PLACEMENTS._known, "chooses", Chooses)
    for mechanism in MECHANISMS.values():
        if "placement" in {each.name for each in mechanism.settings()}:
            for given in (Chooses(), Gang, 5):
                with pytest.raises(InputError, match=r"placement is .*, or a subclass"):
                    mechanism.of({"placement": given})
            if not mechanism.elastic:
                assert mechanism.of({"placement": Chooses}).placement is Chooses
    with pytest.raises(InputError, match=r"is for gangs of a given size.*'packed'"):
        MECHANISMS["configurations"].of({"placement": "chooses"})
    placer, answer = Placer(Cluster({"v100": 4}), "chooses"), chosen
    gang = Gang(7, 2)
    with pytest.raises(InputError, match=message):
        placer.place_again(gang, [0]) if again else placer.place([7], [0], [2])
    answer = (device for device in (3, 1))  # of a generator, each once
    assert placer.place([7], [0], [2]) == []
    assert placer.held == {7: (0, [3, 1])}
    with pytest.raises(InputError, match="Job 2 holds no devices: place it first"):
        placer.gangs([7, 2])  # type: ignore[arg-type]
