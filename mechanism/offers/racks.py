"""The GPUs of one accelerator type as counts by rack and machine: who holds which, what is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError
from apportion.mechanism.devices import Devices
from apportion.mechanism.machines import MachinePool
from apportion.mechanism.places import Placement, Room, can_hold, room_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from apportion.cluster import Cluster

__all__ = ["Racks", "machines_of"]


def machines_of(cluster: Cluster) -> list[NDArray[np.int64]]:
    """Return the GPUs in each machine by type, each of shape (racks, machines per rack).

    Raises
    ------
    InputError
        If machines or racks are not whole, or there are none of a type.
    """
    for name, gpus in cluster.gpus.items():
        if not gpus:
            raise InputError(
                f"Leases are for racks, and the cluster {cluster} has none of type {name!r}; "
                f"leave it out. Valid: e.g. Cluster.of_racks(4)."
            )
    return [np.array(cluster.racks(name)) for name in cluster.accelerators]


class Racks:
    """Counts of free GPUs of one type, and the placement of every job that holds some.

    Parameters
    ----------
    gpus
        GPUs in each machine, shape (racks, machines per rack), or the devices of which to count
        one type.
    kind
        Position of that type.
    held
        Where to note the placements; several types may have one note of all jobs.

    Attributes
    ----------
    held
        Placements by job.
    """

    def __init__(
        self,
        gpus: ArrayLike | Devices,
        kind: int = 0,
        held: dict[int, Placement] | None = None,
    ) -> None:
        if not isinstance(gpus, Devices):
            table = np.array(gpus, dtype=np.int64)
            gpus = Devices([MachinePool(table.ravel().tolist(), table.shape[1])], ["gpu"])
        self.devices, self._kind, self._pool = gpus, kind, gpus.pools[kind]
        self.held: dict[int, Placement] = {} if held is None else held

    @property
    def free(self) -> NDArray[np.int64]:
        """Free GPUs of each machine, shape (racks, machines per rack); not to be changed."""
        return self._pool.free

    @property
    def room(self) -> Room:
        """Most GPUs that one gang can have at each tier."""
        return self._pool.room

    @property
    def room_of_all(self) -> Room:
        """The same if all were free."""
        return room_of(self._pool.gpus)

    def free_with(self, job: int) -> NDArray[np.int64]:
        """Free GPUs of each machine if a job gave its own back, in the shape of `free`."""
        free = self.free.copy()
        for rack, machine, gpus in self.held[job]:
            free[rack, machine] += gpus
        return free

    def hold(self, job: int, placement: Placement, devices: Sequence[int] | None = None) -> None:
        """Give a job the free GPUs of a placement.

        Parameters
        ----------
        job
            Its number.
        placement
            How many GPUs of which machines.
        devices
            Which of them; by default the lowest numbers.

        Raises
        ------
        InputError
            If the job already holds GPUs, or if some of these are not free.
        """
        if job in self.held:
            raise InputError(f"Job {job} already holds GPUs; it must give them back first.")
        if not self.can_hold(placement):
            raise InputError(f"The GPUs {placement} are not all free; job {job} cannot have them.")
        if devices is None:
            devices = self._pool.lowest(placement)
        self.devices.hold(job, self._kind, devices)
        self.held[job] = placement

    def can_hold(self, placement: Placement) -> bool:
        """Whether all GPUs of a placement are free."""
        return can_hold(self.free, placement)

    def give_back(self, job: int) -> Placement:
        """Free the GPUs of a job and return where they were.

        Raises
        ------
        InputError
            If the job holds none.
        """
        self.devices.give_back(job)
        return self.held.pop(job)

    def state(self) -> list[list[Any]]:
        """Return who holds what of all types, for JSON: job, type and devices."""
        return [[job, *held] for job, held in self.devices.held.items()]

    def restore(self, state: list[list[Any]]) -> None:
        """Take up a state of `state`, where nobody holds GPUs yet."""
        self.devices.restore({"held": state})
        for job, _, _ in state:
            self.held[job] = self.devices.placement(job)
