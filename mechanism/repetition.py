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
    np.add.accumulate(sums, axis=0, out=sums)
    return sums[1:]


def add_repeatedly(start: ArrayLike, step: ArrayLike, times: int) -> Floats:
    """Return the last of the `running_sums`."""
    last: Floats = np.add(start, step) if times == 1 else running_sums(start, step, times)[-1]
    return last
