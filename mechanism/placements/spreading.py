"""Sharing a gang over places with so many free GPUs each: as evenly as they allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def fewest_places(free: NDArray[np.int64], gpus: int) -> int:
    """Return over how many places a gang must be spread at least; they hold it."""
    return int(np.searchsorted(np.cumsum(-np.sort(-free)), gpus)) + 1


def evenly_over(free: Sequence[int], places: int, gpus: int) -> dict[int, int] | None:
    """Share GPUs over so many places, none empty.

    Parameters
    ----------
    free
        Free GPUs of each place.
    places
        How many of them take part.
    gpus
        GPUs to share.

    Returns
    -------
    dict or None
        GPUs by place. Parts differ by one at most if there are places for them, the fullest that
        hold them; else the emptiest places take part, each giving what it has up to an equal part
        of the rest. None if they do not hold so many.
    """
    if not places <= min(gpus, len(free)):
        return None
    whole, rest = divmod(gpus, places)
    ascending = sorted(range(len(free)), key=free.__getitem__)
    larger = [place for place in ascending if free[place] > whole][:rest] if rest else []
    taken = set(larger)
    others = [place for place in ascending if free[place] >= whole and place not in taken]
    if len(larger) < rest or len(others) < places - rest:
        return _as_evenly_as_can_be(free, ascending[-places:], gpus)
    return dict.fromkeys(larger, whole + 1) | dict.fromkeys(others[: places - rest], whole)


def evenly_over_machines(
    free: NDArray[np.int64], racks: int, machines: int, gpus: int
) -> dict[int, dict[int, int]] | None:
    """Share GPUs over so many machines, and these over so many racks.

    Parameters
    ----------
    free
        Free GPUs of each machine, shape (racks, machines per rack).
    racks, machines
        How many take part; machines in all.
    gpus
        GPUs to share.

    Returns
    -------
    dict or None
        GPUs by machine, by rack. Machines hold the same to one GPU, racks as many machines to one;
        the fullest racks that hold their part take it. None if they do not hold so many.
    """
    whole, rest = divmod(gpus, machines)
    parts = [whole + 1] * rest + [whole] * (machines - rest)
    held = free.sum(axis=1)
    ascending = held.argsort(kind="stable").tolist()
    shares: dict[int, dict[int, int]] = {}
    for place in range(racks):
        count = machines // racks + (place < machines % racks)
        inside, parts = parts[:count], parts[count:]
        for rack in ascending:
            if rack not in shares and held[rack] >= sum(inside):
                found = evenly_over(free[rack].tolist(), count, sum(inside))
                if found is not None:
                    shares[rack] = found
                    break
        else:
            return None
    return shares


def _as_evenly_as_can_be(
    free: Sequence[int], ascending: Sequence[int], gpus: int
) -> dict[int, int] | None:
    """Fill all of some places to a level, or to what they have."""
    if free[ascending[0]] < 1 or sum(free[place] for place in ascending) < gpus:
        return None
    shares = {}
    for position, place in enumerate(ascending):
        shares[place] = min(free[place], gpus // (len(ascending) - position))
        gpus -= shares[place]
    return shares
