"""Placements by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from apportion.errors import InputError, unknown_name
from apportion.mechanism.placements.built_in import BUILT_IN
from apportion.mechanism.placements.strategy import Strategy

if TYPE_CHECKING:
    import numpy as np

    from apportion.mechanism.placements.by_speed import Placing

__all__ = ["PLACEMENTS", "Placements", "get_placement", "register"]


class Placements(Mapping[str, type[Strategy]]):
    """Placements by name. Names that are not known are looked for in installed packages.

    These offer placements by the entry point group ``apportion.placements``, name to class.
    """

    def __init__(self, known: Mapping[str, type[Strategy]]) -> None:
        self._known = dict(known)

    def __getitem__(self, name: str) -> type[Strategy]:
        """Return the class of a name."""
        if name not in self._known:
            for entry in entry_points(group="apportion.placements", name=name):
                self.add(name, entry.load())
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names that are known."""
        return iter(self._known)

    def __len__(self) -> int:
        """Return how many names are known."""
        return len(self._known)

    def add(self, name: str, strategy: type[Strategy]) -> None:
        """Make a class known by a name.

        Raises
        ------
        InputError
            If it is no placement, or another class has the name.
        """
        if not (isinstance(strategy, type) and issubclass(strategy, Strategy)):
            raise InputError(f"The placement {name!r} must be a subclass of Strategy: {strategy}.")
        if self._known.setdefault(name, strategy) is not strategy:
            raise InputError(f"There is already a placement {name!r}: {self._known[name]!r}.")


PLACEMENTS = Placements(BUILT_IN)
"""Placements by name, for every mechanism."""


def register(strategy: type[Strategy]) -> type[Strategy]:
    """Make a placement known by its ``name``; usable as a decorator.

    Raises
    ------
    InputError
        If another class already has the name, or this one has none.
    """
    if not isinstance(getattr(strategy, "name", None), str):
        raise InputError(f"The placement {strategy!r} has no name: give the class a text `name`.")
    PLACEMENTS.add(strategy.name, strategy)
    return strategy


def get_placement(
    name: str, rng: np.random.Generator | None = None, placings: Sequence[Placing] = ()
) -> Strategy:
    """Return a placement by its name, ready to choose.

    Parameters
    ----------
    name
        A name out of `PLACEMENTS`, or of a placement that an installed package offers.
    rng, placings
        As in `Strategy`.

    Raises
    ------
    InputError
        If there is none of that name; it says which there are.
    """
    if not isinstance(name, str) or name not in PLACEMENTS:
        raise unknown_name("placement", name, PLACEMENTS)
    return PLACEMENTS[name](rng, placings)
