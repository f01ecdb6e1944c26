"""Placements by name."""

from __future__ import annotations

from inspect import isabstract
from typing import TYPE_CHECKING

from apportion.errors import InputError
from apportion.mechanism.placements.built_in import BUILT_IN
from apportion.mechanism.placements.compatible import Compatible, CompatibleOneByOne
from apportion.mechanism.placements.strategy import Strategy
from apportion.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from apportion.mechanism.placements.by_speed import Placing


def _is_strategy(value: object) -> bool:
    kind = isinstance(value, type) and issubclass(value, Strategy)
    return kind and not isabstract(value)


ON_LINKS: dict[str, type[Compatible]] = {
    each.name: each for each in (Compatible, CompatibleOneByOne)
}
"""Those that compare the links of gangs."""

PLACEMENTS: Registry[type[Strategy]] = Registry(
    "placement",
    "apportion.placements",
    {**BUILT_IN, **ON_LINKS},
    _is_strategy,
    "a subclass of apportion.mechanism.placements.Strategy",
)
"""Placements by name, for every mechanism; best fit is another name for keeping gangs together.

Packages offer placements through the entry point group ``apportion.placements``, name to class.
"""


def register(strategy: type[Strategy]) -> type[Strategy]:
    """Make a placement known by its ``name``; usable as a decorator.

    Raises
    ------
    InputError
        If another class already has the name, if this one has none, or is no `Strategy`.
    """
    name = getattr(strategy, "name", None)
    if not isinstance(name, str):
        raise InputError(f"The placement {strategy!r} has no name: give the class a text `name`.")
    PLACEMENTS[name] = strategy
    return strategy


def get_placement(
    placement: str | type[Strategy],
    rng: np.random.Generator | None = None,
    placings: Sequence[Placing] = (),
) -> Strategy:
    """Return a placement, ready to choose.

    Parameters
    ----------
    placement
        A name out of `PLACEMENTS`, or of a placement that an installed package offers; or a class.
    rng, placings
        As in `Strategy`.

    Raises
    ------
    InputError
        If there is none of that name, or it is no placement; it says which there are.
    """
    return PLACEMENTS.of(placement)(rng, placings)
