"""The shape of a gang: how many GPUs it has in each machine, rack by rack."""

from __future__ import annotations

from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

Shape = tuple[tuple[int, ...], ...]
"""GPUs of a gang in each machine that it uses, by rack, e.g. ``((4, 4), (8,))``."""


def canonical_shape(racks: Iterable[Iterable[int]]) -> Shape:
    """Write a shape in the one order that all equal shapes share.

    Machines stand in descending order of the gang's GPUs; racks in descending order of its GPUs,
    then of its machines, then of the machines' counts. Machines and racks without a GPU are left
    out.

    Parameters
    ----------
    racks
        GPUs of the gang in each machine, by rack; any integers, in any order.

    Raises
    ------
    InputError
        If a count is not a whole number >= 0, or the gang has no GPU at all.
    """
    given = list(map(list, racks))
    used = []
    for rack in given:
        # As nearly always: whole numbers that need no other look.
        plain = {*map(type, rack)} == {int} and min(rack) >= 0
        checked = rack if plain else list(map(_count, rack))
        counts = tuple(sorted(filter(None, checked), reverse=True))
        if counts:
            used.append((sum(counts), len(counts), counts))
    if not used:
        raise InputError(f"The shape {given} has no GPU; a gang has at least one.")
    used.sort(reverse=True)
    return tuple([counts for _, _, counts in used])


def shape_of_placement(placement: Iterable[tuple[int, int, int]]) -> Shape:
    """Shape of a gang from where it runs.

    Parameters
    ----------
    placement
        (rack, machine, GPUs) of each part of the gang, machines numbered within their rack; parts
        on the same machine add up.

    Raises
    ------
    InputError
        As `canonical_shape`.
    """
    return _shape_of(tuple(placement))


@lru_cache(maxsize=50_000)  # those of a cluster come again and again
def _shape_of(placement: tuple[tuple[int, int, int], ...]) -> Shape:
    racks: dict[int, dict[int, int]] = {}
    for rack, machine, gpus in placement:
        machines = racks.setdefault(rack, {})
        machines[machine] = machines.get(machine, 0) + gpus
    return canonical_shape(map(dict.values, racks.values()))


def tier_of(shape: Shape) -> int:
    """Tightest tier that holds a shape, as an index into `apportion.cluster.TIERS`."""
    if machines_of(shape) == 1:
        return 0
    return 1 if len(shape) == 1 else 2


def gpus_of(shape: Shape) -> int:
    """GPUs of the whole gang."""
    return sum(map(sum, shape))


def machines_of(shape: Shape) -> int:
    """Machines that the gang uses."""
    return sum(map(len, shape))


def _count(value: object) -> int:
    """Check the GPUs of a gang in one machine."""
    try:
        count = index(value)  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if count < 0 or isinstance(value, bool):
        raise InputError(f"A shape has {value!r} GPUs in a machine; it must be whole and >= 0.")
    return count
