"""The GPUs of one accelerator type by rack and machine: who holds which, and what is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.cluster import TIERS
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.offers.fits import Fit

__all__ = [
    "MACHINE",
    "NETWORK",
    "RACK",
    "Placement",
    "Racks",
    "Room",
    "can_hold",
    "choose",
    "machines_of",
    "placement_of",
    "room_of",
    "tier_of",
]

MACHINE, RACK, NETWORK = range(len(TIERS))
"""Positions of the tiers in `apportion.cluster.TIERS`."""

Placement = tuple[tuple[int, int, int], ...]
"""Where the GPUs of a gang are: (rack, machine in the rack, GPUs), ascending."""


class Room(NamedTuple):
    """Most GPUs that one gang can have free at each tier.

    Attributes
    ----------
    machine, rack, network
        Free GPUs of the machine with most of them, of the rack with most of them, and of all.
    """

    machine: int
    rack: int
    network: int


def tier_of(placement: Placement) -> int:
    """Return the tier in which a gang lies, as its position in `apportion.cluster.TIERS`."""
    if len(placement) == 1:
        return MACHINE
    return RACK if len({rack for rack, _, _ in placement}) == 1 else NETWORK


def machines_of(cluster: Cluster) -> NDArray[np.int64]:
    """Return the GPUs in each machine of a cluster, shape (racks, machines per rack).

    Raises
    ------
    InputError
        If the cluster has several accelerator types, or machines or racks are not whole.
    """
    if len(cluster.accelerators) != 1:
        raise InputError(
            f"Leases are for clusters of one accelerator type; {cluster} has "
            f"{len(cluster.accelerators)}. Valid: e.g. Cluster.of_racks(4)."
        )
    return np.array(cluster.racks(cluster.accelerators[0]))


class Racks:
    """Counts of free GPUs, and the placement of every job that holds some.

    Parameters
    ----------
    gpus
        GPUs in each machine, shape (racks, machines per rack).

    Attributes
    ----------
    free
        Free GPUs of each machine, in the same shape; not to be changed from outside.
    held
        Placements by job.
    """

    def __init__(self, gpus: ArrayLike) -> None:
        self.free: NDArray[np.int64] = np.array(gpus, dtype=np.int64)
        self.held: dict[int, Placement] = {}
        self._room: Room | None = None

    @property
    def room(self) -> Room:
        """Most GPUs that one gang can have at each tier."""
        if self._room is None:
            self._room = room_of(self.free)
        return self._room

    def free_with(self, job: int) -> NDArray[np.int64]:
        """Free GPUs of each machine if a job gave its own back, in the shape of `free`."""
        free = self.free.copy()
        for rack, machine, gpus in self.held[job]:
            free[rack, machine] += gpus
        return free

    def hold(self, job: int, placement: Placement) -> None:
        """Give a job the free GPUs of a placement.

        Raises
        ------
        InputError
            If the job already holds GPUs, or if some of these are not free.
        """
        if job in self.held:
            raise InputError(f"Job {job} already holds GPUs; it must give them back first.")
        if not self.can_hold(placement):
            raise InputError(f"The GPUs {placement} are not all free; job {job} cannot have them.")
        for rack, machine, gpus in placement:
            self.free[rack, machine] -= gpus
        self.held[job] = placement
        self._room = None

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
        if job not in self.held:
            raise InputError(f"Job {job} holds no GPUs that it could give back.")
        placement = self.held.pop(job)
        for rack, machine, gpus in placement:
            self.free[rack, machine] += gpus
        self._room = None
        return placement

    def state(self) -> list[list[Any]]:
        """Return who holds what, for JSON."""
        return [[job, [list(part) for part in held]] for job, held in self.held.items()]

    def restore(self, state: list[list[Any]]) -> None:
        """Take up a state of `state`, where nobody holds GPUs yet."""
        for job, placement in state:
            self.hold(job, placement_of(placement))


def placement_of(rows: Iterable[Sequence[int]]) -> Placement:
    """Return a placement from the lists that JSON makes of it."""
    return tuple((rack, machine, gpus) for rack, machine, gpus in rows)


def room_of(free: NDArray[np.int64]) -> Room:
    """Most GPUs that one gang can have at each tier; `free` has the shape (racks, machines)."""
    by_rack = free.sum(axis=1)
    return Room(int(free.max()), int(by_rack.max()), int(by_rack.sum()))


def can_hold(free: NDArray[np.int64], placement: Placement) -> bool:
    """Whether all GPUs of a placement are free."""
    return all(free[rack, machine] >= gpus for rack, machine, gpus in placement)


def choose(free: NDArray[np.int64], gpus: int, tier: int, fit: Fit) -> Placement:
    """Choose free GPUs that lie in one machine, in one rack, or anywhere.

    Parameters
    ----------
    free
        Free GPUs of each machine, shape (racks, machines per rack).
    gpus
        GPUs of the gang; so many are free in one machine (rack, cluster).
    tier
        Widest tier over which they may be spread.
    fit
        Chooses among machines and racks.
    """
    if tier == MACHINE:
        rack, machine = divmod(fit.one(free.ravel(), gpus), free.shape[1])
        return ((rack, machine, gpus),)
    by_rack = free.sum(axis=1)
    shares: Mapping[int, int]
    shares = {fit.one(by_rack, gpus): gpus} if tier == RACK else fit.several(by_rack, gpus)
    return tuple(
        (rack, machine, part)
        for rack, share in sorted(shares.items())
        for machine, part in sorted(fit.several(free[rack], share).items())
    )
