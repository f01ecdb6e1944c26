"""Many equal steps at once, to the last digit as one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from apportion.types import Floats


def running_sums(start: ArrayLike, step: ArrayLike, times: int) -> Floats:
    """Add a step again and again; return every sum, shape (times, ...), rounded as in a loop.

    Parameters
    ----------
    start, step
        Arrays or numbers of the same shape.
    times
        How often, at least once.
    """
    first = np.asarray(start, dtype=float)
    sums = np.empty((times + 1, *first.shape))
    sums[0], sums[1:] = first, step
    return np.asarray(np.add.accumulate(sums, axis=0)[1:], dtype=float)


def add_repeatedly(start: ArrayLike, step: ArrayLike, times: int) -> Floats:
    """Return the last of the `running_sums`."""
    if times == 1:
        return np.asarray(np.add(start, step), dtype=float)
    return np.asarray(running_sums(start, step, times)[-1])
