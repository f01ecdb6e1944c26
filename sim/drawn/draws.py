"""What every generator of workloads starts with: random streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import seed as check_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["streams"]


def streams(names: Sequence[str], seed: int) -> dict[str, np.random.Generator]:
    """Make one independent random stream for each thing that is drawn.

    Raises
    ------
    InputError
        If the seed is not a whole number >= 0.
    """
    children = np.random.SeedSequence(check_seed(seed)).spawn(len(names))
    pairs = zip(names, children, strict=True)
    return {name: np.random.default_rng(child) for name, child in pairs}
