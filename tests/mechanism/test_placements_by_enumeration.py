"""Placements against all that there are: small machines, every way to place a gang on them."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from apportion.errors import InputError
from apportion.mechanism.devices import Devices
from apportion.mechanism.machines import MachinePool
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import Gang, Strategy
from apportion.mechanism.placements.by_speed import Placing, by_tier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.mechanism.placements.by_speed import Pace
    from apportion.mechanism.scheduler import Placement


class Site:
    """A few machines in racks, some of whose GPUs are taken."""

    def __init__(self, rng: np.random.Generator, *, alike: bool = False) -> None:
        count = int(rng.integers(1, 6))
        self.sizes = rng.integers(1, 5, 1 if alike else count).repeat(count if alike else 1)
        self.width = int(rng.integers(1, count + 1)) if not alike else count
        self.machine_of = np.repeat(np.arange(self.sizes.size), self.sizes).tolist()
        everything = range(len(self.machine_of))
        self.free = [device for device in everything if rng.random() < 0.7]
        self.devices = self.with_free()

    def with_free(self) -> Devices:
        pool = MachinePool(self.sizes.tolist(), self.width)
        pool.claim([k for k in range(len(self.machine_of)) if k not in self.free])
        return Devices([pool], ["v100"])

    def left(self) -> dict[int, int]:
        """Free GPUs by machine."""
        return dict(Counter(self.machine_of[device] for device in self.free))

    def tier(self, devices: Iterable[int]) -> int:
        machines = {self.machine_of[device] for device in devices}
        racks = {machine // self.width for machine in machines}
        return 0 if len(machines) == 1 else 1 if len(racks) == 1 else 2

    def ways(self, gpus: int) -> list[dict[int, int]]:
        """Every way to take so many free GPUs, by machine."""
        left = self.left()
        parts = product(*(range(left[machine] + 1) for machine in left))
        return [
            {machine: part for machine, part in zip(left, way, strict=True) if part}
            for way in parts
            if sum(way) == gpus
        ]


@pytest.mark.parametrize("seed", range(60))
def test_a_gang_is_kept_together_in_as_few_machines_as_can_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    site = Site(rng)
    for gpus in range(1, len(site.machine_of) + 1):
        chosen = Placer(site.devices, "consolidated").choose(Gang(0, gpus))
        ways = site.ways(gpus)
        if not ways:
            assert chosen is None
            continue
        assert chosen is not None
        assert set(chosen) <= set(site.free)
        used = Counter(site.machine_of[device] for device in chosen)
        fewest = min(map(len, ways))
        assert len(used) == fewest
        left = site.left()
        if fewest == 1:
            # The fullest that holds it, so that large holes stay whole; then the lowest number.
            fits = [(left[machine], machine) for machine in left if left[machine] >= gpus]
            assert min(fits)[1] in used
        else:
            assert sum(used[machine] < left[machine] for machine in used) <= 1


@pytest.mark.parametrize("seed", range(30))
def test_the_other_placements_are_as_they_say(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    site = Site(rng)
    left = site.left()
    for gpus in range(1, len(site.machine_of) + 1):
        chosen = {
            name: Placer(site.devices, name).choose(Gang(0, gpus))
            for name in ("first_fit", "emptiest", "random")
        }
        if gpus > len(site.free):
            assert set(chosen.values()) == {None}
            continue
        assert chosen["first_fit"] == site.free[:gpus]
        by_machine = sorted(site.free, key=lambda k: (-left[site.machine_of[k]], k))
        assert chosen["emptiest"] == by_machine[:gpus]
        drawn = chosen["random"]
        assert drawn is not None
        assert len(set(drawn)) == len(drawn) == gpus
        assert set(drawn) <= set(site.free)


def test_each_set_of_free_devices_is_drawn_alike() -> None:
    site = Site(np.random.default_rng(0))
    site.sizes, site.machine_of, site.free = np.array([2, 3]), [0, 0, 1, 1, 1], [0, 1, 2, 4]
    placer = Placer(site.with_free(), "random", seed=1)
    drawn = Counter(tuple(sorted(placer.choose(Gang(0, 2)) or ())) for _ in range(3000))
    assert set(drawn) == set(combinations(site.free, 2))
    # Four standard deviations of 3000 draws of a sixth.
    assert max(abs(count - 500) for count in drawn.values()) < 4 * np.sqrt(3000 * 5 / 36)


@pytest.mark.parametrize("name", ["consolidated", "first_fit", "emptiest", "random"])
@pytest.mark.parametrize("seed", range(15))
def test_offered_tiers_are_kept_to_and_the_tightest_with_room_is_taken(
    seed: int, name: str
) -> None:
    rng = np.random.default_rng([seed, 2])
    site = Site(rng)
    racks = Counter(
        machine // site.width for machine in map(site.machine_of.__getitem__, site.free)
    )
    room = max(site.left().values(), default=0), max(racks.values(), default=0), len(site.free)
    for gpus in range(1, len(site.free) + 1):
        tightest = next(tier for tier in range(3) if room[tier] >= gpus)
        widest = int(rng.integers(tightest, 3))
        for pace in (None, by_tier):
            placer = Placer(site.devices, name, pace=pace)
            chosen = placer.choose(Gang(0, gpus, tiers=(tightest, widest)))
            assert chosen is not None
            assert len(set(chosen)) == gpus
            assert set(chosen) <= set(site.free)
            assert site.tier(chosen) <= tightest


def unevenness(model: str, placement: Placement) -> float:
    """More machines are slower, and uneven ones more so; far racks more than all that."""
    parts = [gpus for _, _, gpus in placement]
    racks = len({rack for rack, _, _ in placement})
    return 1 + 0.1 * (len(parts) - 1) + 0.3 * (max(parts) - min(parts)) + 2.0 * (racks - 1)


def crowding(model: str, placement: Placement) -> float:
    """GPUs of one machine are in each other's way: the more machines, the faster."""
    return 1 + 0.2 * (max(gpus for _, _, gpus in placement) - 1)


