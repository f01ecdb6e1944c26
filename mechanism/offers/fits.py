"""Which of several machines or racks a gang gets its GPUs from, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.errors import unknown_name
from apportion.mechanism.placements.counts import (
    BestFit,
    EmptiestFirst,
    Fit,
    LowestFirst,
    RandomDraw,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

__all__ = ["FITS", "Fit", "get_fit"]

FITS: dict[str, Callable[[np.random.Generator], Fit]] = {
    "best_fit": lambda rng: BestFit(),
    "first_fit": lambda rng: LowestFirst(),
    "emptiest": lambda rng: EmptiestFirst(),
    "random": RandomDraw,
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
