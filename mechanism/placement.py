"""Where gangs run: devices by a named strategy; gangs that continue are left where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from apportion.checks import choice
from apportion.mechanism.machines import MachinePool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from apportion.cluster import Cluster

__all__ = ["PLACEMENTS", "Placer", "Strategy"]


class Strategy(Protocol):
    """Chooses the devices of one gang. `largest_first`: whether big gangs choose before small."""

    largest_first: bool

    def choose(self, pool: MachinePool, gpus: int) -> list[int]:
        """Return `gpus` free devices of the pool, which has that many; change nothing."""
        ...


class Consolidated:
    """Keep gangs together: the fullest machine that holds the gang, else as few as possible."""

    largest_first = True

    def choose(self, pool: MachinePool, gpus: int) -> list[int]:
        """Fill whole machines while the gang is too large for one, then the best fit."""
        best = pool.tightest(gpus)
        if best is not None:
            return pool.free_on(best)[:gpus]
        devices: list[int] = []
        used: list[int] = []
        emptiest = pool.emptiest_first()
        while (best := pool.tightest(gpus - len(devices), without=used)) is None:
            used.append(next(emptiest))
            devices += pool.free_on(used[-1])
        return devices + pool.free_on(best)[: gpus - len(devices)]


class FirstFit:
    """Take the free devices with the lowest numbers, wherever they are."""

    largest_first = False

    def choose(self, pool: MachinePool, gpus: int) -> list[int]:
        """Take the lowest numbers."""
        return pool.free_devices[:gpus]


class RandomDevices:
    """Take free devices at random: the placement that knows nothing of machines."""

    largest_first = False

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def choose(self, pool: MachinePool, gpus: int) -> list[int]:
        """Draw without replacement."""
        chosen: list[int] = self._rng.choice(pool.free_devices, gpus, replace=False).tolist()
        return sorted(chosen)


PLACEMENTS: dict[str, Callable[[np.random.Generator], Strategy]] = {
    "consolidated": lambda rng: Consolidated(),
    "first_fit": lambda rng: FirstFit(),
    "random": RandomDevices,
}
"""Placement strategies by name; each is made from the random generator that it may use."""


class Placer:
    """Holds which gang has which devices; each device belongs to one gang at most.

    Parameters
    ----------
    cluster
        Machines of each accelerator type.
    strategy
        A name out of `PLACEMENTS`.
    seed
        Seed of the strategies that draw at random.

    Raises
    ------
    InputError
        If no strategy has that name.
    """

    def __init__(self, cluster: Cluster, strategy: str = "consolidated", seed: int = 0) -> None:
        choice("placement", strategy, PLACEMENTS)
        self.strategy = strategy
        self._rng = np.random.default_rng(seed)
        self._choice = PLACEMENTS[strategy](self._rng)
        self.accelerators = cluster.accelerators
        self.pools = [MachinePool(cluster.machines(name).tolist()) for name in cluster.accelerators]
        self.held: dict[int, tuple[int, list[int]]] = {}
        self._split: set[int] = set()

    def release(self, gangs: Iterable[int]) -> None:
        """Free the devices of gangs."""
        free: list[list[int]] = [[] for _ in self.pools]
        for gang in gangs:
            kind, devices = self.held.pop(gang)
            free[kind] += devices
            self._split.discard(gang)
        for pool, devices in zip(self.pools, free, strict=True):
            if devices:
                pool.give_back(devices)

    def place(self, gangs: Sequence[int], types: Sequence[int], gpus: Sequence[int]) -> None:
        """Give devices to gangs that have none; there must be enough of each type."""
        order: Iterable[int] = range(len(gangs))
        if self._choice.largest_first:
            order = sorted(order, key=gpus.__getitem__, reverse=True)
        for k in order:
            pool = self.pools[types[k]]
            devices = self._choice.choose(pool, gpus[k])
            pool.claim(devices)
            self._hold(gangs[k], types[k], devices)

    def is_split(self, gangs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Tell which gangs have devices in more than one machine, shape (gangs,)."""
        return np.isin(gangs, list(self._split))

    def hand_over(self, old: int, new: int) -> None:
        """Let one gang take over the devices of another as they are."""
        self._hold(new, *self.held.pop(old))
        self._split.discard(old)

    def state(self) -> dict[str, Any]:
        """Return who holds what, and the state of the random generator, for JSON."""
        held = [[gang, kind, devices] for gang, (kind, devices) in self.held.items()]
        return {"held": held, "random": self._rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state` in a placer that holds nothing yet."""
        for gang, kind, devices in state["held"]:
            self.pools[kind].claim(devices)
            self._hold(gang, kind, list(devices))
        self._rng.bit_generator.state = state["random"]

    def _hold(self, gang: int, kind: int, devices: list[int]) -> None:
        """Write down who has which devices."""
        self.held[gang] = (kind, devices)
        machine_of = self.pools[kind].machine_of
        # Devices come machine by machine.
        if machine_of[devices[0]] != machine_of[devices[-1]]:
            self._split.add(gang)
