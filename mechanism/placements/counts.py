"""Choosing among places, machines or racks, by how many free GPUs each has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from apportion.mechanism.scheduler import MACHINE, RACK, Placement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.types import Int64s


class Fit(Protocol):
    """Chooses among machines, or among racks; both are given by their free GPUs, shape (n,)."""

    def one(self, free: Int64s, gpus: int) -> int:
        """Return the position of one that has `gpus` free; there is one."""
        ...

    def several(self, free: Int64s, gpus: int) -> dict[int, int]:
        """Return GPUs to take by position, `gpus` in all; there are so many."""
        ...


class BestFit:
    """The fullest that holds the gang; where none does, as few as possible."""

    def one(self, free: Int64s, gpus: int) -> int:
        """Return the one with fewest free GPUs that has enough; of equal ones the first."""
        enough = (free >= gpus).nonzero()[0]
        return int(enough[free[enough].argmin()])

    def several(self, free: Int64s, gpus: int) -> dict[int, int]:
        """Empty the ones with most free GPUs until one holds the rest."""
        left, taken = free.copy(), dict[int, int]()
        while (most := int(left[emptiest := int(left.argmax())])) < gpus:
            taken[emptiest] = most
            left[emptiest], gpus = 0, gpus - most
        taken[self.one(left, gpus)] = gpus
        return taken


class LowestFirst:
    """The lowest numbers."""

    def one(self, free: Int64s, gpus: int) -> int:
        """Return the first one that has enough."""
        return int((free >= gpus).argmax())

    def several(self, free: Int64s, gpus: int) -> dict[int, int]:
        """Take what there is, from the first on."""
        return _in_turn(np.arange(free.size), free, gpus)


class EmptiestFirst:
    """The ones with most free GPUs."""

    def one(self, free: Int64s, gpus: int) -> int:
        """Return the one with most free GPUs; of equal ones the first."""
        return int(free.argmax())

    def several(self, free: Int64s, gpus: int) -> dict[int, int]:
        """Take what there is, from the emptiest on."""
        return _in_turn(np.argsort(-free, kind="stable"), free, gpus)


class RandomDraw(EmptiestFirst):
    """GPUs at random; where one machine or rack must hold them all, that with most free GPUs.

    Every set of free GPUs is equally likely: numbers by rack, then by machine of a rack, are
    drawn without replacement.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def several(self, free: Int64s, gpus: int) -> dict[int, int]:
        """Draw GPUs without replacement."""
        drawn = self._rng.multivariate_hypergeometric(free, gpus)
        return {int(where): int(drawn[where]) for where in np.flatnonzero(drawn)}


def choose(free: Int64s, gpus: int, tier: int, fit: Fit) -> Placement:
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


def _in_turn(order: NDArray[np.intp], free: Int64s, gpus: int) -> dict[int, int]:
    """Take what there is in an order until there are enough."""
    taken: dict[int, int] = {}
    for where in order.tolist():
        part = min(int(free[where]), gpus)
        if part:
            taken[where] = part
            gpus -= part
        if not gpus:
            break
    return taken


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
