"""Choosing among machines or racks by how many free GPUs each has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from apportion.mechanism.places import MACHINE, RACK, Placement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class Fit(Protocol):
    """Chooses among machines, or among racks; both are given by their free GPUs, shape (n,)."""

    def one(self, free: Ints, gpus: int) -> int:
        """Return the position of one that has `gpus` free; there is one."""
        ...

    def several(self, free: Ints, gpus: int) -> dict[int, int]:
        """Return GPUs to take by position, `gpus` in all; there are so many."""
        ...


class BestFit:
    """The fullest that holds the gang; where none does, as few as possible."""

    def one(self, free: Ints, gpus: int) -> int:
        """Return the one with fewest free GPUs that has enough; of equal ones the first."""
        enough = (free >= gpus).nonzero()[0]
        return int(enough[free[enough].argmin()])

    def several(self, free: Ints, gpus: int) -> dict[int, int]:
        """Empty the ones with most free GPUs until one holds the rest."""
        left, taken = free.copy(), dict[int, int]()
        while (most := int(left[emptiest := int(left.argmax())])) < gpus:
            taken[emptiest] = most
            left[emptiest], gpus = 0, gpus - most
        taken[self.one(left, gpus)] = gpus
        return taken


class LowestFirst:
    """The lowest numbers."""

    def one(self, free: Ints, gpus: int) -> int:
        """Return the first one that has enough."""
        return int((free >= gpus).argmax())

    def several(self, free: Ints, gpus: int) -> dict[int, int]:
        """Take what there is, from the first on."""
        return _in_turn(np.arange(free.size), free, gpus)


class EmptiestFirst:
    """The ones with most free GPUs."""

    def one(self, free: Ints, gpus: int) -> int:
        """Return the one with most free GPUs; of equal ones the first."""
        return int(free.argmax())

    def several(self, free: Ints, gpus: int) -> dict[int, int]:
        """Take what there is, from the emptiest on."""
        return _in_turn(np.argsort(-free, kind="stable"), free, gpus)


class RandomDraw(EmptiestFirst):
    """GPUs at random; where one machine or rack must hold them all, that with most free GPUs.

    Every set of free GPUs is equally likely: numbers by rack, then by machine of a rack, are
    drawn without replacement.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def several(self, free: Ints, gpus: int) -> dict[int, int]:
        """Draw GPUs without replacement."""
        drawn = self._rng.multivariate_hypergeometric(free, gpus)
        return {int(where): int(drawn[where]) for where in np.flatnonzero(drawn)}


def choose(free: Ints, gpus: int, tier: int, fit: Fit) -> Placement:
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


def _in_turn(order: NDArray[np.intp], free: Ints, gpus: int) -> dict[int, int]:
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
