"""Where the GPUs of a gang are, counted by rack and machine, and the tier in which they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from apportion.cluster import TIERS

if TYPE_CHECKING:
    from apportion.types import Int64s


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


def room_of(free: Int64s) -> Room:
    """Most GPUs that one gang can have at each tier; `free` has the shape (racks, machines)."""
    if not free.size:
        return Room(0, 0, 0)
    by_rack = free.sum(axis=1)
    return Room(int(free.max()), int(by_rack.max()), int(by_rack.sum()))


def can_hold(free: Int64s, placement: Placement) -> bool:
    """Whether all GPUs of a placement are free; `free` has the shape (racks, machines)."""
    return all(free[rack, machine] >= gpus for rack, machine, gpus in placement)