@pytest.mark.parametrize("pace", [by_tier, unevenness, crowding])
@pytest.mark.parametrize("seed", range(15))
def test_no_placement_is_faster_where_everything_is_free(seed: int, pace: Pace) -> None:
    rng = np.random.default_rng([seed, 3])
    site = Site(rng, alike=True)
    site.free = list(range(len(site.machine_of)))
    pool = site.with_free().pools[0]
    placing = Placing(pool.gpus, pace)
    for gpus in range(1, len(site.free) + 1):
        times = [
            pace("m", tuple((0, machine, part) for machine, part in sorted(way.items())))
            for way in site.ways(gpus)
        ]
        assert placing.least_worth("m", gpus)[0] == pytest.approx(min(times))
        fastest = placing.fastest(pool.free, "m", gpus, 2)
        assert fastest is not None
        assert pace("m", fastest) == pytest.approx(min(times))
        assert min(placing.slowdowns("m", gpus)) == pytest.approx(min(times))


@pytest.mark.parametrize("seed", range(25))
def test_a_gang_goes_back_to_its_devices_unless_others_are_better(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    site = Site(rng)
    gpus = int(rng.integers(1, len(site.machine_of) + 1))
    before = sorted(rng.choice(len(site.machine_of), gpus, replace=False).tolist())
    placer = Placer(site.devices, pace=by_tier)
    racks = Counter(site.machine_of[device] // site.width for device in site.free)
    room = max(site.left().values(), default=0), max(racks.values(), default=0), len(site.free)
    if gpus > room[2]:
        return
    tightest = next(tier for tier in range(3) if room[tier] >= gpus)
    chosen = placer.choose(Gang(0, gpus, tiers=(tightest, 2), before=before))
    assert chosen is not None
    if set(before) <= set(site.free) and site.tier(before) == tightest:
        assert list(chosen) == before
    else:
        assert site.tier(chosen) == tightest


def test_what_a_placement_may_not_choose_is_refused() -> None:
    class FirstOnes(Strategy):
        name = "first_ones"

        def choose(self, gang: Gang, devices: Devices) -> list[int] | None:
            free = devices.free_for(gang).free_devices
            return free[: gang.gpus] if len(free) >= gang.gpus else None

    placer = Placer(Devices([MachinePool([2, 2])], ["v100"]), FirstOnes)
    assert placer.give(Gang(0, 3)) == [0, 1, 2]
    for chosen, words in (([3], "needs 2 free"), ([2, 3], "needs 2 free"), ([3, 3], "free")):
        with pytest.raises(InputError, match=words):
            placer.where(Gang(1, 2), chosen)
    assert placer.where(Gang(1, 1), [3]) == ((0, 1, 1),)
    assert placer.place([5, 6], [0, 0], [2, 1]) == [0]
    assert placer.held[6] == (0, [3])
