"""What every generator of workloads starts with: checked numbers and random streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["streams", "whole_number"]


def whole_number(option: str, value: int, least: int) -> int:
    """Return a whole number, or name the option whose value is none or too small.

    Raises
    ------
    InputError
        If the value is not a whole number >= `least`.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{option} is {value!r}; it must be a whole number >= {least}.")
    return int(value)


def streams(names: Sequence[str], seed: int) -> dict[str, np.random.Generator]:
    """Make one independent random stream for each thing that is drawn.

    Raises
    ------
    InputError
        If the seed is not a whole number >= 0.
    """
    children = np.random.SeedSequence(whole_number("seed", seed, 0)).spawn(len(names))
    pairs = zip(names, children, strict=True)
    return {name: np.random.default_rng(child) for name, child in pairs}
