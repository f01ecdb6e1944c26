"""Which GPUs of a cluster serve requests, and what they are called in either half."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.machines import MachinePool

__all__ = ["ServingPlaces"]


class ServingPlaces:
    """GPUs that serve requests, numbered from 0, as devices of types and as GPUs of the cluster.

    GPUs of the cluster are numbered type by type and machine by machine, nodes likewise.

    Parameters
    ----------
    pools
        Machines of each type.
    count
        How many GPUs serve: the last ones.

    Attributes
    ----------
    device
        Type and device of each.
    number
        Number in the cluster of each.
    node
        Node of each.
    place
        Which of them a device is, by type and device; those that only train are not there.
    """

    def __init__(self, pools: Sequence[MachinePool], count: int) -> None:
        every: list[tuple[tuple[int, int], int]] = []
        first = 0
        for kind, pool in enumerate(pools):
            machines = pool.machine_of
            every += [((kind, k), first + machine) for k, machine in enumerate(machines)]
            first += max(machines, default=-1) + 1
        start = len(every) - count
        self.device = [device for device, _ in every[start:]]
        self.node = [node for _, node in every[start:]]
        self.number = list(range(start, len(every)))
        self.place = {device: place for place, device in enumerate(self.device)}
        self.nodes = {device: node for device, node in every}
        self.numbers = {device: number for number, (device, _) in enumerate(every)}
