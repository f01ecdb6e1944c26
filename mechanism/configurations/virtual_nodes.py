"""Gangs on machines that are cut into machines of one size, whose types nobody tells apart.

So a scheduler that knows one type of GPU is run on several (Pollux beside Sia, SOSP 2023, section
5): a gang gets GPUs anywhere, can train on one type only, and leaves those of the others idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from apportion.mechanism.configurations.scheduler import InConfigurations
from apportion.mechanism.devices import Devices
from apportion.mechanism.machines import MachinePool
from apportion.mechanism.scheduler import Gangs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.devices import Held
    from apportion.types import Ints


class Speed(Protocol):
    """How fast a job would train on so many GPUs of a type, on so many machines."""

    def __call__(self, job: int, kind: int, gpus: int, nodes: int) -> float:
        """Return progress per second."""
        ...


class VirtualNodes:
    """Machines of all types cut into parts of as many GPUs as the type of the smallest has.

    Of a machine that is no multiple of it the rest is a smaller part. The parts stand in an order
    that is drawn, so that neighbours are of any type.

    Parameters
    ----------
    devices
        Machines by type. Types without machines are passed over.
    seed
        Of the order.

    Attributes
    ----------
    devices
        The parts: as many types of the same names, the first with all machines.
    real
        Type and number of the GPU behind each of these.
    """

    def __init__(self, devices: Devices, seed: int) -> None:
        self._layout = devices.layout
        sizes = [int(pool.gpus.max()) for pool in devices.pools if pool.gpus.any()]
        parts = [
            part
            for kind, pool in enumerate(devices.pools)
            for part in _parts(kind, pool, min(sizes))
        ]
        order = np.random.default_rng(seed).permutation(len(parts))
        drawn = [parts[place] for place in order.tolist()]
        empty = [MachinePool([]) for _ in devices.pools[1:]]
        pools = [MachinePool([len(part) for part in drawn]), *empty]
        self.devices = Devices(pools, devices.accelerators)
        self.real = [gpu for part in drawn for gpu in part]

    def of_one_type(self, job: int, held: Sequence[int], speed: Speed) -> list[int]:
        """Return the GPUs of a gang that are of its commonest type.

        Of types that are as common, the one on which the job is fastest, then the first.
        """
        by_kind: dict[int, list[int]] = {}
        for place in held:
            by_kind.setdefault(self.real[place][0], []).append(place)
        most = max(map(len, by_kind.values()))
        common = sorted(kind for kind, places in by_kind.items() if len(places) == most)
        if len(common) == 1:
            return by_kind[common[0]]

        def fast(kind: int) -> float:
            where = self._layout.placement(self.on_machines(by_kind[kind]))
            return speed(job, kind, most, len(where))

        return by_kind[max(common, key=fast)]

    def on_machines(self, held: Sequence[int]) -> Held:
        """Return type and numbers of the GPUs behind parts, all of one type."""
        gpus = [self.real[place] for place in held]
        return gpus[0][0], sorted(device for _, device in gpus)


class OnVirtualNodes(InConfigurations):
    """Gives every job a number of GPUs, wherever they are, and of these the job keeps one type.

    What a job leaves is free for others at the next interval. All else is as in
    `InConfigurations`, whose devices are those of the parts.

    Parameters
    ----------
    nodes
        The parts.
    speed
        How fast jobs are on the types.
    """

    def __init__(
        self, jobs: Any, options: Any, *others: Any, nodes: VirtualNodes, speed: Speed, **how: Any
    ) -> None:
        super().__init__(jobs, nodes.devices, options, *others, **how)
        self._nodes, self._speed = nodes, speed

    def _capacity(self) -> Ints:
        found = super()._capacity()
        return np.array([found.sum(), *np.zeros(found.size - 1)], dtype=np.intp)

    def _place(self, active: Ints, before: Ints) -> None:
        super()._place(active, before)
        devices = self._devices
        for job, (kind, held) in list(devices.held.items()):
            kept = self._nodes.of_one_type(job, held, self._speed)
            if len(kept) < len(held):
                devices.release([job])
                devices.hold(job, kind, kept)
                self.option[job] = self._options.place(kind, len(kept))

    def _gangs(self, jobs: Ints) -> Gangs:
        held = [self._nodes.on_machines(self._devices.held[job][1]) for job in jobs.tolist()]
        kind = np.array([kind for kind, _ in held], dtype=np.intp)
        gpus = np.array([len(devices) for _, devices in held], dtype=np.intp)
        return Gangs(jobs, jobs, kind, gpus, devices=held)


def _parts(kind: int, pool: MachinePool, most: int) -> list[list[tuple[int, int]]]:
    """Cut the machines of a type into parts of at most so many GPUs: (type, device) of each."""
    by_machine: dict[int, list[tuple[int, int]]] = {}
    for device, machine in enumerate(pool.machine_of):
        by_machine.setdefault(machine, []).append((kind, device))
    return [
        gpus[first : first + most]
        for gpus in by_machine.values()
        for first in range(0, len(gpus), most)
    ]
