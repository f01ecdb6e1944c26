"""The GPUs of a cluster: numbered, in machines and racks, of several types; who holds which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError
from apportion.mechanism.device_loads import DeviceLoads
from apportion.mechanism.gpu_memory import GPUMemory
from apportion.mechanism.machines import Layout, MachinePool
from apportion.mechanism.scheduler import Gangs, Placement, tier_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.placements.strategy import Gang
    from apportion.types import Bools, Floats


Held = tuple[int, list[int]]
"""Devices of a gang: the position of their accelerator type, and their numbers within it."""


class Devices:
    """Who holds which GPUs, and what is free.

    A GPU belongs to one gang at most, or, if it is shared, to as many as its memory has room for.

    Parameters
    ----------
    pools
        Machines of each accelerator type.
    accelerators
        Names of the types, in the same order.
    memory_gb
        Memory of one GPU of each type, GB: gangs get none that has less than they need. ``None``
        if memory does not count.
    shared
        Whether several gangs may hold a GPU at a time, as far as its memory goes.

    Attributes
    ----------
    held
        Devices of every gang that has some, by its number; not to be changed from outside.
    layout
        In which machines and racks the devices are, whoever holds them.

    Raises
    ------
    InputError
        If GPUs are to be shared and the memory of some type is not told.
    """

    def __init__(
        self,
        pools: Sequence[MachinePool],
        accelerators: Sequence[str],
        *,
        memory_gb: Mapping[str, float] | None = None,
        shared: bool = False,
    ) -> None:
        if shared and memory_gb is None:
            raise InputError("GPUs are shared by memory: memory_gb must say that of every type.")
        self.pools, self.accelerators = list(pools), tuple(accelerators)
        self.layout = Layout(self.pools)
        self.held: dict[int, Held] = {}
        self.shared = shared
        sizes = [len(pool.machine_of) for pool in self.pools]
        self._memory = None if memory_gb is None else GPUMemory(accelerators, memory_gb, sizes)
        self._split: set[int] = set()
        self._loads = DeviceLoads(sizes)

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        *,
        memory_gb: Mapping[str, float] | None = None,
        shared: bool = False,
    ) -> Devices:
        """Return the devices of a cluster, of which nobody holds any."""
        names = cluster.accelerators
        pools = [
            MachinePool(cluster.machines(name).tolist(), cluster.machines_per_rack)
            for name in names
        ]
        return cls(pools, names, memory_gb=memory_gb, shared=shared)

    def free_for(self, gang: Gang) -> MachinePool:
        """Return the machines of a gang's type with the devices free that have room for it.

        What it returns is only to be looked at.
        """
        pool = self.pools[gang.kind]
        if self._memory is None:
            return pool
        if not self._memory.fits(gang.kind, gang.memory_gb):
            return pool.with_free(())
        if not self.shared:
            return pool
        return pool.with_free(self._memory.room(gang.kind, gang.memory_gb).nonzero()[0].tolist())

    def are_free_for(self, gang: Gang) -> Bools:
        """Tell which devices of a gang's type are free and have room for it, shape (devices,)."""
        memory = self._memory if self.shared else None
        if memory is not None and memory.fits(gang.kind, gang.memory_gb):
            return memory.room(gang.kind, gang.memory_gb)
        free = np.zeros(len(self.pools[gang.kind].machine_of), dtype=bool)
        free[self.free_for(gang).free_devices] = True
        return free

    def loads(self, kind: int) -> Floats:
        """Service that the gangs on each device of a type are still due, GPU-seconds."""
        return self._loads.of(kind)

    def hold(
        self,
        gang: int,
        kind: int,
        devices: Sequence[int],
        memory_gb: float = 0.0,
        load: float = 0.0,
    ) -> None:
        """Give devices to a gang that has none.

        Parameters
        ----------
        gang
            Its number.
        kind, devices
            Type and numbers of the devices, on which there must be room.
        memory_gb
            Memory that it takes of each, GB; 0 for all of it.
        load
            Service that it is due on each, GPU-seconds.

        Raises
        ------
        InputError
            If the gang has devices, or cannot have some of these; then it gets none.
        """
        if gang in self.held:
            raise InputError(f"Job {gang} already holds GPUs; it must give them back first.")
        devices = list(devices)
        if self._memory is None:
            split = self.pools[kind].claim(devices)
        else:
            split = self._enter(gang, kind, devices, memory_gb)
        self.held[gang] = (kind, devices)
        if load:
            self.set_loads([gang], [load])
        if split:
            self._split.add(gang)

    def gangs(self, jobs: NDArray[np.intp]) -> Gangs:
        """Return gangs of one job each, which are named by their jobs, on what they hold.

        Parameters
        ----------
        jobs
            Numbers of jobs that have devices, shape (lines,).

        Raises
        ------
        InputError
            If one has none.
        """
        jobs = np.asarray(jobs, dtype=np.intp)
        try:
            held = [*map(self.held.__getitem__, jobs.tolist())]
        except KeyError as error:
            job = error.args[0]
            raise InputError(f"Job {job} holds no devices: place it first.") from error
        kinds, devices = zip(*held, strict=True) if held else ((), ())
        option, gpus = np.array(kinds, dtype=np.intp), np.array([*map(len, devices)], dtype=np.intp)
        return Gangs(jobs, jobs, option, gpus, devices=held)

    def give_back(self, gang: int) -> Held:
        """Free the devices of a gang and return which they were.

        Raises
        ------
        InputError
            If it has none.
        """
        if gang not in self.held:
            raise InputError(f"Job {gang} holds no GPUs that it could give back.")
        held = self.held[gang]
        self.release([gang])
        return held

    def release(self, gangs: Iterable[int]) -> None:
        """Free the devices of several gangs that have some."""
        free: list[list[int]] = [[] for _ in self.pools]
        held, split, memory = self.held, self._split, self._memory if self.shared else None
        if self._loads.told:
            gangs = list(gangs)
            self._loads.forget(gangs)
        for gang in gangs:
            kind, devices = held.pop(gang)
            if memory is not None:
                devices = memory.leave(gang, kind, devices)
            free[kind] += devices
            if gang in split:
                split.remove(gang)
        for pool, devices in zip(self.pools, free, strict=True):
            if devices:
                pool.give_back(devices)

    def hand_over(self, old: int, new: int) -> None:
        """Let one gang take over the devices of another as they are, and what it takes of them."""
        held, due_s = self.held.pop(old), self._loads.due_s(old)
        if self.shared and self._memory is not None:
            self._memory.hand_over(old, new, *held)
        self.held[new] = held
        if due_s is not None:
            self._loads.forget([old])
            self.set_loads([new], [due_s])
        if old in self._split:
            self._split.remove(old)
            self._split.add(new)

    def set_loads(self, gangs: Sequence[int], due_s: Sequence[float]) -> None:
        """Say what service gangs that have devices are still due on each, GPU-seconds."""
        self._loads.set(gangs, due_s, self.held)

    def placement(self, gang: int) -> Placement:
        """Return where a gang's devices are: (rack, machine in the rack, GPUs)."""
        return self.layout.placement(self.held[gang])

    def tier(self, gang: int) -> int:
        """Return the tier of a gang's devices, as its position in `apportion.cluster.TIERS`."""
        return tier_of(self.placement(gang))

    def is_split(self, gangs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Tell which gangs have devices in more than one machine, shape (gangs,)."""
        split = self._split
        return np.array([gang in split for gang in gangs.tolist()], dtype=bool)

    def _enter(self, gang: int, kind: int, devices: list[int], memory_gb: float) -> bool:
        """Let a gang onto devices whose memory counts; tell whether they lie in many machines."""
        memory, pool = self._memory, self.pools[kind]
        if memory is None or not memory.fits(kind, memory_gb):
            name = self.accelerators[kind]
            raise InputError(f"Job {gang} needs {memory_gb:g} GB; no {name!r} has so much.")
        if not self.shared:
            return pool.claim(devices)
        exist = range(len(pool.machine_of))
        if len({device for device in devices if device in exist}) < len(devices):
            pool.with_free(exist).claim(devices)  # says what is wrong with them
        room = memory.room(kind, memory_gb)
        for device in devices:
            if not room[device]:
                raise InputError(
                    f"The devices {devices} cannot be had: {device} has no {memory_gb:g} GB left."
                )
        pool.claim(memory.enter(gang, kind, devices, memory_gb))
        return pool.is_split(devices)
