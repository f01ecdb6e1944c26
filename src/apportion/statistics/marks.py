"""Which policy is best, as far as paired figures can tell it from noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.statistics.intervals import half_width

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["marks_of"]

_LEVEL = 0.05
"""Probability that noise makes a best one out of equals, at most about."""


def marks_of(replicates: NDArray[np.float64], *, low: bool = True) -> list[str]:
    """Mark the best of some policies, and those that noise may have put behind it.

    The difference of each from the best is one number per replicate, as all have seen the same jobs
    there. It is noise where Student's interval about its mean includes 0, at a level of 5 % over
    all of them together (Bonferroni).

    Parameters
    ----------
    replicates
        Shape (policies, replicates).
    low
        Whether less is better.

    Returns
    -------
    list of str
        ``"*"`` for the best, if the others are worse by more than noise; else ``"~"`` for the best
        and for each that is worse by noise; nothing for the others. Nothing for all where a figure
        is not known, where there is nothing to compare, and where replicates do not differ.
    """
    policies, count = replicates.shape
    none = [""] * policies
    if policies < 2 or count < 2 or not np.isfinite(replicates).all():
        return none
    if not np.ptp(replicates, axis=1).any() or not np.ptp(replicates, axis=0).any():
        return none
    means = replicates.mean(axis=1) * (1 if low else -1)
    best = int(means.argmin())
    apart = (replicates - replicates[best]) * (1 if low else -1)
    near = apart.mean(axis=1) <= half_width(apart, 1 - _LEVEL / (policies - 1))
    if near.sum() == 1:
        return ["*" if row == best else "" for row in range(policies)]
    return ["~" if each else "" for each in near]
