"""The GPUs of all types in racks: who holds which, what is free, what was given back just now."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError
from apportion.mechanism.scheduler import Placement, Room, room_of, tier_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.placement import Placer
    from apportion.mechanism.placements import Gang

    Ints = NDArray[np.int64]


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


class Holdings:
    """Takes GPUs from jobs and gives them some, by a placement.

    Parameters
    ----------
    placer
        GPUs in whole racks, each of one accelerator type, and their placement.

    Attributes
    ----------
    held
        Where the GPUs of each job are that has some.
    pools
        The machines of each type, and what is free in them.
    """

    def __init__(self, placer: Placer) -> None:
        self.placer, self.pools = placer, placer.pools
        self.held: dict[int, Placement] = {}
        self._given_back: dict[int, tuple[int, Sequence[int], Placement]] = {}

    @property
    def room(self) -> Sequence[int]:
        """Most GPUs that one gang can have free at each option, type by type."""
        if len(self.pools) == 1:
            return self.pools[0].room
        return _behind_each_other([pool.room for pool in self.pools])

    @cached_property
    def room_of_all(self) -> Sequence[int]:
        """The same if all were free."""
        return _behind_each_other([room_of(pool.gpus) for pool in self.pools])

    def room_with(self, jobs: Iterable[int]) -> Sequence[int]:
        """Return the room that there would be if some jobs gave their GPUs back."""
        given = self._held_by(jobs)
        if len(self.pools) == 1:
            return self.pools[0].room_with(given[0])
        return _behind_each_other(
            [
                pool.room_with(given[kind]) if kind in given else pool.room
                for kind, pool in enumerate(self.pools)
            ]
        )

    def free_with(self, jobs: Iterable[int]) -> list[Ints]:
        """Free GPUs of the machines of each type if some jobs gave theirs back."""
        given = self._held_by(jobs)
        return [
            pool.free_with(given[kind]) if kind in given else pool.free
            for kind, pool in enumerate(self.pools)
        ]

    def _held_by(self, jobs: Iterable[int]) -> dict[int, Placement]:
        """Return by type where the GPUs of some jobs are."""
        given: dict[int, Placement] = {}
        for job in jobs:
            kind = self.placer.devices.held[job][0]
            given[kind] = given[kind] + self.held[job] if kind in given else self.held[job]
        return given

    def give_back(self, job: int) -> None:
        """Free the GPUs of a job for good.

        Raises
        ------
        InputError
            If it holds none.
        """
        self.placer.devices.give_back(job)
        del self.held[job]

    def lend_back(self, job: int) -> None:
        """Free the GPUs of a job that may have them again in the same instant."""
        self._given_back[job] = *self.placer.held[job], self.held[job]
        self.give_back(job)

    def forget(self) -> None:
        """Let the instant be over: what was given back is as any other."""
        self._given_back.clear()

    def before(self, job: int) -> tuple[int, Placement] | None:
        """Return type and placement of what a job has given back in this instant, if anything."""
        if job not in self._given_back:
            return None
        kind, _, placement = self._given_back[job]
        return kind, placement

    def hold_planned(self, job: int, kind: int, placement: Placement) -> bool:
        """Give a job GPUs where a plan says, its own if it had them; return whether it had."""
        _, devices, _ = self._given_back.get(job, (kind, None, placement))
        again = self.before(job) == (kind, placement)
        free = again and devices is not None and self.placer.pools[kind].are_free(devices)
        self.hold(job, kind, placement, devices if free else None)
        return again

    def choose(self, gang: Gang) -> tuple[Sequence[int], Placement, bool] | None:
        """Return devices for a gang, where they are, and whether it had these before; or None.

        `None` if the placement has none for it within the tiers that it accepts.
        """
        kind, before, lay = self._given_back.get(gang.job, (gang.kind, None, None))
        if kind != gang.kind:
            before = lay = None
        if before is not None:
            gang = gang._replace(before=before)
        devices = self.placer.choose(gang, first=True)
        if devices is None:
            return None
        if lay is not None and devices is before:
            return devices, lay, True
        placement = self.placer.where(gang, devices)
        if gang.tiers is not None and tier_of(placement) > gang.tiers[1]:
            return None
        return devices, placement, lay == placement

    def hold(
        self, job: int, kind: int, placement: Placement, devices: Sequence[int] | None = None
    ) -> None:
        """Give a job GPUs of a type; by default those with the lowest numbers.

        Raises
        ------
        InputError
            If the job already holds GPUs, or if some of these are not free.
        """
        devices = self.pools[kind].lowest(placement) if devices is None else devices
        self.placer.devices.hold(job, kind, devices)
        self.held[job] = placement


def _behind_each_other(rooms: Sequence[Room]) -> Sequence[int]:
    """Return the room at every option, in the order of the types."""
    return rooms[0] if len(rooms) == 1 else tuple(gpus for room in rooms for gpus in room)
