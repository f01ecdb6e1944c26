"""The placements that come with the package.

Least workload first (LWF-kappa) takes GPUs of the servers that have least left to do: Wang et al.,
"Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs", Algorithm 1.
What is left to do on a GPU is what `Devices.loads` tells. Where GPUs are not shared, free ones have
nothing to do, so that GPUs and servers come in the order of their numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from apportion.checks import whole, yes_no
from apportion.errors import InputError
from apportion.mechanism.placements.counts import (
    BestFit,
    EmptiestFirst,
    Fit,
    LowestFirst,
    RandomDraw,
    choose,
)
from apportion.mechanism.placements.strategy import Gang, Strategy
from apportion.mechanism.scheduler import MACHINE, NETWORK, RACK
from apportion.ties import order_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.machines import MachinePool
    from apportion.mechanism.placements.by_speed import Placing
    from apportion.types import Floats, Ints


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


class LeastWorkloadFirst(Strategy):
    """Take the GPUs with least left to do, larger gangs those of the servers with least left to do.

    A gang of at most kappa GPUs gets the least loaded ones wherever they are. A larger one goes
    through the servers from the least loaded on, and within each through its GPUs likewise. Loads
    that differ by rounding only are equal; of equal ones, the lowest number.
    """

    name = "lwf_1"
    kappa: ClassVar[float] = 1
    """Largest gang that is spread."""
    strict_servers: ClassVar[bool] = False
    """Whether only the fewest servers that could hold the gang count, those with least left to do:
    if they have no room, it waits. The text chooses them (line 13), and does not use them."""

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Go through GPUs, or servers and their GPUs, from the least loaded on."""
        pool, loads = devices.pools[gang.kind], devices.loads(gang.kind)
        free, by_load, machine_of = devices.are_free_for(gang), order_of(loads), pool.machines
        if gang.gpus > self.kappa:
            place = _by_server(loads, machine_of)[machine_of[by_load]]
            by_load = by_load[place.argsort(kind="stable")]
            if self.strict_servers:
                free &= np.isin(machine_of, self._servers(gang, loads, pool))
        ordered = by_load[free[by_load]]
        if gang.tiers is not None:
            return _within_tiers(gang, ordered, pool)
        return ordered[: gang.gpus].tolist() if ordered.size >= gang.gpus else None

    def _servers(self, gang: Gang, loads: Floats, pool: MachinePool) -> Ints:
        """Return the fewest servers that could hold a gang, those with least left to do."""
        per_server = int(np.bincount(pool.machines).max())
        ascending = _by_server(loads, pool.machines).argsort()
        return ascending[: math.ceil(gang.gpus / per_server)]


def least_workload_first(kappa: float, *, strict_servers: bool = False) -> type[Strategy]:
    """Return the placement for any kappa; `apportion.mechanism.placements.register` names it.

    Parameters
    ----------
    kappa
        Largest gang that gets the least loaded GPUs wherever they are; infinite for list
        scheduling. A threshold on the size of gangs, not on the number of servers.
    strict_servers
        See `LeastWorkloadFirst`.

    Raises
    ------
    InputError
        If kappa is below 1.
    """
    if kappa != math.inf:
        whole("kappa", kappa, 1, integral=True)
    yes_no("strict_servers", strict_servers)
    name = "list_scheduling" if kappa == math.inf else f"lwf_{kappa:g}"
    words = f"{LeastWorkloadFirst.__doc__}\n    Here kappa is {kappa:g}.\n    "
    own = {
        "name": name + "_strict" * strict_servers,
        "kappa": kappa,
        "strict_servers": strict_servers,
        "__doc__": words,
        "__module__": __name__,
    }
    made: type[Strategy] = type(f"LeastWorkloadFirst{kappa:g}", (LeastWorkloadFirst,), own)
    return made


_BY_WORKLOAD: list[type[Strategy]] = [
    LeastWorkloadFirst,
    *(least_workload_first(kappa) for kappa in (2, 4, 8, math.inf)),
]
"""LWF-kappa, and its limit, list scheduling."""

BUILT_IN: dict[str, type[Strategy]] = {
    "consolidated": Consolidated,
    "best_fit": Consolidated,
    "first_fit": FirstFit,
    "emptiest": Emptiest,
    "random": RandomDevices,
    **{each.name: each for each in _BY_WORKLOAD},
}
"""Placements by name; best fit is another name for keeping gangs together."""


def _by_server(loads: Floats, machine_of: Ints) -> Ints:
    """Return the place of each server in the order of what all of its GPUs have left to do."""
    order = order_of(np.bincount(machine_of, weights=loads).astype(float))
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.arange(order.size)
    return place


def _within_tiers(gang: Gang, ordered: Ints, pool: MachinePool) -> list[int] | None:
    """Take the first GPUs in one machine, one rack or anywhere, the tightest that has room."""
    if gang.tiers is None:
        raise InputError(f"Job {gang.job} was offered no tiers.")
    machine = pool.machines[ordered]
    groups = {MACHINE: machine, RACK: machine // pool.gpus.shape[1], NETWORK: machine * 0}
    first, widest = gang.tiers
    for tier in range(first, widest + 1):
        of = groups[tier]
        for group in dict.fromkeys(of.tolist()):
            inside = ordered[of == group]
            if inside.size >= gang.gpus:
                chosen: list[int] = inside[: gang.gpus].tolist()
                return chosen
    return None
