"""The placements that come with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.mechanism.placements.counts import (
    BestFit,
    EmptiestFirst,
    Fit,
    LowestFirst,
    RandomDraw,
    choose,
)
from apportion.mechanism.placements.least_workload import BY_WORKLOAD
from apportion.mechanism.placements.strategy import Gang, Strategy
from apportion.mechanism.places import NETWORK

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.machines import MachinePool
    from apportion.mechanism.placements.by_speed import Placing


class Consolidated(Strategy):
    """Keep gangs together: where a network counts, on the fastest placement that is free.

    Of equally fast ones, and where no network counts, the fullest machine (rack) that holds the
    gang; a gang that none holds fills the emptiest, until the fullest that can take the rest does.
    """

    name = "consolidated"
    largest_first = True

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Look for the fastest placement, or for the fullest machines."""
        free = devices.free_for(gang)
        if not self.placings:
            if gang.tiers is None:
                return free.best_fit(gang.gpus) or _packed(free, gang.gpus)
            return _within_tier(gang, free, BestFit())
        widest = NETWORK if gang.tiers is None else gang.tiers[1]
        fastest = self.placings[gang.kind].fastest(free.free, gang.model, gang.gpus, widest)
        return free.lowest(fastest) if fastest else _within_tier(gang, free, BestFit())


class FirstFit(Strategy):
    """Take the free devices with the lowest numbers, wherever they are."""

    name = "first_fit"

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Take the lowest numbers, of the tightest tier if there are tiers."""
        free = devices.free_for(gang)
        if gang.tiers is not None:
            return _within_tier(gang, free, LowestFirst())
        lowest = free.free_devices[: gang.gpus]
        return lowest if len(lowest) == gang.gpus else None


class Emptiest(Strategy):
    """Take all of the machines with most free devices: others are spread away from the gang."""

    name = "emptiest"

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Go through the machines from the emptiest on, of the tightest tier if there are tiers."""
        free = devices.free_for(gang)
        if gang.tiers is not None:
            return _within_tier(gang, free, EmptiestFirst())
        found: list[int] = []
        for machine in free.emptiest_first():
            found += free.free_on(machine)[: gang.gpus - len(found)]
            if len(found) == gang.gpus:
                return found
        return None


class RandomDevices(Strategy):
    """Take free devices at random: the placement that knows nothing of machines.

    A gang that has to lie in one machine or rack gets that with most free devices.
    """

    name = "random"

    def __init__(
        self, rng: np.random.Generator | None = None, placings: Sequence[Placing] = ()
    ) -> None:
        super().__init__(rng, placings)
        self._draw = RandomDraw(self.rng)

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Draw without replacement."""
        free = devices.free_for(gang)
        if gang.tiers is not None:
            return _within_tier(gang, free, self._draw)
        numbers = free.free_devices
        if len(numbers) < gang.gpus:
            return None
        drawn: list[int] = self.rng.choice(numbers, gang.gpus, replace=False).tolist()
        return sorted(drawn)


BUILT_IN: dict[str, type[Strategy]] = {
    "consolidated": Consolidated,
    "best_fit": Consolidated,
    "first_fit": FirstFit,
    "emptiest": Emptiest,
    "random": RandomDevices,
    **BY_WORKLOAD,
}
"""Placements by name; best fit is another name for keeping gangs together."""


def _packed(pool: MachinePool, gpus: int) -> list[int] | None:
    """Fill whole machines while the gang is too large for one, then the best fit."""
    devices: list[int] = []
    used: list[int] = []
    emptiest = pool.emptiest_first()
    while (best := pool.tightest(gpus - len(devices), without=used)) is None:
        machine = next(emptiest, None)
        if machine is None:
            return None
        used.append(machine)
        devices += pool.free_on(machine)
    return devices + pool.free_on(best)[: gpus - len(devices)]


def _within_tier(gang: Gang, pool: MachinePool, fit: Fit) -> list[int] | None:
    """Choose by how much machines and racks have free, in the tightest tier with room."""
    first = 0 if gang.tiers is None else gang.tiers[0]
    for tier in range(first, NETWORK + 1):
        if pool.room[tier] >= gang.gpus:
            return pool.lowest(choose(pool.free, gang.gpus, tier, fit))
    return None
