"""Whole placements drawn at random, in which every gang lies at the tier at which it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from apportion.mechanism.scheduler import MACHINE, RACK, tier_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.placements.strategy import Gang
    from apportion.mechanism.scheduler import Placement
    from apportion.types import Int64s


P = TypeVar("P")
F = TypeVar("F")


def drawn_together(
    rng: np.random.Generator,
    gangs: Sequence[Gang],
    first: Sequence[Placement],
    devices: Devices,
    *,
    shaped: bool,
) -> tuple[Placement, ...] | None:
    """Draw a placement for each gang in several machines; those in one stay where they are.

    Parameters
    ----------
    rng
        What draws.
    gangs, first
        Who is placed, and where each would be.
    devices
        What is free.
    shaped
        Whether each gang keeps how many GPUs it has together; else only its tier.

    Returns
    -------
    tuple of Placement or None
        None if no room was found for one of them.
    """
    left = {gang.kind: devices.free_for(gang).free.copy() for gang in gangs}
    found = list(first)
    within = [tier_of(where) == MACHINE for where in first]
    for place in sorted(range(len(gangs)), key=lambda place: not within[place]):
        free, own = left[gangs[place].kind], first[place]
        where: Placement | None = own
        if not within[place] and shaped:
            where = _of_same_shape(rng, free, own)
        elif not within[place]:
            where = _of_same_tier(rng, free, own)
        if where is None:
            return None
        for rack, machine, gpus in where:
            free[rack][machine] -= gpus
        found[place] = where
    return tuple(found)


def _of_same_tier(rng: np.random.Generator, free: Int64s, own: Placement) -> Placement | None:
    """Draw racks and machines, and fill them one after the other; None if the rest is too little.

    A gang over racks leaves one of its GPUs to another rack, one over machines to another machine.
    """
    wanted, tier = sum(gpus for _, _, gpus in own), tier_of(own)
    rooms = free.sum(axis=1)
    racks = rng.permutation(rooms.size)
    if tier == RACK:
        racks = racks[rooms[racks] >= wanted][:1]
    found, left = list[tuple[int, int, int]](), wanted
    for rack in racks.tolist():
        room = left if tier == RACK else min(left, wanted - 1)
        for machine in rng.permutation(free.shape[1]).tolist():
            gpus = min(room, wanted - 1, int(free[rack, machine]))
            if gpus:
                found.append((rack, machine, gpus))
                room, left = room - gpus, left - gpus
    return None if left else tuple(sorted(found))


def _of_same_shape(rng: np.random.Generator, free: Int64s, own: Placement) -> Placement | None:
    """Draw racks and machines for the parts of a gang; None if one of them finds no room."""
    parts: dict[int, list[int]] = {}
    for rack, _, gpus in own:
        parts.setdefault(rack, []).append(gpus)

    def in_rack(rack: int, part: list[int]) -> list[tuple[int, int, int]] | None:
        def on(machine: int, gpus: int) -> tuple[int, int, int] | None:
            return (rack, machine, gpus) if free[rack][machine] >= gpus else None

        return _one_each(rng, free[rack], sorted(part, reverse=True), on)

    largest = sorted(parts.values(), key=lambda part: (-sum(part), -len(part), part))
    found = _one_each(rng, free.sum(axis=1), largest, in_rack)
    return None if found is None else tuple(sorted(each for part in found for each in part))


def _one_each(
    rng: np.random.Generator,
    free: Int64s,
    parts: Sequence[P],
    fit: Callable[[int, P], F | None],
) -> list[F] | None:
    """Draw a rack or machine for each part."""
    order = rng.permutation(free.size).tolist()
    found: list[F] = []
    for part in parts:
        fits = ((place, fit(place, part)) for place in order)
        place, here = next((each for each in fits if each[1] is not None), (None, None))
        if here is None:
            return None
        order.remove(place)
        found.append(here)
    return found
