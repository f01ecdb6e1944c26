"""Which of several machines or racks a gang gets its GPUs from."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from apportion.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["FITS", "Fit", "get_fit"]


class Fit(Protocol):
    """Chooses among machines, or among racks; both are given by their free GPUs, shape (n,)."""

    by_speed: ClassVar[bool]
    """Whether it is asked only where several placements are equally fast for the gang."""

    def one(self, free: Ints, gpus: int) -> int:
        """Return the position of one that has `gpus` free; there is one."""
        ...

    def several(self, free: Ints, gpus: int) -> dict[int, int]:
        """Return GPUs to take by position, `gpus` in all; there are so many."""
        ...


class BestFit:
    """The fullest that holds the gang; where none does, as few as possible."""

    by_speed: ClassVar[bool] = True

    def one(self, free: Ints, gpus: int) -> int:
        """Return the one with fewest free GPUs that has enough; of equal ones the first."""
        return int(np.where(free >= gpus, free, np.iinfo(np.int64).max).argmin())

    def several(self, free: Ints, gpus: int) -> dict[int, int]:
        """Empty the ones with most free GPUs until one holds the rest."""
        if free.max() >= gpus:
            return {self.one(free, gpus): gpus}
        left, taken = free.copy(), dict[int, int]()
        while (most := int(left.max())) < gpus:
            emptiest = int(left.argmax())
            taken[emptiest] = most
            left[emptiest], gpus = 0, gpus - most
        return taken | {self.one(left, gpus): gpus}


class FirstFit:
    """The lowest numbers."""

    by_speed: ClassVar[bool] = False

    def one(self, free: Ints, gpus: int) -> int:
        """Return the first one that has enough."""
        return int((free >= gpus).argmax())

    def several(self, free: Ints, gpus: int) -> dict[int, int]:
        """Take what there is, from the first on."""
        return _in_turn(np.arange(free.size), free, gpus)


class EmptiestFirst:
    """The ones with most free GPUs."""

    by_speed: ClassVar[bool] = False

    def one(self, free: Ints, gpus: int) -> int:
        """Return the one with most free GPUs; of equal ones the first."""
        return int(free.argmax())

    def several(self, free: Ints, gpus: int) -> dict[int, int]:
        """Take what there is, from the emptiest on."""
        return _in_turn(np.argsort(-free, kind="stable"), free, gpus)


class RandomGPUs(EmptiestFirst):
    """One machine or rack: that with most free GPUs. A gang over several: GPUs at random.

    Every set of free GPUs is equally likely: numbers by rack, then by machine of a rack, are
    drawn without replacement.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def several(self, free: Ints, gpus: int) -> dict[int, int]:
        """Draw GPUs without replacement."""
        drawn = self._rng.multivariate_hypergeometric(free, gpus)
        return {int(where): int(drawn[where]) for where in np.flatnonzero(drawn)}


FITS: dict[str, Callable[[np.random.Generator], Fit]] = {
    "best_fit": lambda rng: BestFit(),
    "first_fit": lambda rng: FirstFit(),
    "emptiest": lambda rng: EmptiestFirst(),
    "random": RandomGPUs,
}
"""Ways to choose by name; each is made from the random generator that it may use."""


def get_fit(name: str, rng: np.random.Generator) -> Fit:
    """Return a way to choose machines and racks by its name in `FITS`.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name not in FITS:
        raise unknown_name("placement", name, FITS)
    return FITS[name](rng)


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
