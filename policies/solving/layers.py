"""Optional layers of a solve: each says for which programs it is made; the others pass it by."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.solving.solvers.cone_program import ConeProgram, Kind

    Given = ParamSpec("Given")
    Made = TypeVar("Made")
    Layer = Callable[Concatenate[ConeProgram, Given], Made | None]

__all__ = ["made_for"]


def made_for(*kinds: Kind) -> Callable[[Layer[Given, Made]], Layer[Given, Made]]:
    """Let programs pass by a layer that is not made for all that is in them.

    Every program may have linear terms and half lines. A layer returns what it makes of a program,
    or ``None`` where it makes nothing of it, which is what a program gets that passes by.

    Parameters
    ----------
    kinds
        What else a program may have for the layer to be made for it.
    """

    def limited(layer: Layer[Given, Made]) -> Layer[Given, Made]:
        @wraps(layer)
        def checked(
            program: ConeProgram, /, *args: Given.args, **options: Given.kwargs
        ) -> Made | None:
            return layer(program, *args, **options) if program.kinds <= taken else None

        return checked

    taken = frozenset(kinds)
    return limited
