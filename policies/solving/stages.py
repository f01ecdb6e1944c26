"""Optional stages of a solve: each says for which programs it is made; the others pass it by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies.solving.cone import ConeProgram, Kind

Given = ParamSpec("Given")
Made = TypeVar("Made")


@dataclass(eq=False)
class Stage(Generic[Given, Made]):
    """What makes something of a program, or nothing (``None``), as of programs that do not fit.

    Attributes
    ----------
    step
        A function of a program.
    kinds
        What the programs may have beside linear terms and half lines.
    """

    step: Callable[Concatenate[ConeProgram, Given], Made | None]
    kinds: frozenset[Kind]

    def fits(self, program: ConeProgram) -> bool:
        """Whether the stage is made for all that is in a program."""
        return program.kinds <= self.kinds

    def __call__(
        self, program: ConeProgram, /, *args: Given.args, **options: Given.kwargs
    ) -> Made | None:
        """Take the step, if the program fits."""
        return self.step(program, *args, **options) if self.fits(program) else None


def made_for(
    *kinds: Kind,
) -> Callable[[Callable[Concatenate[ConeProgram, Given], Made | None]], Stage[Given, Made]]:
    """Make a function a stage, for programs with some kinds of terms and cones."""

    def limited(step: Callable[Concatenate[ConeProgram, Given], Made | None]) -> Stage[Given, Made]:
        stage = Stage(step, frozenset(kinds))
        update_wrapper(stage, step)
        return stage

    return limited
